//! The subject by the instructions of the function: from the access backwards to the variable that its base came from.

use crate::subject::arm64;
use crate::subject::binary::ImageText;
use crate::subject::facts::{FaultState, FaultSubject, SubjectEvidence, SubjectValue, TOP_BYTE};
use crate::subject::instruction::{Effect, Flow, Instruction, MemoryOperand, RegisterNumber, register_bit};
use crate::subject::members::{AccessPath, Members, POINTER_BYTES, PointerExpression, PointerTarget};
use crate::subject::reasons::SubjectAbstention;
use crate::subject::x86_64;
use crate::{FunctionFacts, HeldVariable, RegisterSet, VariableHolder, VariableTypeKind};
use std::collections::HashSet;

/// The most instructions that are followed backwards.
const STEPS_LIMIT: usize = 64;
/// The most loads that are followed backwards.
const LOADS_LIMIT: usize = 3;
/// The most instructions of a function.
const FUNCTION_INSTRUCTIONS_LIMIT: usize = 32_768;
/// The bytes of an instruction of arm64.
const WORD_BYTES: u64 = 4;

/// The instructions of a function up to and with the one at the fault.
pub struct FunctionWalk<'w, 't> {
    members: Members<'w, 't>,
    state: &'w FaultState<'w>,
    registers: RegisterSet,
    instructions: Vec<Instruction>,
    /// The addresses that a branch of the function leads to.
    targets: HashSet<u64>,
    /// True if a branch may lead anywhere in the function.
    has_unknown_targets: bool,
    /// The bytes of the instruction at the fault.
    code: Vec<u8>,
}

/// A pointer, and the variable that its expression begins with.
struct NamedPointer<'t> {
    pointer: PointerExpression,
    variable: HeldVariable<'t>,
}

/// A register before an instruction.
#[derive(Clone, Copy)]
struct RegisterBefore {
    register: RegisterNumber,
    /// The position of the instruction.
    position: usize,
    /// The registers that were written from there to the fault.
    written: u64,
    loads: usize,
}

impl<'w, 't> FunctionWalk<'w, 't> {
    /// Decodes the function of an address, relative to the image.
    pub fn decode(
        members: Members<'w, 't>,
        function: &FunctionFacts<'t>,
        state: &'w FaultState<'w>,
        text: &ImageText<'_>,
        address: u64,
    ) -> Result<FunctionWalk<'w, 't>, SubjectAbstention> {
        let registers = members.table.registers();
        let bytes = text.read_range(function.start, function.size).ok_or(SubjectAbstention::NoInstruction)?;
        let all = match registers {
            RegisterSet::Arm64 => decode_words(bytes, function.start),
            RegisterSet::X86_64 => {
                x86_64::decode_function(bytes, function.start, address, FUNCTION_INSTRUCTIONS_LIMIT)
            }
        };
        if all.len() >= FUNCTION_INSTRUCTIONS_LIMIT {
            return Err(SubjectAbstention::TooFar);
        }
        let position = all.iter().position(|instruction| instruction.address == address);
        let position = position.ok_or(SubjectAbstention::NoInstruction)?;
        let targets = all.iter().filter_map(|instruction| match instruction.flow {
            Flow::Leave { target } => target,
            _ => None,
        });
        let next = all.get(position + 1).map_or(function.start + function.size, |next| next.address);
        let code = text.read_range(address, next - address).unwrap_or_default().to_vec();
        Ok(FunctionWalk {
            members,
            state,
            registers,
            targets: targets.collect(),
            has_unknown_targets: all.iter().any(|instruction| instruction.flow == Flow::LeaveToRegister),
            instructions: all.into_iter().take(position + 1).collect(),
            code,
        })
    }

    /// Names the subject of the access at the fault.
    pub fn find_subject(&self) -> Result<FaultSubject, SubjectAbstention> {
        let position = self.instructions.len() - 1;
        let at_fault = self.instructions.last().ok_or(SubjectAbstention::NoInstruction)?;
        let memory = at_fault.memory().ok_or(SubjectAbstention::UnknownInstruction)?;
        let value = self.register(memory.base).ok_or(SubjectAbstention::NoInstruction)?;
        let accessed = memory
            .find_address(&|register| self.register(register))
            .ok_or(SubjectAbstention::UnknownInstruction)?;
        // After a general protection fault the address is not known.
        if let Some(address) = self.state.address
            && accessed & !TOP_BYTE != address & !TOP_BYTE
        {
            return Err(SubjectAbstention::AddressMismatch);
        }
        let before = RegisterBefore { register: memory.base, position, written: 0, loads: 0 };
        let NamedPointer { pointer, variable } = self.find_expression(before)?;
        let access = self.find_access(&pointer, memory, at_fault.address)?;
        let name = self.registers.name(memory.base).unwrap_or_default();
        let evidence = vec![
            SubjectEvidence::Register { register: name, value },
            SubjectEvidence::Instruction { code: self.code.clone(), relative_address: at_fault.address },
            SubjectEvidence::for_variable(&variable),
        ];
        let offset = accessed.wrapping_sub(value).cast_signed();
        // The distance to an element is a value of the program, unless the address itself says it.
        let is_static = memory.index.is_none() || value == 0;
        let subject_value = SubjectValue { value, offset: is_static.then_some(offset) };
        Ok(FaultSubject {
            call: variable.call,
            ..FaultSubject::new(pointer, subject_value, access, evidence)
        })
    }

    fn register(&self, number: RegisterNumber) -> Option<u64> {
        (self.state.report.register)(self.registers.name(number)?)
    }

    fn function_at(&self, address: u64) -> Result<FunctionFacts<'t>, SubjectAbstention> {
        let found = self.members.table.find_holders(address).map_err(|_| SubjectAbstention::DamagedTable)?;
        found.ok_or(SubjectAbstention::NoVariables)
    }

    /// Returns the expression whose value a register had.
    fn find_expression(&self, before: RegisterBefore) -> Result<NamedPointer<'t>, SubjectAbstention> {
        let mut here = before;
        for _ in 0..STEPS_LIMIT {
            let instruction = self.instructions.get(here.position).ok_or(SubjectAbstention::NoInstruction)?;
            let function = self.function_at(instruction.address)?;
            if let Some(found) = self.variable_in_register(&function, here.register)? {
                return Ok(found);
            }
            if self.has_unknown_targets || self.targets.contains(&instruction.address) {
                return Err(SubjectAbstention::OtherBlock);
            }
            let previous = here.position.checked_sub(1).ok_or(SubjectAbstention::NoVariableInRegister)?;
            let writer = self.instructions.get(previous).ok_or(SubjectAbstention::NoInstruction)?;
            if writer.flow != Flow::Next {
                return Err(SubjectAbstention::OtherBlock);
            }
            here = RegisterBefore { position: previous, written: here.written | writer.written, ..here };
            if writer.writes(here.register) {
                match writer.effect {
                    Effect::Move { to, from } if to == here.register => here.register = from,
                    Effect::LoadPointer { to, memory } if to == here.register => {
                        return self.find_loaded(here, memory, writer.address);
                    }
                    Effect::DataAddress { .. } => return Err(SubjectAbstention::GlobalVariable),
                    _ => return Err(SubjectAbstention::BaseRegisterIsComputed),
                }
            }
        }
        Err(SubjectAbstention::TooFar)
    }

    /// Returns the pointer variable in a register: that of the innermost call.
    fn variable_in_register(
        &self,
        function: &FunctionFacts<'t>,
        register: RegisterNumber,
    ) -> Result<Option<NamedPointer<'t>>, SubjectAbstention> {
        let in_register =
            |variable: &&HeldVariable<'_>| variable.holder == VariableHolder::Register(register);
        let mut found: Vec<NamedPointer<'t>> = Vec::new();
        for variable in function.variables.iter().filter(in_register) {
            if let Some(pointer) = self.members.pointer_variable(variable.name, variable.type_id)? {
                found.push(NamedPointer { pointer, variable: *variable });
            }
        }
        let innermost = found.iter().map(|named| named.variable.call).min();
        found.retain(|named| Some(named.variable.call) == innermost);
        found.dedup_by(|one, other| one.pointer.text == other.pointer.text);
        if found.len() > 1 { Err(SubjectAbstention::SeveralCandidates) } else { Ok(found.pop()) }
    }

    /// Returns the expression that an instruction loaded into the base register.
    fn find_loaded(
        &self,
        here: RegisterBefore,
        memory: MemoryOperand,
        address: u64,
    ) -> Result<NamedPointer<'t>, SubjectAbstention> {
        if memory.index.is_some() {
            return Err(SubjectAbstention::BaseRegisterIsComputed);
        }
        let function = self.function_at(address)?;
        if let Some(found) = self.variable_in_slot(&function, here, memory)? {
            return Ok(found);
        }
        if here.loads + 1 >= LOADS_LIMIT {
            return Err(SubjectAbstention::TooFar);
        }
        let before = RegisterBefore { register: memory.base, loads: here.loads + 1, ..here };
        let base = self.find_expression(before)?;
        let pointer = self.members.find_loaded_pointer(&base.pointer, memory.displacement)?;
        Ok(NamedPointer { pointer, ..base })
    }

    /// Returns the variable in memory that an operand reads, or the pointer in it.
    fn variable_in_slot(
        &self,
        function: &FunctionFacts<'t>,
        here: RegisterBefore,
        memory: MemoryOperand,
    ) -> Result<Option<NamedPointer<'t>>, SubjectAbstention> {
        let is_kept = |register: RegisterNumber| here.written & register_bit(register) == 0;
        let read = self.register(memory.base).map(|base| base.wrapping_add_signed(memory.displacement));
        let Some(read) = read.filter(|_| is_kept(memory.base) && !function.is_in_prologue) else {
            return Ok(None);
        };
        let mut found = Vec::new();
        for variable in &function.variables {
            let VariableHolder::Slot { base, offset } = variable.holder else { continue };
            let Some(start) = self.register(base).filter(|_| is_kept(base)) else { continue };
            let facts = self.members.describe(variable.type_id)?;
            let start = start.wrapping_add_signed(offset);
            let Some(rest) = read.checked_sub(start).filter(|rest| *rest < facts.size) else { continue };
            let pointer = if facts.kind == VariableTypeKind::Composite {
                self.members.find_pointer_in(&format!("{}.", variable.name), &facts, rest)?
            } else if rest == 0 && facts.size == POINTER_BYTES {
                self.members.pointer_variable(variable.name, variable.type_id)?
            } else {
                None
            };
            found.extend(pointer.map(|pointer| NamedPointer { pointer, variable: *variable }));
        }
        if found.len() > 1 { Err(SubjectAbstention::SeveralCandidates) } else { Ok(found.pop()) }
    }

    fn find_access(
        &self,
        pointer: &PointerExpression,
        memory: MemoryOperand,
        address: u64,
    ) -> Result<AccessPath, SubjectAbstention> {
        let Some(index) = memory.index else {
            return self.members.find_access(pointer, memory.displacement, Some(u64::from(memory.size)));
        };
        let PointerTarget::Type(target) = pointer.target else { return Ok(AccessPath::default()) };
        let element = self.members.describe(target)?.size;
        let function = self.function_at(address)?;
        let mut named = function
            .variables
            .iter()
            .filter(|variable| variable.holder == VariableHolder::Register(index.register));
        let path = match (named.next(), named.next()) {
            (Some(variable), None) if 1_u64 << index.shift == element && memory.displacement == 0 => {
                Some(format!("{}[{}]", pointer.text, variable.name))
            }
            _ => None,
        };
        Ok(AccessPath { path, member: None })
    }
}

fn decode_words(bytes: &[u8], start: u64) -> Vec<Instruction> {
    let (words, _) = bytes.as_chunks::<4>();
    let addresses = (start..).step_by(WORD_BYTES as usize);
    let decode = |word: &[u8; 4], address| arm64::decode(u32::from_le_bytes(*word), address);
    let words = words.iter().take(FUNCTION_INSTRUCTIONS_LIMIT).zip(addresses);
    words.map(|(word, address)| decode(word, address)).collect()
}

//! Instructions of x86_64, by the decoder of `iced-x86`.

use crate::subject::instruction::{
    AddressIndex, Effect, Flow, IndexWidth, Instruction, MemoryOperand, RegisterNumber, register_bit,
};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, OpAccess, OpKind, Register,
};

/// The general registers by their numbers in DWARF.
const DWARF_ORDER: [Register; 16] = [
    Register::RAX,
    Register::RDX,
    Register::RCX,
    Register::RBX,
    Register::RSI,
    Register::RDI,
    Register::RBP,
    Register::RSP,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
const POINTER_BYTES: usize = 8;

/// Decodes the instructions of a function in their order, up to and with the one at an address. Returns none if no
/// instruction begins at it.
pub fn decode_function(text: &[u8], start: u64, address: u64, limit: usize) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(64, text, start, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    let mut found = Vec::new();
    let mut is_reached = false;
    while decoder.can_decode() && found.len() < limit {
        let decoded = decoder.decode();
        if decoded.is_invalid() {
            break;
        }
        is_reached |= decoded.ip() == address;
        found.push(convert(&decoded, &mut factory));
    }
    if is_reached { found } else { Vec::new() }
}

fn convert(decoded: &iced_x86::Instruction, factory: &mut InstructionInfoFactory) -> Instruction {
    let info = factory.info(decoded);
    let mut written = 0;
    for used in info.used_registers() {
        let is_write = matches!(
            used.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        if is_write && let Some(number) = dwarf_number(used.register()) {
            written |= register_bit(number);
        }
    }
    Instruction {
        address: decoded.ip(),
        effect: find_effect(decoded, info),
        flow: find_flow(decoded),
        written,
    }
}

fn find_flow(decoded: &iced_x86::Instruction) -> Flow {
    match decoded.flow_control() {
        FlowControl::Next => Flow::Next,
        FlowControl::IndirectBranch => Flow::LeaveToRegister,
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
            Flow::Leave { target: Some(decoded.near_branch_target()) }
        }
        _ => Flow::Leave { target: None },
    }
}

fn find_effect(decoded: &iced_x86::Instruction, info: &iced_x86::InstructionInfo) -> Effect {
    if decoded.code() == Code::Mov_r64_rm64 || decoded.code() == Code::Mov_rm64_r64 {
        let registers = (dwarf_number(decoded.op0_register()), dwarf_number(decoded.op1_register()));
        if let ((OpKind::Register, OpKind::Register), (Some(to), Some(from))) =
            ((decoded.op0_kind(), decoded.op1_kind()), registers)
        {
            return Effect::Move { to, from };
        }
    }
    let has_memory = (0..decoded.op_count()).any(|operand| decoded.op_kind(operand) == OpKind::Memory);
    if !has_memory {
        return Effect::Other;
    }
    let to = dwarf_number(decoded.op0_register());
    if decoded.is_ip_rel_memory_operand() {
        return to.map_or(Effect::Other, |to| Effect::DataAddress { to });
    }
    let is_accessed = info.used_memory().iter().any(|used| used.access() != OpAccess::NoMemAccess);
    let Some(memory) = find_memory(decoded).filter(|_| is_accessed) else { return Effect::Other };
    match to {
        Some(to) if decoded.code() == Code::Mov_r64_rm64 => Effect::LoadPointer { to, memory },
        _ => Effect::Access { memory },
    }
}

fn find_memory(decoded: &iced_x86::Instruction) -> Option<MemoryOperand> {
    let has_segment = matches!(decoded.memory_segment(), Register::FS | Register::GS);
    let base = decoded.memory_base();
    if has_segment || base.size() != POINTER_BYTES {
        return None;
    }
    let index = match decoded.memory_index() {
        Register::None => None,
        index => Some(AddressIndex {
            register: dwarf_number(index)?,
            width: IndexWidth::Whole,
            shift: u8::try_from(decoded.memory_index_scale().trailing_zeros()).ok()?,
        }),
    };
    Some(MemoryOperand {
        base: dwarf_number(base)?,
        index,
        displacement: decoded.memory_displacement64().cast_signed(),
        size: u32::try_from(decoded.memory_size().size()).ok()?,
    })
}

fn dwarf_number(register: Register) -> Option<RegisterNumber> {
    let whole = register.full_register();
    let number = DWARF_ORDER.iter().position(|known| *known == whole)?;
    RegisterNumber::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x1000;

    fn decode(bytes: &[u8]) -> Instruction {
        decode_function(bytes, START, START, 1).pop().unwrap()
    }

    #[test]
    fn loads_copies_and_branches_are_decoded() {
        let memory = |base, displacement, size| MemoryOperand { base, index: None, displacement, size };
        // The encoding of `mov eax, [rdi+0x28]`.
        assert_eq!(decode(&[0x8b, 0x47, 0x28]).effect, Effect::Access { memory: memory(5, 0x28, 4) });
        // The encoding of `mov rax, [rbp-8]`.
        let load = Effect::LoadPointer { to: 0, memory: memory(6, -8, 8) };
        assert_eq!(decode(&[0x48, 0x8b, 0x45, 0xf8]).effect, load);
        // The encoding of `mov rax, rdi`.
        assert_eq!(decode(&[0x48, 0x89, 0xf8]).effect, Effect::Move { to: 0, from: 5 });
        // The encoding of `mov rax, [rip+0x10]`.
        let data = decode(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0]);
        assert_eq!(data.effect, Effect::DataAddress { to: 0 });
        // The instruction `lea rax, [rdi+8]` accesses no memory.
        let computed = decode(&[0x48, 0x8d, 0x47, 0x08]);
        assert!(computed.effect == Effect::Other && computed.writes(0) && !computed.writes(5));
        // The encodings of `je +2` and `jmp rax`.
        assert_eq!(decode(&[0x74, 0x02]).flow, Flow::Leave { target: Some(0x1004) });
        assert_eq!(decode(&[0xff, 0xe0]).flow, Flow::LeaveToRegister);
        // The encoding of `mov eax, [rdi+rcx*4]`.
        let index = AddressIndex { register: 2, width: IndexWidth::Whole, shift: 2 };
        assert_eq!(decode(&[0x8b, 0x04, 0x8f]).memory().unwrap().index, Some(index));
    }

    #[test]
    fn an_address_within_an_instruction_has_no_instructions() {
        assert!(decode_function(&[0x48, 0x89, 0xf8], START, START + 1, 8).is_empty());
    }
}

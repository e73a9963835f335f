//! Values of variables from the registers and the stack bytes of a report, and from nothing else.

use crate::codec::TableError;
use crate::registers::ADDRESS_BYTES;
use crate::table::{FunctionAt, VariableAt, VariableKind, VariablePlace, VariableTable};
use crate::type_kind::VariableTypeKind;
use crate::type_parts::TypeId;
use gimli::{
    Encoding, EndianSlice, Evaluation, EvaluationResult, Expression, Format, LittleEndian, Location,
    Operation, Piece, Value,
};
use std::fmt;

/// The most operations of one expression.
const OPERATIONS_LIMIT: u32 = 1_000;
/// The most calls in each other.
const CALLS_LIMIT: usize = 32;
/// The most bytes of a value.
const VALUE_BYTES_LIMIT: u64 = 256;

type DwarfBytes<'t> = EndianSlice<'t, LittleEndian>;

/// What a report holds of the crashed thread.
pub struct ReportState<'s> {
    /// Returns the value of a register by its name in the report.
    pub register: &'s dyn Fn(&str) -> Option<u64>,
    /// The address of the first byte of `stack`.
    pub stack_start: u64,
    /// The bytes around the stack pointer.
    pub stack: &'s [u8],
}

impl fmt::Debug for ReportState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values are data of users.
        f.debug_struct("ReportState").finish_non_exhaustive()
    }
}

impl ReportState<'_> {
    fn read_stack(&self, address: u64, size: u64) -> Option<&[u8]> {
        let begin = usize::try_from(address.checked_sub(self.stack_start)?).ok()?;
        let end = begin.checked_add(usize::try_from(size).ok()?)?;
        self.stack.get(begin..end)
    }
}

/// Where the bytes of a value come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource {
    Register(&'static str),
    Stack,
    /// The debug information has the value.
    Constant,
    /// The expression computes the value.
    Computed,
    /// Its parts have different sources.
    Parts,
}

/// The reason for which a variable has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownValue {
    /// The compiler kept no value at this instruction.
    OptimisedOut,
    /// The function has not stored it yet.
    InPrologue,
    /// It lies in memory that the report does not hold.
    NotInReport,
    /// It lies in a vector register, which no report has.
    VectorRegister,
    /// Only the caller's frame had it.
    EntryValue,
    /// The debug information does not say how large it is, or it is larger than any value that is kept.
    Size,
    /// The expression needs something that is not supported.
    Unsupported,
    /// The debug information is damaged.
    Damaged,
}

impl UnknownValue {
    /// Returns the reason as a word of the output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            UnknownValue::OptimisedOut => "optimised_out",
            UnknownValue::InPrologue => "in_prologue",
            UnknownValue::NotInReport => "not_in_report",
            UnknownValue::VectorRegister => "vector_register",
            UnknownValue::EntryValue => "entry_value",
            UnknownValue::Size => "size",
            UnknownValue::Unsupported => "unsupported",
            UnknownValue::Damaged => "damaged",
        }
    }
}

/// A variable, with its value or the reason why there is none.
#[derive(Clone, PartialEq, Eq)]
pub struct VariableValue {
    /// The inlined call that it belongs to, 0 the innermost.
    pub call: usize,
    pub function: String,
    pub name: String,
    pub type_name: String,
    pub type_id: TypeId,
    /// The offset of its entry in `.debug_info`.
    pub die: u64,
    pub type_kind: VariableTypeKind,
    pub kind: VariableKind,
    /// The bytes in the order of memory, with their source. `None` is a byte that is not known.
    pub value: Result<(Vec<Option<u8>>, ValueSource), UnknownValue>,
}

impl fmt::Debug for VariableValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The value is data of a user.
        let known = self.value.as_ref().map(|_| "known");
        f.debug_struct("VariableValue")
            .field("name", &self.name)
            .field("value", &known)
            .finish_non_exhaustive()
    }
}

impl VariableTable<'_> {
    /// Returns the values of the variables at an address, relative to the image: the innermost call first. The address is the
    /// one of the instruction, not one before it.
    ///
    /// # Errors
    /// The table is damaged.
    pub fn read_values(
        &self,
        address: u64,
        state: &ReportState<'_>,
    ) -> Result<Vec<VariableValue>, TableError> {
        let Some(function) = self.find_function(address)? else { return Ok(Vec::new()) };
        Ok(evaluate_function(&function, state))
    }
}

/// Evaluates the variables of a function, those of the innermost call first.
fn evaluate_function(function: &FunctionAt<'_>, state: &ReportState<'_>) -> Vec<VariableValue> {
    let innermost = function.calls.saturating_sub(1);
    let evaluator = Evaluator { function, state };
    let mut values: Vec<VariableValue> = function
        .variables
        .iter()
        .filter(|variable| innermost - variable.depth.min(innermost) < CALLS_LIMIT)
        .map(|variable| VariableValue {
            call: innermost - variable.depth.min(innermost),
            function: variable.function.to_owned(),
            name: variable.name.to_owned(),
            type_name: variable.variable_type.name.to_owned(),
            type_id: variable.type_id,
            die: variable.die,
            type_kind: variable.variable_type.kind,
            kind: variable.kind,
            value: evaluator.evaluate_variable(variable),
        })
        .collect();
    values.sort_by_key(|value| value.call);
    values
}

impl FunctionAt<'_> {
    /// Returns how the expressions of the function are encoded.
    pub(crate) fn encoding(&self) -> Encoding {
        Encoding { format: Format::Dwarf32, version: self.dwarf_version, address_size: ADDRESS_BYTES }
    }
}

struct Evaluator<'e, 't> {
    function: &'e FunctionAt<'t>,
    state: &'e ReportState<'e>,
}

impl<'t> Evaluator<'_, 't> {
    fn evaluate_variable(
        &self,
        variable: &VariableAt<'t>,
    ) -> Result<(Vec<Option<u8>>, ValueSource), UnknownValue> {
        let size = variable.variable_type.size;
        match &variable.place {
            None => Err(UnknownValue::OptimisedOut),
            Some(VariablePlace::Data) => Err(UnknownValue::NotInReport),
            _ if size == 0 || size > VALUE_BYTES_LIMIT => Err(UnknownValue::Size),
            Some(VariablePlace::Constant(bytes)) => {
                let size = usize::try_from(size).map_err(|_| UnknownValue::Size)?;
                let bytes = bytes.get(..size).ok_or(UnknownValue::Damaged)?;
                Ok((bytes.iter().copied().map(Some).collect(), ValueSource::Constant))
            }
            Some(VariablePlace::Expression(bytes)) => {
                if self.function.is_in_prologue && self.uses_frame_base(bytes) {
                    return Err(UnknownValue::InPrologue);
                }
                let pieces = self.run_expression(bytes)?;
                self.join_pieces(&pieces, size)
            }
        }
    }

    fn uses_frame_base(&self, bytes: &'t [u8]) -> bool {
        let mut operations =
            Expression(EndianSlice::new(bytes, LittleEndian)).operations(self.function.encoding());
        while let Ok(Some(operation)) = operations.next() {
            if matches!(operation, Operation::FrameOffset { .. }) {
                return true;
            }
        }
        false
    }

    fn run_expression(&self, bytes: &'t [u8]) -> Result<Vec<Piece<DwarfBytes<'t>>>, UnknownValue> {
        if bytes.is_empty() {
            return Err(UnknownValue::OptimisedOut);
        }
        let expression = Expression(EndianSlice::new(bytes, LittleEndian));
        let mut evaluation: Evaluation<DwarfBytes<'t>> = expression.evaluation(self.function.encoding());
        evaluation.set_max_iterations(OPERATIONS_LIMIT);
        let damaged = |_| UnknownValue::Damaged;
        let mut step = evaluation.evaluate().map_err(damaged)?;
        loop {
            step = match step {
                EvaluationResult::Complete => return Ok(evaluation.result()),
                EvaluationResult::RequiresRegister { register, base_type } => {
                    if base_type.0 != 0 {
                        return Err(UnknownValue::Unsupported);
                    }
                    let value = self.read_register(register.0)?;
                    evaluation.resume_with_register(Value::Generic(value)).map_err(damaged)?
                }
                EvaluationResult::RequiresFrameBase => {
                    let base = self.frame_base()?;
                    evaluation.resume_with_frame_base(base).map_err(damaged)?
                }
                EvaluationResult::RequiresMemory { address, size, space, base_type } => {
                    if base_type.0 != 0 || space.is_some() {
                        return Err(UnknownValue::Unsupported);
                    }
                    let bytes = self.state.read_stack(address, u64::from(size));
                    let value = to_number(bytes.ok_or(UnknownValue::NotInReport)?);
                    evaluation.resume_with_memory(Value::Generic(value)).map_err(damaged)?
                }
                EvaluationResult::RequiresRelocatedAddress(_) => return Err(UnknownValue::NotInReport),
                EvaluationResult::RequiresEntryValue(_) => return Err(UnknownValue::EntryValue),
                _ => return Err(UnknownValue::Unsupported),
            };
        }
    }

    fn read_register(&self, number: u16) -> Result<u64, UnknownValue> {
        let registers = self.function.registers;
        if registers.is_vector(number) {
            return Err(UnknownValue::VectorRegister);
        }
        let name = registers.name(number).ok_or(UnknownValue::Unsupported)?;
        (self.state.register)(name).ok_or(UnknownValue::NotInReport)
    }

    /// Returns the frame base: the value of a register, as compilers describe it.
    fn frame_base(&self) -> Result<u64, UnknownValue> {
        let bytes = EndianSlice::new(self.function.frame_base, LittleEndian);
        let mut operations = Expression(bytes).operations(self.function.encoding());
        match (operations.next(), operations.next()) {
            (Ok(Some(Operation::Register { register })), Ok(None)) => self.read_register(register.0),
            _ => Err(UnknownValue::Unsupported),
        }
    }

    fn join_pieces(
        &self,
        pieces: &[Piece<DwarfBytes<'t>>],
        size: u64,
    ) -> Result<(Vec<Option<u8>>, ValueSource), UnknownValue> {
        if let [Piece { size_in_bits: None, location, .. }] = pieces {
            let (bytes, source) = self.read_location(location, size)?;
            return Ok((bytes.into_iter().map(Some).collect(), source));
        }
        let size = usize::try_from(size).map_err(|_| UnknownValue::Size)?;
        let mut value = Vec::new();
        let mut last_unknown = UnknownValue::OptimisedOut;
        for piece in pieces {
            let bits = piece.size_in_bits.unwrap_or_default();
            if bits % 8 != 0 || piece.bit_offset.unwrap_or(0) != 0 || bits / 8 > VALUE_BYTES_LIMIT {
                return Err(UnknownValue::Unsupported);
            }
            match self.read_location(&piece.location, bits / 8) {
                Ok((bytes, _)) => value.extend(bytes.into_iter().map(Some)),
                Err(unknown) => {
                    last_unknown = unknown;
                    value.extend((0..bits / 8).map(|_| None));
                }
            }
            if value.len() > size {
                return Err(UnknownValue::Damaged);
            }
        }
        value.resize(size, None);
        if value.iter().all(Option::is_none) { Err(last_unknown) } else { Ok((value, ValueSource::Parts)) }
    }

    fn read_location(
        &self,
        location: &Location<DwarfBytes<'t>>,
        size: u64,
    ) -> Result<(Vec<u8>, ValueSource), UnknownValue> {
        let size_bytes = usize::try_from(size).map_err(|_| UnknownValue::Size)?;
        let low_bytes = |number: u64| {
            let bytes = number.to_le_bytes();
            bytes.get(..size_bytes).map(<[u8]>::to_vec).ok_or(UnknownValue::Unsupported)
        };
        match location {
            Location::Empty => Err(UnknownValue::OptimisedOut),
            Location::Register { register } => {
                let bytes = low_bytes(self.read_register(register.0)?)?;
                let name = self.function.registers.name(register.0).unwrap_or_default();
                Ok((bytes, ValueSource::Register(name)))
            }
            Location::Address { address } => {
                let bytes = self.state.read_stack(*address, size).ok_or(UnknownValue::NotInReport)?;
                Ok((bytes.to_vec(), ValueSource::Stack))
            }
            Location::Value { value } => {
                let number = value.to_u64(u64::MAX).map_err(|_| UnknownValue::Unsupported)?;
                Ok((low_bytes(number)?, ValueSource::Computed))
            }
            Location::Bytes { value } => {
                let bytes = value.slice().get(..size_bytes).ok_or(UnknownValue::Damaged)?;
                Ok((bytes.to_vec(), ValueSource::Constant))
            }
            Location::ImplicitPointer { .. } => Err(UnknownValue::Unsupported),
        }
    }
}

/// Returns at most 8 bytes as a number.
fn to_number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

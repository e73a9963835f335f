//! Where variables lie at an address, without their values.

use crate::codec::TableError;
use crate::table::{FunctionAt, VariablePlace, VariableTable};
use crate::type_parts::TypeId;
use crate::units::UnitFacts;
use gimli::{Encoding, EndianSlice, Expression, LittleEndian, Operation};

/// Registers below this number have operations of their own.
const NAMED_REGISTERS: u16 = 32;
/// The most operations of an expression that are looked at. A longer one is none of the known forms.
const FIRST_OPERATIONS: usize = 3;

/// The place of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableHolder {
    /// The register with this number in DWARF has the value.
    Register(u16),
    /// The value is in memory, at a distance from a register.
    Slot { base: u16, offset: i64 },
    /// It has another place, such as the image's data, or none.
    Other,
}

/// A variable that exists at an address, with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldVariable<'t> {
    /// The inlined call that it belongs to, 0 the innermost.
    pub call: usize,
    pub name: &'t str,
    pub type_id: TypeId,
    /// The offset of its entry in `.debug_info`.
    pub die: u64,
    pub holder: VariableHolder,
    place: Option<VariablePlace<'t>>,
    encoding: Encoding,
}

impl HeldVariable<'_> {
    /// Returns the place as tools print it, such as `DW_OP_reg0`; `None` if it is a longer expression or none.
    #[must_use]
    pub fn describe_location(&self) -> Option<String> {
        let Some(VariablePlace::Expression(bytes)) = self.place else { return None };
        let operations = first_operations(self.encoding, bytes);
        let names: Option<Vec<String>> = operations.iter().map(name_operation).collect();
        names.filter(|names| (1..FIRST_OPERATIONS).contains(&names.len())).map(|names| names.join(", "))
    }
}

/// The function of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionFacts<'t> {
    /// The start of the range that contains the address, relative to the image.
    pub start: u64,
    /// The size of that range.
    pub size: u64,
    pub unit: UnitFacts,
    /// True before the function has set its frame up: no slot has its value.
    pub is_in_prologue: bool,
    pub variables: Vec<HeldVariable<'t>>,
}

impl<'t> VariableTable<'t> {
    /// Returns the function at an address, relative to the image, with the places of its variables there.
    ///
    /// # Errors
    /// The table is damaged.
    pub fn find_holders(&self, address: u64) -> Result<Option<FunctionFacts<'t>>, TableError> {
        let Some(function) = self.find_function(address)? else { return Ok(None) };
        let innermost = function.calls.saturating_sub(1);
        let (start, size) = function.range;
        let variables = function.variables.iter().map(|variable| HeldVariable {
            call: innermost - variable.depth.min(innermost),
            name: variable.name,
            type_id: variable.type_id,
            die: variable.die,
            holder: find_holder(&function, variable.place.as_ref()),
            place: variable.place,
            encoding: function.encoding(),
        });
        Ok(Some(FunctionFacts {
            start,
            size,
            unit: function.unit,
            is_in_prologue: function.is_in_prologue,
            variables: variables.collect(),
        }))
    }
}

fn find_holder(function: &FunctionAt<'_>, place: Option<&VariablePlace<'_>>) -> VariableHolder {
    let expression = match place {
        Some(VariablePlace::Expression(bytes)) => *bytes,
        Some(VariablePlace::Data | VariablePlace::Constant(_)) | None => return VariableHolder::Other,
    };
    match &first_operations(function.encoding(), expression)[..] {
        [Operation::Register { register }] => VariableHolder::Register(register.0),
        [Operation::RegisterOffset { register, offset: 0, .. }, Operation::StackValue] => {
            VariableHolder::Register(register.0)
        }
        [Operation::RegisterOffset { register, offset, .. }] => {
            VariableHolder::Slot { base: register.0, offset: *offset }
        }
        [Operation::FrameOffset { offset }] => {
            match &first_operations(function.encoding(), function.frame_base)[..] {
                [Operation::Register { register }] => {
                    VariableHolder::Slot { base: register.0, offset: *offset }
                }
                _ => VariableHolder::Other,
            }
        }
        _ => VariableHolder::Other,
    }
}

/// Returns the first operations of an expression; none if it is damaged.
fn first_operations(encoding: Encoding, bytes: &[u8]) -> Vec<Operation<EndianSlice<'_, LittleEndian>>> {
    let mut operations = Expression(EndianSlice::new(bytes, LittleEndian)).operations(encoding);
    let mut found = Vec::new();
    while found.len() < FIRST_OPERATIONS {
        match operations.next() {
            Ok(Some(operation)) => found.push(operation),
            Ok(None) => break,
            Err(_) => return Vec::new(),
        }
    }
    found
}

/// Returns the name of an operation that says where a variable lies; `None` for all others.
fn name_operation(operation: &Operation<EndianSlice<'_, LittleEndian>>) -> Option<String> {
    match operation {
        Operation::Register { register } if register.0 < NAMED_REGISTERS => {
            Some(format!("DW_OP_reg{}", register.0))
        }
        Operation::RegisterOffset { register, offset, .. } if register.0 < NAMED_REGISTERS => {
            Some(format!("DW_OP_breg{} {offset:+}", register.0))
        }
        Operation::FrameOffset { offset } => Some(format!("DW_OP_fbreg {offset:+}")),
        Operation::StackValue => Some("DW_OP_stack_value".to_owned()),
        _ => None,
    }
}

//! The search for the subject of a fault.

use crate::binary::ImageText;
use crate::members::{AccessPath, Members, PointerExpression};
use crate::reasons::SubjectAbstention;
use crate::values::find_by_values;
use crate::walk::FunctionWalk;
use std::fmt;
use unslide_fault_analysis_variables::{HeldVariable, ReportState, UnitLanguage, VariableTable};

/// The byte of an address that data accesses of arm64 ignore.
pub const TOP_BYTE: u64 = 0xff << 56;
/// The most bytes of an expression.
const EXPRESSION_BYTES_LIMIT: usize = 512;

/// The registers and the stack bytes of a report, and the address of its fault.
#[derive(Debug)]
pub struct FaultState<'s> {
    pub report: ReportState<'s>,
    /// The address as the processor reported it; `None` if it reported none.
    pub address: Option<u64>,
}

/// A fact that a subject rests on.
#[derive(Clone, PartialEq, Eq)]
pub enum SubjectEvidence {
    Variable {
        call: usize,
        name: String,
        /// The offset of its entry in `.debug_info`.
        die: u64,
        /// The place as tools print it, such as `DW_OP_reg0`.
        location: Option<String>,
    },
    Register {
        register: &'static str,
        value: u64,
    },
    /// The bytes of an instruction, and its address relative to the image.
    Instruction {
        code: Vec<u8>,
        relative_address: u64,
    },
}

impl SubjectEvidence {
    /// Returns the variable that an expression begins with, with its place at the instruction that used it.
    pub(crate) fn for_variable(variable: &HeldVariable<'_>) -> SubjectEvidence {
        SubjectEvidence::Variable {
            call: variable.call,
            name: variable.name.to_owned(),
            die: variable.die,
            location: variable.describe_location(),
        }
    }
}

impl fmt::Debug for SubjectEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values of registers are data of users.
        match self {
            SubjectEvidence::Variable { name, .. } => f.debug_tuple("Variable").field(name).finish(),
            SubjectEvidence::Register { register, .. } => f.debug_tuple("Register").field(register).finish(),
            SubjectEvidence::Instruction { code, .. } => f.debug_tuple("Instruction").field(code).finish(),
        }
    }
}

/// The value of a subject, and the distance of the access from it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SubjectValue {
    pub value: u64,
    pub offset: Option<i64>,
}

impl fmt::Debug for SubjectValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubjectValue").field("offset", &self.offset).finish_non_exhaustive()
    }
}

/// The expression with the bad value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSubject {
    /// The call of frame 0 that its variable belongs to, 0 the innermost.
    pub call: usize,
    pub expression: String,
    pub type_name: String,
    pub is_reference: bool,
    pub value: SubjectValue,
    /// The expression that was accessed; `None` if more than one fits.
    pub path: Option<String>,
    /// The member that was accessed; `None` if it is none, or more than one fits.
    pub member: Option<String>,
    pub evidence: Vec<SubjectEvidence>,
}

impl FaultSubject {
    pub(crate) fn new(
        pointer: PointerExpression,
        value: SubjectValue,
        access: AccessPath,
        evidence: Vec<SubjectEvidence>,
    ) -> FaultSubject {
        FaultSubject {
            call: 0,
            expression: pointer.text,
            type_name: pointer.type_name,
            is_reference: pointer.is_reference,
            value,
            path: access.path,
            member: access.member,
            evidence,
        }
    }
}

/// Names the subject of a fault at an address, relative to the image of the table: from the instructions if `text` has them,
/// else from the values of variables.
///
/// # Errors
/// The evidence fits no expression, or more than one.
pub fn find_subject(
    table: &VariableTable<'_>,
    address: u64,
    state: &FaultState<'_>,
    text: Option<&ImageText<'_>>,
) -> Result<FaultSubject, SubjectAbstention> {
    let members = Members { table };
    let function = table.find_holders(address).map_err(|_| SubjectAbstention::DamagedTable)?;
    let function = function.ok_or(SubjectAbstention::NoVariables)?;
    if !matches!(function.unit.language, UnitLanguage::CFamily | UnitLanguage::Rust) {
        return Err(SubjectAbstention::UnknownLanguage);
    }
    let by_instructions =
        text.map(|text| FunctionWalk::decode(members, &function, state, text, address)?.find_subject());
    if let Some(Ok(subject)) = by_instructions {
        return bound_expressions(subject);
    }
    let by_values = || {
        let address_of_fault = state.address.ok_or(SubjectAbstention::NoAddress)?;
        let values =
            table.read_values(address, &state.report).map_err(|_| SubjectAbstention::DamagedTable)?;
        find_by_values(members, &function, &values, address_of_fault)
    };
    // The instructions say more precisely what is missing.
    by_values()
        .and_then(bound_expressions)
        .map_err(|reason| by_instructions.and_then(Result::err).unwrap_or(reason))
}

/// Leaves out expressions that are too long to be read.
fn bound_expressions(subject: FaultSubject) -> Result<FaultSubject, SubjectAbstention> {
    let fits = |text: &String| text.len() <= EXPRESSION_BYTES_LIMIT;
    if !fits(&subject.expression) {
        return Err(SubjectAbstention::UnknownMember);
    }
    Ok(FaultSubject { path: subject.path.filter(fits), member: subject.member.filter(fits), ..subject })
}

//! What a search for the subject begins with, and what it finds.

use crate::subject::members::{AccessPath, PointerExpression};
use crate::{HeldVariable, ReportState};
use std::fmt;

/// The byte of an address that data accesses of arm64 ignore.
pub const TOP_BYTE: u64 = 0xff << 56;
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

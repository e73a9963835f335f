//! Values of variables at the instruction of a crash, from the registers and the stack bytes of a report.
//!
//! [`build_table`] makes a table from a dSYM's DWARF once: functions, their variables, where these lie, and their types.
//! [`VariableTable::read_values`] evaluates the variables of one address. Both are pure and bounded: what a report does
//! not hold has no value, and each variable without a value has its reason.
//!
//! [`subject`] finds the expression with the bad value of a fault, by these values and by instructions.
//!
//! Source of the formats: DWARF 5 (sections 2.6 and 4.1, the register numbers of the ABIs for arm64 and x86_64).

mod codec;
mod dwarf;
mod evaluate;
mod holders;
mod registers;
pub mod subject;
mod table;
mod type_kind;
mod type_parts;
mod units;

pub use codec::TableError;
pub use dwarf::{TableBuildError, TableLimits, build_table};
pub use evaluate::{ReportState, UnknownValue, ValueSource, VariableValue};
pub use holders::{FunctionFacts, HeldVariable, VariableHolder};
pub use registers::RegisterSet;
pub use table::{VariableKind, VariableTable};
pub use type_kind::VariableTypeKind;
pub use type_parts::{TypeFacts, TypeForm, TypeId, TypeMember};
pub use units::{UnitFacts, UnitLanguage};

//! The search for the subject of a fault.

use crate::subject::binary::ImageText;
use crate::subject::facts::{FaultState, FaultSubject};
use crate::subject::members::Members;
use crate::subject::reasons::SubjectAbstention;
use crate::subject::values::find_by_values;
use crate::subject::walk::FunctionWalk;
use crate::{UnitLanguage, VariableTable};

/// The most bytes of an expression.
const EXPRESSION_BYTES_LIMIT: usize = 512;

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

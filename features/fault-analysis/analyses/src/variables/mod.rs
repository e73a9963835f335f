//! The member `variables` of our key: the variables at the instruction of the crash, with their values.

mod output;
mod scrub;
pub mod table;

use crate::innermost::InnermostCode;
use output::write_variables;
use scrub::scrub_members;
use table::VARIABLES_TABLE;
use unslide_symbolicate::{Analysis, AnalysisFinding, AnalysisPhrases, SymbolicatedCrash};

/// The analysis that adds `variables` to our key. A tenant has to turn it on: values are data of users.
pub const VARIABLES_ANALYSIS: Analysis = Analysis {
    name: "variables",
    member: "variables",
    run: read_variables,
    is_opt_in: true,
    derived: &[VARIABLES_TABLE],
    phrases: AnalysisPhrases::NONE,
};

/// Reads the variables of the innermost frame.
fn read_variables(crash: &SymbolicatedCrash<'_, '_>) -> Option<AnalysisFinding> {
    let state = crash.report().crash_state()?;
    let code = InnermostCode::find(crash, &crash.frame(0)?, &state).ok()?;
    let mut values = code.read_variables(&state);
    values.iter_mut().for_each(|value| scrub_members(&code.table, value));
    write_variables(&values)
}

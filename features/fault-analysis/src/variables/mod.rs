//! The member `variables` of our key: the variables at the instruction of the crash, with their values.

mod output;
mod scrub;
mod table;

use output::write_variables;
use scrub::scrub_members;
pub use table::VARIABLES_TABLE;
use unslide_fault_analysis_variables::{ReportState, VariableTable};
use unslide_symbolicate::{Analysis, AnalysisFinding, SymbolicatedCrash};

/// The analysis that adds `variables` to our key. A tenant has to turn it on: values are data of users.
pub const VARIABLES_ANALYSIS: Analysis = Analysis {
    name: "variables",
    member: "variables",
    run: read_variables,
    is_opt_in: true,
    derived: &[VARIABLES_TABLE],
};

/// Reads the variables of the innermost frame. Registers belong to this frame only, so it has to be at the program
/// counter.
fn read_variables(crash: &SymbolicatedCrash<'_, '_>) -> Option<AnalysisFinding> {
    let frame = crash.frame(0)?;
    let table = crash.derived_object(frame.debug_id?, VARIABLES_TABLE.name)?;
    let state = crash.report().crash_state()?;
    let pc = ["pc", "rip"].into_iter().find_map(|name| state.register(name))?;
    if pc != frame.address {
        return None;
    }
    let window = state.stack.clone().unwrap_or_default();
    let register = |name: &str| {
        // Some reporters print the frame pointer of arm64 by its number.
        let alias = (name == "fp").then(|| state.register("x29")).flatten();
        state.register(name).or(alias)
    };
    let report = ReportState { register: &register, stack_start: window.start, stack: &window.bytes };
    // A damaged table costs the variables only.
    let table = VariableTable::parse(table).ok()?;
    let mut values = table.read_values(frame.image_offset?, &report).ok()?;
    values.iter_mut().for_each(|value| scrub_members(&table, value));
    write_variables(&values)
}

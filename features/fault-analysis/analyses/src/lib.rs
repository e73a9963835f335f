//! The analyses of fault analysis, pure: what was wrong at the instruction of a crash.
//!
//! `decode` reads the processor's registers, `verdict` has the rules in their order, `subject` names the expression with the bad
//! value, and `fault` is the member of our key. `variables` adds the values of the variables at the instruction, `text` keeps the
//! instructions of the app's binary.

mod decode;
mod fault;
mod innermost;
mod log_words;
mod memory;
mod named_cause;
mod named_subject;
mod sentence;
mod subject;
mod text;
mod trap_reason;
mod variables;
mod verdict;

pub use text::APP_TEXT;
pub use variables::VARIABLES_ANALYSIS;
pub use variables::table::VARIABLES_TABLE;

use unslide_symbolicate::{Analysis, AnalysisFinding, SymbolicatedCrash, SymbolizerFeature};

/// The name of the feature.
pub const NAME: &str = "fault-analysis";
/// The name of the analysis, by which tenants turn it off.
const SWITCH: &str = "fault_analysis";

/// The analysis that adds `fault` to our key.
pub const ANALYSIS: Analysis = Analysis {
    name: SWITCH,
    member: "fault",
    run: analyse_crash,
    is_opt_in: false,
    derived: &[VARIABLES_TABLE, APP_TEXT],
    phrases: sentence::GROUP_PHRASES,
};

/// Its analyses, which commands without a server use as well.
pub const SYMBOLIZER: SymbolizerFeature =
    SymbolizerFeature { analyses: &[ANALYSIS, VARIABLES_ANALYSIS], ..SymbolizerFeature::new(NAME) };

fn analyse_crash(crash: &SymbolicatedCrash<'_, '_>) -> Option<AnalysisFinding> {
    let fault = verdict::find_fault(crash)?;
    let headline = fault.subject.as_ref().and_then(named_subject::NamedSubject::find_headline);
    Some(AnalysisFinding { headline, ..AnalysisFinding::from_value(&fault)? })
}

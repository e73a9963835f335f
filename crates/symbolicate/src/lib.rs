//! Symbolication without I/O: objects to symcaches, addresses to functions, files and lines.

mod analysis;
mod answer;
pub mod bulk;
mod compiler_made;
pub mod demangle;
mod derived;
mod engine;
mod explain;
mod feature;
pub mod grouping;
mod javascript;
mod json;
pub mod object;
mod plan;
pub mod rules;
mod status;
mod symbols;
pub mod symcache;

pub use analysis::{
    Analysis, AnalysisFinding, AnalysisPhrases, CrashFrame, HintPhrase, MOST_FINDING_BYTES, NamedFinding,
    SymbolicatedCrash, VerdictPhrase, enabled_analyses,
};
pub use derived::{DeriveError, DeriveResult, DerivedObject, DerivedSource, ImageDerivative};
pub use engine::{
    Context, Detail, ENGINE, Enrichment, ImageOutcome, OUTPUT_VERSION, enrich, list_needs, most_bytes,
};
pub use explain::{
    ExplainedBacktrace, ExplainedFrame, ExplainedFunction, ExplainedGrouping, ExplainedImage,
    ExplainedJavaScriptFrame, ExplainedSymcache, Explanation, explain_report, explain_with_derived,
};
pub use feature::SymbolizerFeature;
pub use javascript::{
    BundleIdentity, FunctionSource, build_for as build_source_map, read_map_source, with_debug_id,
};
pub use plan::{Join, LocatedFrame, Plan, SymbolNeed, is_system_path, lies_in_shared_cache};
pub use status::{FrameStatus, ImageStatus, ReportStatus};
pub use symbols::ImageSymbols;

#[cfg(test)]
mod tests;

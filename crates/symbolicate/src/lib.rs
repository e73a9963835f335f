//! Symbolication without I/O: objects to symcaches, addresses to functions, files and lines.

mod answer;
mod attribute;
pub mod demangle;
mod device_names;
mod engine;
mod explain;
pub mod grouping;
mod index;
mod json;
pub mod object;
mod output;
mod plan;
pub mod rules;
mod space;
mod status;
mod symbols;
pub mod symcache;
mod system;

pub use attribute::Join;
pub use engine::{Context, Detail, Enriched, ImageOutcome, enrich, most_bytes, needs};
pub use explain::{
    ExplainedBacktrace, ExplainedFrame, ExplainedImage, ExplainedSymcache, Explanation, explain,
};
pub use output::{ENGINE, VERSION};
pub use plan::{Plan, SymbolNeed};
pub use status::{FrameStatus, ImageStatus, ReportStatus};
pub use symbols::ImageSymbols;
pub use system::is_system_path;

#[cfg(test)]
mod tests;

//! The whole reasoning over one report.

use super::{ExplainedBacktrace, ExplainedGrouping, ExplainedImage, ExplainedJavaScriptFrame};
use crate::analysis::NamedFinding;
use serde::Serialize;
use unslide_model::ReportId;

/// The whole reasoning over one report.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The report.
    pub report_id: ReportId,
    /// The engine that reasons.
    pub engine: &'static str,
    /// The images that frames refer to.
    pub images: Vec<ExplainedImage>,
    /// The findings of analyses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<NamedFinding>,
    /// The report's group; absent if the report says neither what happened nor where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grouping: Option<ExplainedGrouping>,
    /// The frames of a JavaScript error, the innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub javascript: Vec<ExplainedJavaScriptFrame>,
    /// Every backtrace, in the order of the report.
    pub backtraces: Vec<ExplainedBacktrace>,
    /// True if frames or calls were left out, because there are too many.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

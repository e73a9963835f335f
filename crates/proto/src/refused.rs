//! Reports that the API refuses and that the symbolizer makes dead letters of.

/// The reasons that [`REFUSED_REASON`](crate::headers::REFUSED_REASON) may have. Any other is ignored, because reasons are
/// labels of metrics.
pub const REASONS: [&str; 7] =
    ["not_json", "truncated", "too_large", "too_deep", "too_many", "not_a_report", "wrong_app"];

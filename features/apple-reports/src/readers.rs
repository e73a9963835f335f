//! The readers of the feature, in their order.

use crate::{call_tree, crash_text, ips, metric_kit, other_formats};
use unslide_report::reader::ReportReader;

/// The readers, in the order in which they are tried.
pub const READERS: &[ReportReader] =
    &[call_tree::READER, crash_text::READER, metric_kit::READER, ips::READER, other_formats::READER];

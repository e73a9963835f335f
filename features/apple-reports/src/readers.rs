//! The readers of the feature, in their order.

use crate::{crash_text, ips};
use unslide_report::reader::ReportReader;

/// The readers, in the order in which they are tried.
pub const READERS: &[ReportReader] = &[crash_text::READER, ips::READER];

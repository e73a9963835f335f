//! The pages of captures: the list, what sends one, and one of them.

pub mod analysis;
pub mod capture;
pub mod captures;
pub mod compare;
mod history;
mod list;
pub mod upload;

use crate::console::words::{bytes, counted, grouped};
use serde_json::Value;
use unslide_model::CaptureKind;
use unslide_store::captures::{Capture, CaptureState};

/// How far a capture is analysed.
pub fn status(capture: &Capture) -> (&'static str, &'static str, &'static str) {
    match capture.state {
        CaptureState::Queued => ("info", "◐", "queued"),
        CaptureState::Analysing => ("info", "◐", "being analysed"),
        CaptureState::Ready => ("good", "●", "analysed"),
        CaptureState::Failed => ("bad", "○", "failed"),
    }
}

/// How many images lack symbols; `None` where none does.
pub fn lacking(capture: &Capture) -> Option<String> {
    let images = capture.summary.as_ref()?["lacking"].as_i64().filter(|images| *images > 0)?;
    Some(counted(images, "image lacks symbols", "images lack symbols"))
}

/// A kind of capture for people.
pub fn kind(kind: CaptureKind) -> &'static str {
    match kind {
        CaptureKind::MallocLog => "Log of allocations",
        CaptureKind::MemoryGraph => "Graph of memory",
        CaptureKind::Profile => "Profile",
        CaptureKind::StackSet => "Set of stacks",
    }
}

/// How much the analysis is about; empty without one.
pub fn says(capture: &Capture) -> String {
    capture.summary.as_ref().and_then(amount).unwrap_or_default()
}

fn amount(summary: &Value) -> Option<String> {
    let (weight, count) = (summary["weight"].as_u64()?, summary["count"].as_i64()?);
    let vm = summary["vm_weight"].as_u64().zip(summary["vm_count"].as_i64());
    Some(match (summary["unit"].as_str()?, vm) {
        ("bytes", None) => format!("{} in {}", bytes(weight), counted(count, "block", "blocks")),
        ("bytes", Some((vm_weight, ranges))) => format!(
            "{} of heap in {}, {} of virtual memory in {}",
            bytes(weight),
            counted(count, "block", "blocks"),
            bytes(vm_weight),
            counted(ranges, "range", "ranges")
        ),
        (unit, _) => format!("{} {unit}", grouped(weight)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_log_has_two_sums() {
        let mut summary = json!({"unit": "bytes", "weight": 1 << 19, "count": 1});
        assert_eq!(amount(&summary).as_deref(), Some("512.0 KiB in 1 block"));
        (summary["vm_weight"], summary["vm_count"]) = (json!(1 << 20), json!(2));
        let both = "512.0 KiB of heap in 1 block, 1.0 MiB of virtual memory in 2 ranges";
        assert_eq!(amount(&summary).as_deref(), Some(both));
    }
}

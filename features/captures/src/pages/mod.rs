//! The pages of the console: the list, the forms that send a capture, one capture, and the changes between two.

mod analysis;
mod block;
mod capture;
mod captures;
mod compare;
mod history;
mod list;
mod picture;
mod prelude;
mod related;
mod upload;

pub use related::show_panel;

use crate::capture::CaptureKind;
use crate::store::{Capture, CaptureId, CaptureState};
use axum::middleware::from_fn;
use axum::routing::{get, post};
use axum::{Extension, Router};
use serde_json::Value;
use unslide_api::feature::{Api, lift_time_bound};
use unslide_site::{TakesAway, bytes, counted, grouped};

/// The path of the list.
pub const CAPTURES_PATH: &str = "/console/captures";

/// The routes of the pages.
pub fn routes() -> Router<Api> {
    upload_routes()
        .route(CAPTURES_PATH, get(captures::page))
        .route("/console/captures/{id}", get(capture::page))
        .route("/console/captures/{id}/blocks", get(block::render_page))
        .route("/console/captures/{id}/compare/{other}", get(compare::page))
        .route("/console/captures/{id}/delete", post(capture::delete).layer(Extension(TakesAway)))
}

/// The route of the forms that send a capture.
fn upload_routes() -> Router<Api> {
    Router::new().route("/console/captures/upload", post(upload::send)).layer(from_fn(lift_time_bound))
}

/// Returns the path of the page of a capture.
pub fn capture_path(id: CaptureId) -> String {
    format!("{CAPTURES_PATH}/{id}")
}

/// Returns the status of a capture for people.
pub fn status(capture: &Capture) -> (&'static str, &'static str, &'static str) {
    match capture.state {
        CaptureState::Queued => ("info", "◐", "queued"),
        CaptureState::Analysing => ("info", "◐", "being analysed"),
        CaptureState::Ready => ("good", "●", "analysed"),
        CaptureState::Failed => ("bad", "○", "failed"),
    }
}

/// Returns true for a graph with blocks that can be asked for. The text of a tool has none.
pub fn has_blocks(capture: &Capture) -> bool {
    let source = capture.summary.as_ref().and_then(|summary| summary["source"].as_str());
    capture.kind == CaptureKind::MemoryGraph && source == Some("memory_graph")
}

/// Returns how many images lack symbols; `None` if none does.
pub fn lacking(capture: &Capture) -> Option<String> {
    let images = capture.summary.as_ref()?["lacking"].as_i64().filter(|images| *images > 0)?;
    Some(counted(images, "image lacks symbols", "images lack symbols"))
}

/// Returns a kind of capture for people.
pub fn kind(kind: CaptureKind) -> &'static str {
    match kind {
        CaptureKind::MallocLog => "Log of allocations",
        CaptureKind::MemoryGraph => "Graph of memory",
        CaptureKind::Profile => "Profile",
        CaptureKind::StackSet => "Set of stacks",
    }
}

/// Returns what was measured; empty without an analysis.
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

//! The pages of captures: the list, what sends one, and one of them.

pub mod analysis;
pub mod capture;
pub mod captures;
pub mod compare;
mod history;
mod list;
pub mod upload;

use crate::console::link::session_path;
use crate::console::words::{When, bytes, counted, grouped, shown, shown_or, when};
use time::OffsetDateTime;
use unslide_model::CaptureKind;
use unslide_store::captures::{Capture, CaptureState};

/// What is said of a capture wherever it is named.
pub struct CaptureLine {
    pub id: String,
    pub kind: &'static str,
    pub app: String,
    pub version: String,
    /// The page of its session.
    pub session: Option<String>,
    /// How much the analysis is about.
    pub says: String,
    pub lacking: String,
    pub size: String,
    pub status: (&'static str, &'static str, &'static str),
    pub detail: String,
    pub received: When,
}

impl CaptureLine {
    /// The line of a capture.
    pub fn of(capture: &Capture, now: OffsetDateTime) -> CaptureLine {
        let status = match capture.state {
            CaptureState::Queued => ("info", "◐", "queued"),
            CaptureState::Analysing => ("info", "◐", "being analysed"),
            CaptureState::Ready => ("good", "●", "analysed"),
            CaptureState::Failed => ("bad", "○", "failed"),
        };
        let number = |name: &str| capture.summary.as_ref()?[name].as_i64();
        let lacking = number("lacking").filter(|images| *images > 0);
        let lacking = lacking.map(|images| counted(images, "image lacks symbols", "images lack symbols"));
        CaptureLine {
            id: capture.id.to_string(),
            kind: kind(capture.kind),
            app: shown_or(&capture.app, "no app"),
            version: shown(&capture.version),
            session: capture.session_id.as_deref().map(|id| session_path(&capture.app, id)),
            says: says(capture).unwrap_or_default(),
            lacking: lacking.unwrap_or_default(),
            size: bytes(capture.size),
            status,
            detail: shown(capture.detail.as_deref().unwrap_or_default()),
            received: when(capture.received_at, now),
        }
    }
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

fn says(capture: &Capture) -> Option<String> {
    let summary = capture.summary.as_ref()?;
    let (weight, count) = (summary["weight"].as_u64()?, summary["count"].as_i64()?);
    Some(match summary["unit"].as_str()? {
        "bytes" => format!("{} in {}", bytes(weight), counted(count, "block", "blocks")),
        unit => format!("{} {unit}", grouped(i64::try_from(weight).unwrap_or(i64::MAX))),
    })
}

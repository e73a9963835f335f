//! The group of a report about memory: what happened and where the app was. What was sampled before the end is not its
//! cause, and does not count.

use super::fingerprint::fingerprint;
use super::{GroupKind, Grouping, GroupingRules};
use unslide_report::{MemoryEvent, MemoryEventKind};

/// The group of an event.
pub(super) fn grouping(event: &MemoryEvent, rules: &GroupingRules) -> Grouping {
    let place = match event.foreground {
        Some(true) => Some("foreground"),
        Some(false) => Some("background"),
        None => None,
    };
    let (kind, detail, title) = match event.kind {
        MemoryEventKind::OutOfMemory => {
            let place_text = place.map(|place| format!(" in the {place}")).unwrap_or_default();
            (GroupKind::OutOfMemory, place, format!("Out of memory{place_text}"))
        }
        MemoryEventKind::BlockedMainThread => {
            (GroupKind::Hang, Some("blocked_main_thread"), "Main thread blocked".to_owned())
        }
        MemoryEventKind::Termination => {
            let reason = event.kernel_reason.as_deref();
            let title = format!("Ended by the system: {}", reason.unwrap_or("unexplained").replace('-', " "));
            (GroupKind::Termination, reason, title)
        }
        MemoryEventKind::Warning => (GroupKind::MemoryWarning, None, "Memory warning".to_owned()),
    };
    let parts: Vec<&str> = std::iter::once(kind.as_str()).chain(detail).collect();
    Grouping {
        fingerprint: fingerprint(&parts),
        kind,
        provisional: false,
        title,
        culprit: None,
        frames: Vec::new(),
        rules: rules.hash().to_owned(),
    }
}

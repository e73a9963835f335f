//! Grouping of a report about memory: by the kind of event and whether the app was in the foreground. Samples
//! from before the end are not its cause, and do not count.

use super::fingerprint::hash_parts;
use super::{GroupKind, Grouping, GroupingRules};
use unslide_report::{MemoryEvent, MemoryEventKind};

/// Returns the group of a memory event.
pub(super) fn group_event(event: &MemoryEvent, rules: &GroupingRules) -> Grouping {
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
        fingerprint: hash_parts(&parts),
        kind,
        provisional: false,
        title,
        headline: None,
        culprit: None,
        culprit_frame: None,
        frames: Vec::new(),
        rules: rules.hash().to_owned(),
    }
}

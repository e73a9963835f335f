//! What the page of a report says of a Jetsam event: the processes of the device, and how its memory was used.

use crate::console::words::{bytes, counted, shown, shown_or};
use unslide_report::jetsam::{JetsamEvent, JetsamProcess};

/// Processes that the page lists.
const MOST_SHOWN: usize = 50;

/// A Jetsam event on its page.
pub struct JetsamSection {
    /// Bytes of memory by their state.
    pub memory: Vec<(String, String)>,
    /// Those that were killed, then the largest.
    pub processes: Vec<ProcessLine>,
    /// How many more there are.
    pub more: String,
}

/// One process.
pub struct ProcessLine {
    pub name: String,
    /// True for the process with the largest footprint.
    pub is_largest: bool,
    pub states: String,
    pub footprint: String,
    pub highest: String,
    /// Why it was killed, and the mark of that.
    pub killed: Option<(&'static str, String)>,
}

impl JetsamSection {
    /// The section of an event.
    pub fn of(event: &JetsamEvent) -> JetsamSection {
        let pages = |pages: u64| bytes(pages.saturating_mul(event.page_size));
        let mut memory: Vec<_> =
            event.pages.iter().map(|(state, count)| (shown(state), pages(*count))).collect();
        memory.extend(event.compressor.map(|held| ("compressor".to_owned(), bytes(held))));
        memory.push(("page".to_owned(), bytes(event.page_size)));
        let killed = event.killed();
        let mut others: Vec<_> = event.processes.iter().filter(|process| process.reason.is_none()).collect();
        others.sort_by_key(|process| std::cmp::Reverse(process.footprint));
        // Several processes may have its name.
        let largest = event.largest_process.as_deref();
        let largest = event.processes.iter().filter(|process| largest == Some(process.name.as_str()));
        let largest = largest.max_by_key(|process| process.footprint);
        let lines = killed.into_iter().chain(others).take(MOST_SHOWN);
        let left = event.processes.len().saturating_sub(MOST_SHOWN) as u64 + event.left_out;
        let more = i64::try_from(left).unwrap_or(i64::MAX);
        JetsamSection {
            memory,
            processes: lines.map(|process| line(process, largest)).collect(),
            more: if more > 0 { counted(more, "more process", "more processes") } else { String::new() },
        }
    }
}

fn line(process: &JetsamProcess, largest: Option<&JetsamProcess>) -> ProcessLine {
    let mark = if process.is_out_of_memory() { "bad" } else { "warn" };
    ProcessLine {
        name: shown_or(&process.name, "unnamed"),
        is_largest: largest.is_some_and(|largest| std::ptr::eq(largest, process)),
        states: shown(&process.states.join(", ")),
        footprint: bytes(process.footprint),
        highest: process.lifetime_max.map(bytes).unwrap_or_default(),
        killed: process.reason.as_deref().map(|reason| (mark, shown(reason))),
    }
}

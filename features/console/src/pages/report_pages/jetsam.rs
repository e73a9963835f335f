//! A Jetsam event on the page of its report: the processes of the device, and the use of its memory.

use std::cmp::Reverse;
use unslide_report::jetsam::{JetsamEvent, JetsamProcess};

/// Maximum number of processes on the page.
const MOST_SHOWN: usize = 50;

/// A Jetsam event on its page.
pub struct JetsamSection<'r> {
    pub event: &'r JetsamEvent,
    /// The killed processes, then the largest.
    pub processes: Vec<&'r JetsamProcess>,
    /// The process with the largest footprint.
    largest: Option<&'r JetsamProcess>,
}

impl<'r> JetsamSection<'r> {
    /// Creates the section of an event.
    pub fn from_event(event: &'r JetsamEvent) -> JetsamSection<'r> {
        let mut others: Vec<_> = event.processes.iter().filter(|process| process.reason.is_none()).collect();
        others.sort_by_key(|process| Reverse(process.footprint));
        // Several processes may have its name.
        let largest = event.largest_process.as_deref();
        let largest = event.processes.iter().filter(|process| largest == Some(process.name.as_str()));
        JetsamSection {
            event,
            processes: event.killed_processes().into_iter().chain(others).take(MOST_SHOWN).collect(),
            largest: largest.max_by_key(|process| process.footprint),
        }
    }

    pub fn bytes(&self, pages: u64) -> u64 {
        pages.saturating_mul(self.event.page_size)
    }

    pub fn is_largest(&self, process: &JetsamProcess) -> bool {
        self.largest.is_some_and(|largest| std::ptr::eq(largest, process))
    }

    /// Returns how many more processes there are.
    pub fn more(&self) -> u64 {
        self.event.processes.len().saturating_sub(MOST_SHOWN) as u64 + self.event.left_out
    }
}

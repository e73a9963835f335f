//! The live memory of a log of allocations over time, and what has grown between two of its events.

use super::list::{MOST_ROWS, ShownList};
use std::cmp::Reverse;
use unslide_captures_formats::malloc::{MemoryHistory, MemoryKind};
use unslide_site::{bytes, changed_bytes, grouped, text_or};

/// The events that the growth of a log is shown between.
#[derive(Clone, Copy, Default)]
pub struct Moments {
    pub from: Option<usize>,
    pub to: Option<usize>,
}

/// The history of a log as a page shows it.
pub struct ShownHistory {
    /// The events that growth can be shown from, with the one that it is.
    pub from: Vec<(usize, bool)>,
    pub to: Vec<(usize, bool)>,
    pub lists: [ShownList; 2],
}

impl ShownHistory {
    /// Prepares the history with the growth between two events: by default from the first moment to the last.
    pub fn from_history(history: &MemoryHistory, moments: Moments) -> ShownHistory {
        let Moments { from, to } = moments;
        let last = history.events.len().saturating_sub(1);
        // The moment at an event, or the last one before it.
        let at = |events: usize| history.events.partition_point(|at| *at <= events).saturating_sub(1);
        let (from, to) = (from.map_or(0, at), to.map_or(last, at));
        let choice = |chosen: usize| {
            history.events.iter().enumerate().map(|(at, events)| (*events, at == chosen)).collect()
        };
        let growth = ShownList {
            heading: "Growth between two events",
            caption: "Stacks by what has come to them between these two events",
            columns: &["Function", "Kind", "Grown by", "Holds"],
            lines: growth(history, from, to),
        };
        let memory = history.events.iter().zip(&history.memory).map(|(events, memory)| {
            let (heap, vm) = (bytes(memory.heap_bytes), bytes(memory.vm_bytes));
            vec![format!("{} events", grouped(*events)), heap, grouped(memory.heap_blocks), vm]
        });
        let memory = ShownList {
            heading: "Live memory over time",
            caption: "What was live after these numbers of events",
            columns: &["After", "Heap", "Blocks", "Virtual memory"],
            lines: memory.collect(),
        };
        ShownHistory { from: choice(from), to: choice(to), lists: [growth, memory] }
    }
}

/// What a stack held of one kind of memory at two moments.
struct Change<'h> {
    name: &'h str,
    kind: MemoryKind,
    before: u64,
    after: u64,
}

impl Change<'_> {
    fn grown(&self) -> i128 {
        i128::from(self.after) - i128::from(self.before)
    }

    fn line(&self) -> Vec<String> {
        let (before, after) = (self.before, self.after);
        vec![
            self.name.to_owned(),
            self.kind.in_words().to_owned(),
            changed_bytes(before, after),
            bytes(after),
        ]
    }
}

/// Returns the stacks that have changed between two moments, those that grew most first; the others together are the
/// last, for each kind of memory.
fn growth(history: &MemoryHistory, from: usize, to: usize) -> Vec<Vec<String>> {
    let held = |bytes: &[u64], at: usize| bytes.get(at).copied().unwrap_or(0);
    let rows = history.stacks.iter().map(|row| Change {
        name: text_or(&row.allocator, "unknown stack"),
        kind: row.kind,
        before: held(&row.bytes, from),
        after: held(&row.bytes, to),
    });
    let mut changed: Vec<Change<'_>> = rows.filter(|row| row.before != row.after).collect();
    changed.sort_by_key(|row| Reverse(row.grown()));
    changed.truncate(MOST_ROWS);
    let others = [MemoryKind::Heap, MemoryKind::Virtual].map(|kind| {
        let all = |at: usize| {
            history.memory.get(at).map_or(0, |row| match kind {
                MemoryKind::Heap => row.heap_bytes,
                MemoryKind::Virtual => row.vm_bytes,
            })
        };
        let of_kind = || changed.iter().filter(|row| row.kind == kind);
        let before = of_kind().map(|row| row.before).fold(0, u64::saturating_add);
        let after = of_kind().map(|row| row.after).fold(0, u64::saturating_add);
        let (before, after) = (all(from).saturating_sub(before), all(to).saturating_sub(after));
        Change { name: "all others", kind, before, after }
    });
    changed.iter().chain(others.iter().filter(|row| row.before != row.after)).map(Change::line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn growth_is_between_the_moments_at_or_before_two_events() {
        let memory =
            |bytes| json!({"heap_bytes": bytes, "heap_blocks": 1, "vm_bytes": bytes * 4, "vm_ranges": 1});
        let stack = |name: &str, bytes: [u64; 3]| json!({"stack": 1, "allocator": name, "bytes": bytes, "blocks": bytes});
        let mut pages = stack("map", [40, 4_000, 12_000]);
        pages["kind"] = json!("virtual");
        let history: MemoryHistory = serde_json::from_value(json!({
            "events": [100, 200, 300],
            "memory": [memory(10), memory(1_000), memory(3_012)],
            "stacks": [stack("load", [0, 600, 2_600]), stack("draw", [10, 400, 100]), pages]}))
        .unwrap();
        let lines = |from, to| {
            let moments = Moments { from, to };
            let shown = ShownHistory::from_history(&history, moments);
            let chosen = |of: &[(usize, bool)]| of.iter().find(|(_, chosen)| *chosen).unwrap().0;
            let lines: Vec<String> = shown.lists[0].lines.iter().map(|line| line.join("|")).collect();
            assert!(shown.lists.iter().all(|list| list.lines.iter().all(|l| l.len() == list.columns.len())));
            (chosen(&shown.from), chosen(&shown.to), lines.join(" "))
        };
        let all = (
            100,
            300,
            "map|virtual memory|+11.7 KiB|11.7 KiB load|heap|+2.5 KiB|2.5 KiB draw|heap|+90 B|100 B \
                   all others|heap|+312 B|312 B all others|virtual memory|+48 B|48 B"
                .to_owned(),
        );
        assert_eq!(lines(None, None), all);
        let part = (
            200,
            300,
            "map|virtual memory|+7.8 KiB|11.7 KiB load|heap|+2.0 KiB|2.5 KiB draw|heap|\u{2212}300 B|100 B \
                    all others|heap|+312 B|312 B all others|virtual memory|+48 B|48 B"
                .to_owned(),
        );
        assert_eq!(lines(Some(250), Some(999)), part);
        assert_eq!(lines(Some(0), Some(150)), (100, 100, String::new()));
    }
}

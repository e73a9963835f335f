//! The live memory of a log over time.

use super::replay::Replay;
use super::totals::{MemoryKind, MemoryRow, StackMemory, StackTotals, largest_first, sum_stacks};
use serde::{Deserialize, Serialize};

/// The most stacks of a history.
const MOST_STACKS: usize = 100;
/// The most moments of a history.
const MOST_MOMENTS: usize = 32;
/// The fewest events between two of them.
const FEWEST_EVENTS: usize = 64;

/// The memory of a log at moments that are evenly apart.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemoryHistory {
    /// The number of events before each moment, ascending; the last is that of the answer.
    pub events: Vec<usize>,
    /// All memory at each of them.
    pub memory: Vec<MemoryRow>,
    /// The stacks that held most at any of them, these first.
    pub stacks: Vec<StackHistory>,
}

/// The memory of one kind that a stack held at each moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StackHistory {
    /// The stack's number in the table.
    pub stack: u64,
    /// The kind of the memory.
    #[serde(default)]
    pub kind: MemoryKind,
    /// The innermost function of the app, or of all.
    pub allocator: String,
    /// Bytes.
    pub bytes: Vec<u64>,
    /// Blocks or ranges.
    pub blocks: Vec<u64>,
}

impl MemoryHistory {
    /// Returns the memory of these stacks, and of all, at each moment of a replay. `allocator` returns the
    /// name of a stack.
    pub(super) fn from_replay(
        mut replay: Replay<'_>,
        moments: Vec<usize>,
        stacks: &StackTotals,
        allocator: impl Fn(StackMemory) -> String,
    ) -> MemoryHistory {
        let largest: Vec<StackMemory> = largest_first(stacks).into_iter().map(|(of, _)| of).collect();
        let rows = largest.iter().map(|of| StackHistory {
            stack: of.stack,
            kind: of.kind,
            allocator: allocator(*of),
            bytes: Vec::with_capacity(moments.len()),
            blocks: Vec::with_capacity(moments.len()),
        });
        let mut stacks: Vec<StackHistory> = rows.collect();
        let mut memory = Vec::with_capacity(moments.len());
        for end in &moments {
            replay.advance_to(*end);
            let totals = replay.live().by_stack();
            memory.push(sum_stacks(&totals).into());
            for (of, row) in largest.iter().zip(&mut stacks) {
                let held = totals.get(of).copied().unwrap_or_default();
                row.bytes.push(held.weight);
                row.blocks.push(held.count);
            }
        }
        MemoryHistory { events: moments, memory, stacks }
    }
}

/// Returns the moments of a history of this many events.
pub(super) fn pick_moments(events: usize) -> Vec<usize> {
    let step = events.div_ceil(MOST_MOMENTS).max(FEWEST_EVENTS);
    (step..events).step_by(step).chain([events]).collect()
}

/// Returns the stacks that held most at any moment of a replay, each with the most that it held. The log is
/// replayed again for their memory at the other moments, so that only the sums of one moment are in memory.
/// The replay then stands at the last moment.
pub(super) fn largest_stacks(replay: &mut Replay<'_>, moments: &[usize]) -> StackTotals {
    let mut most = StackTotals::new();
    for end in moments {
        replay.advance_to(*end);
        for (of, held) in replay.live().by_stack() {
            let known = most.entry(of).or_default();
            if held.weight >= known.weight {
                *known = held;
            }
        }
        keep_largest(&mut most);
    }
    most
}

fn keep_largest(most: &mut StackTotals) {
    if most.len() > MOST_STACKS {
        *most = largest_first(most).into_iter().take(MOST_STACKS).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::tests::record;
    use super::super::event::{EventLayout, EventLog};
    use super::super::stack_table::tests::{ROOT, plain};
    use super::super::stack_table::{SlotForm, StackTable};
    use crate::malloc::{Checkpoints, LogQuestion, MemorySummary};

    const EVENTS: usize = 2_000;

    /// Stack 2 allocates until the middle and frees until the end; stack 3 keeps one block.
    fn log() -> Vec<u8> {
        let event = |at: usize| {
            let address = |block: usize| 0x6000_0000 + (block as u64 * 7_919 % 1_009) * 0x100;
            match at {
                0 => (2, 0x5000_0000, 10, 3),
                _ if at < EVENTS / 2 => (2, address(at), 100, 2),
                _ => (4, address(EVENTS - at), 0, 2),
            }
        };
        let events = (0..EVENTS).map(event);
        events
            .flat_map(|(flags, at, size, stack)| record(EventLayout::Index, flags, at, size, stack))
            .collect()
    }

    fn question<'a>(events: &'a [u8], table: &'a [u8]) -> LogQuestion<'a> {
        LogQuestion {
            log: EventLog::new(events, EventLayout::Index),
            table: StackTable::new(table, SlotForm::Plain),
            images: &[],
            at: None,
            from: None,
            history: true,
            most_rows: 10,
            most_functions: 10,
        }
    }

    #[test]
    fn what_is_gone_at_the_end_is_in_the_history() {
        let bytes = log();
        let table = plain(&[(0, 0), (0x104, ROOT), (0x1010, 1), (0x1020, 1)]);
        let question = question(&bytes, &table);
        let history = question.compute_answer(&|_| None).unwrap().memory.history.unwrap();
        assert!(history.events.len() > 3 && history.events.last() == Some(&EVENTS), "{:?}", history.events);
        assert!(history.events.is_sorted());
        let stacks: Vec<(u64, &str)> =
            history.stacks.iter().map(|row| (row.stack, row.allocator.as_str())).collect();
        assert_eq!(stacks, [(2, "0x1010"), (3, "0x1020")]);
        for (at, events) in history.events.iter().enumerate() {
            let rises = *events <= EVENTS / 2;
            let blocks = if rises { events - 1 } else { EVENTS - events };
            let held: Vec<(u64, u64)> =
                history.stacks.iter().map(|row| (row.bytes[at], row.blocks[at])).collect();
            let first = blocks as u64;
            assert_eq!(held, [(first * 100, first), (10, 1)], "{events}");
            assert_eq!(history.memory[at].heap_bytes, first * 100 + 10, "{events}");
        }
        let early = LogQuestion { at: Some(5), ..question }.compute_answer(&|_| None).unwrap();
        assert!(early.memory.history.is_none());
    }

    #[test]
    fn an_answer_is_that_by_checkpoints_with_or_without_a_history() {
        let bytes = log();
        let table = plain(&[(0, 0), (0x104, ROOT), (0x1010, 1), (0x1020, 1)]);
        for (at, from) in [(None, None), (Some(1_500), Some(700)), (Some(300), Some(1_200)), (Some(64), None)]
        {
            let with = LogQuestion { at, from, ..question(&bytes, &table) };
            let without = LogQuestion { history: false, ..with };
            let mut checkpoints = Checkpoints::new(with.log).unwrap();
            let mut expected = with.answer_from(&mut checkpoints, &|_| None).memory;
            let text = |memory: &MemorySummary| serde_json::to_string(memory).unwrap();
            assert_eq!(
                text(&without.compute_answer(&|_| None).unwrap().memory),
                text(&expected),
                "{at:?} {from:?}"
            );
            expected.history = with.compute_history(&|_| None).unwrap();
            assert_eq!(expected.history.is_some(), at != Some(64));
            assert_eq!(
                text(&with.compute_answer(&|_| None).unwrap().memory),
                text(&expected),
                "{at:?} {from:?}"
            );
        }
    }

    #[test]
    fn a_log_that_frees_nothing_has_moments_all_the_way() {
        // Of each 150 events every stack has one; the higher its number, the larger the block.
        let event = |at: u64| (0x6000_0000 + at * 7_919 % 10_007 * 0x100, 1 + at % 150, at % 150);
        let events = (0..9_600).map(event);
        let bytes: Vec<u8> =
            events.flat_map(|(at, size, stack)| record(EventLayout::Index, 2, at, size, stack)).collect();
        let table = plain(&[(0, 0), (0x104, ROOT)]);
        let history = question(&bytes, &table).compute_history(&|_| None).unwrap().unwrap();
        assert_eq!(history.events, (1..=32).map(|n| n * 300).collect::<Vec<usize>>());
        let stacks: Vec<u64> = history.stacks.iter().map(|row| row.stack).collect();
        assert_eq!(stacks, (50..150).rev().collect::<Vec<u64>>());
        for (n, memory) in (1..).zip(&history.memory) {
            assert_eq!((memory.heap_blocks, memory.heap_bytes), (n * 300, n * 2 * (1..=150).sum::<u64>()));
        }
        for row in &history.stacks {
            let blocks: Vec<u64> = (1..=32).map(|n| n * 2).collect();
            let bytes: Vec<u64> = blocks.iter().map(|blocks| blocks * (row.stack + 1)).collect();
            assert_eq!((&row.blocks, &row.bytes), (&blocks, &bytes));
        }
    }
}

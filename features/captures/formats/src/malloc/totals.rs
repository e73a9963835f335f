//! Sums over memory, by stack and by tag.

use super::event::{EventKind, EventLog};
use super::live::{LiveBlock, LiveSet};
use super::replay::EventCounts;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use unslide_calltree::Amount;

/// A kind of memory. Sums of the two are never added: ranges of virtual memory may hold blocks of the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    #[default]
    Heap,
    Virtual,
}

impl MemoryKind {
    /// Returns the kind in words.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            MemoryKind::Heap => "heap",
            MemoryKind::Virtual => "virtual memory",
        }
    }
}

/// Blocks of the heap and ranges of virtual memory, each with their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldMemory {
    pub heap: Amount,
    pub vm: Amount,
}

impl HeldMemory {
    pub(super) fn amount_mut(&mut self, kind: MemoryKind) -> &mut Amount {
        match kind {
            MemoryKind::Heap => &mut self.heap,
            MemoryKind::Virtual => &mut self.vm,
        }
    }
}

/// Memory of the heap, and virtual memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRow {
    pub heap_bytes: u64,
    pub heap_blocks: u64,
    pub vm_bytes: u64,
    pub vm_ranges: u64,
}

impl MemoryRow {
    /// Returns a row with memory of one kind.
    #[must_use]
    pub fn for_kind(kind: MemoryKind, amount: Amount) -> MemoryRow {
        let mut held = HeldMemory::default();
        *held.amount_mut(kind) = amount;
        held.into()
    }
}

impl From<HeldMemory> for MemoryRow {
    fn from(held: HeldMemory) -> MemoryRow {
        let HeldMemory { heap, vm } = held;
        MemoryRow {
            heap_bytes: heap.weight,
            heap_blocks: heap.count,
            vm_bytes: vm.weight,
            vm_ranges: vm.count,
        }
    }
}

/// The memory of one kind that one stack has allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackMemory {
    /// The stack: a slot of the table.
    pub stack: u64,
    pub kind: MemoryKind,
}

/// The memory of each stack, by kind.
pub type StackTotals = HashMap<StackMemory, Amount>;

impl LiveSet {
    /// Returns the memory of each stack.
    #[must_use]
    pub fn by_stack(&self) -> StackTotals {
        self.sum_where(|_| true)
    }

    /// Returns the memory of each stack that was allocated before an event. Memory that is still live much
    /// later may be leaked.
    #[must_use]
    pub fn older_than(&self, event: u64) -> StackTotals {
        self.sum_where(|block| block.born < event)
    }

    fn sum_where(&self, counts: impl Fn(&LiveBlock) -> bool) -> StackTotals {
        let mut totals = StackTotals::new();
        let heap = self.heap_blocks().map(|(_, block)| (MemoryKind::Heap, block));
        let vm = self.vm_ranges().map(|(_, range)| (MemoryKind::Virtual, range));
        for (kind, block) in heap.chain(vm).filter(|(_, block)| counts(block)) {
            *totals.entry(StackMemory { stack: block.stack, kind }).or_default() += single_block(block.size);
        }
        totals
    }

    /// Returns the memory of all stacks.
    #[must_use]
    pub fn total(&self) -> HeldMemory {
        let mut total = HeldMemory::default();
        for (_, block) in self.heap_blocks() {
            total.heap += single_block(block.size);
        }
        for (_, range) in self.vm_ranges() {
            total.vm += single_block(range.size);
        }
        total
    }

    /// Returns virtual memory by its tag.
    #[must_use]
    pub fn by_tag(&self) -> BTreeMap<u8, Amount> {
        let mut tags: BTreeMap<u8, Amount> = BTreeMap::new();
        for (_, range) in self.vm_ranges() {
            *tags.entry(range.tag).or_default() += single_block(range.size);
        }
        tags
    }
}

/// Returns the memory of all stacks.
pub(super) fn sum_stacks(totals: &StackTotals) -> HeldMemory {
    let mut sum = HeldMemory::default();
    for (of, held) in totals {
        *sum.amount_mut(of.kind) += *held;
    }
    sum
}

/// Returns the most memory first, of equals by stack and kind.
pub(super) fn largest_first(totals: &StackTotals) -> Vec<(StackMemory, Amount)> {
    let mut largest: Vec<_> = totals.iter().map(|(of, held)| (*of, *held)).collect();
    largest.sort_unstable_by_key(|(of, held)| (Reverse(held.weight), *of));
    largest
}

fn single_block(size: u64) -> Amount {
    Amount { count: 1, weight: size }
}

/// By how much the memory of one kind of a stack has grown between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackGrowth {
    /// The stack and the kind.
    pub of: StackMemory,
    /// The memory that it held first.
    pub before: Amount,
    /// The memory that it holds now.
    pub after: Amount,
}

impl StackGrowth {
    /// Returns the bytes that came to it; below 0 if it shrank.
    #[must_use]
    pub fn grown_bytes(&self) -> i128 {
        i128::from(self.after.weight) - i128::from(self.before.weight)
    }
}

/// Returns the stacks with changed memory, the largest growth first; of equals by stack and kind.
#[must_use]
pub fn list_growth(before: &StackTotals, after: &StackTotals) -> Vec<StackGrowth> {
    let held = |totals: &StackTotals, of: &StackMemory| totals.get(of).copied().unwrap_or_default();
    let gone = before.keys().filter(|of| !after.contains_key(*of));
    let both = after.keys().chain(gone).map(|of| StackGrowth {
        of: *of,
        before: held(before, of),
        after: held(after, of),
    });
    let mut changed: Vec<StackGrowth> = both.filter(|row| row.before != row.after).collect();
    changed.sort_by(|a, b| b.grown_bytes().cmp(&a.grown_bytes()).then(a.of.cmp(&b.of)));
    changed
}

/// All that a log allocates and frees, in any order of its events.
#[derive(Clone, Debug, Default)]
pub struct LogTotals {
    /// The number of its records of each kind.
    pub counts: EventCounts,
    /// The memory that each stack allocates, including freed memory.
    pub allocated: StackTotals,
}

impl EventLog<'_> {
    /// Returns the sums over all events. They need no order, so that a sorted log has them too.
    #[must_use]
    pub fn sum_events(&self) -> LogTotals {
        let mut totals = LogTotals::default();
        for event in self.events(0, self.len()) {
            let event = match event {
                Ok(event) => event,
                Err(why) => {
                    totals.counts.count_skipped(why);
                    continue;
                }
            };
            totals.counts.count_event(event.kind);
            if event.kind != EventKind::Deallocation {
                let kind = if event.vm { MemoryKind::Virtual } else { MemoryKind::Heap };
                *totals.allocated.entry(StackMemory { stack: event.stack, kind }).or_default() +=
                    single_block(event.size);
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::EventLayout;
    use super::super::event::tests::record;
    use super::super::replay::Replay;
    use super::*;

    fn log() -> Vec<u8> {
        let events = [
            (2_u32, 0x30, 10, 1),
            (2, 0x20, 20, 1),
            (16 | 7 << 24, 0x8000, 4096, 2),
            (2, 0x10, 5, 3),
            (4, 0x30, 0, 9),
            (2, 0x40, 40, 1),
        ];
        events
            .iter()
            .flat_map(|(flags, at, size, stack)| record(EventLayout::Index, *flags, *at, *size, *stack))
            .collect()
    }

    #[test]
    fn memory_is_summed_by_stack_tag_and_age() {
        let bytes = log();
        let mut replay = Replay::new(EventLog::new(&bytes, EventLayout::Index)).unwrap();
        replay.advance_to(4);
        let before = replay.live().by_stack();
        replay.advance_to(6);
        let live = replay.live();
        assert_eq!(live.total().heap, Amount { count: 3, weight: 65 });
        assert_eq!(live.by_tag(), BTreeMap::from([(7, Amount { count: 1, weight: 4096 })]));
        let older = live.older_than(4);
        let heap = |stack| StackMemory { stack, kind: MemoryKind::Heap };
        assert_eq!((older[&heap(1)].weight, older[&heap(3)].weight), (20, 5));
        let changed = list_growth(&before, &live.by_stack());
        assert_eq!(changed.len(), 1);
        assert_eq!((changed[0].of, changed[0].grown_bytes()), (heap(1), 30));
    }

    #[test]
    fn totals_count_what_was_freed_too() {
        let totals = EventLog::new(&log(), EventLayout::Index).sum_events();
        let first = StackMemory { stack: 1, kind: MemoryKind::Heap };
        assert_eq!(totals.allocated[&first], Amount { count: 3, weight: 70 });
        assert_eq!((totals.counts.allocations, totals.counts.deallocations), (5, 1));
    }
}

//! Sums over memory, by stack and by tag.

use super::event::{EventKind, EventLog};
use super::live::{LiveBlock, LiveSet};
use super::replay::EventCounts;
use crate::calltree::Amount;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// An amount of memory: blocks of the heap and ranges of virtual memory, with their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldMemory {
    /// Of the heap.
    pub heap: Amount,
    /// Virtual memory.
    pub vm: Amount,
}

impl HeldMemory {
    /// Both together.
    #[must_use]
    pub fn total(&self) -> Amount {
        let mut total = self.heap;
        total += self.vm;
        total
    }
}

/// Memory of the heap, and virtual memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRow {
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// Blocks of the heap.
    pub heap_blocks: u64,
    /// Bytes of virtual memory.
    pub vm_bytes: u64,
    /// Ranges of virtual memory.
    pub vm_ranges: u64,
}

impl MemoryRow {
    /// The bytes of both.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.heap_bytes.saturating_add(self.vm_bytes)
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

/// The memory of each stack.
pub type StackTotals = HashMap<u64, HeldMemory>;

impl LiveSet {
    /// The memory of each stack.
    #[must_use]
    pub fn by_stack(&self) -> StackTotals {
        self.sum(|_| true)
    }

    /// The memory of each stack that was allocated before an event: what is still there much later may be
    /// leaked.
    #[must_use]
    pub fn older_than(&self, event: u64) -> StackTotals {
        self.sum(|block| block.born < event)
    }

    fn sum(&self, counts: impl Fn(&LiveBlock) -> bool) -> StackTotals {
        let mut totals = StackTotals::new();
        for (_, block) in self.heap().filter(|(_, block)| counts(block)) {
            totals.entry(block.stack).or_default().heap += one(block.size);
        }
        for (_, range) in self.vm().filter(|(_, range)| counts(range)) {
            totals.entry(range.stack).or_default().vm += one(range.size);
        }
        totals
    }

    /// The memory of all stacks.
    #[must_use]
    pub fn total(&self) -> HeldMemory {
        let mut total = HeldMemory::default();
        for (_, block) in self.heap() {
            total.heap += one(block.size);
        }
        for (_, range) in self.vm() {
            total.vm += one(range.size);
        }
        total
    }

    /// Virtual memory by its tag.
    #[must_use]
    pub fn by_tag(&self) -> BTreeMap<u8, Amount> {
        let mut tags: BTreeMap<u8, Amount> = BTreeMap::new();
        for (_, range) in self.vm() {
            *tags.entry(range.tag).or_default() += one(range.size);
        }
        tags
    }
}

/// The memory of all stacks.
pub(super) fn sum(totals: &StackTotals) -> HeldMemory {
    let mut sum = HeldMemory::default();
    for held in totals.values() {
        sum.heap += held.heap;
        sum.vm += held.vm;
    }
    sum
}

fn one(size: u64) -> Amount {
    Amount { count: 1, weight: size }
}

/// By how much the memory of a stack has grown between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackGrowth {
    /// The stack.
    pub stack: u64,
    /// What it held first.
    pub before: HeldMemory,
    /// What it holds now.
    pub after: HeldMemory,
}

impl StackGrowth {
    /// The bytes that came to it; below 0 where it shrank.
    #[must_use]
    pub fn bytes(&self) -> i128 {
        i128::from(self.after.total().weight) - i128::from(self.before.total().weight)
    }
}

/// The stacks with changed memory, the largest growth first; of equals by stack.
#[must_use]
pub fn growth(before: &StackTotals, after: &StackTotals) -> Vec<StackGrowth> {
    let held = |totals: &StackTotals, stack: u64| totals.get(&stack).copied().unwrap_or_default();
    let gone = before.keys().filter(|stack| !after.contains_key(*stack));
    let both = after.keys().chain(gone).map(|stack| StackGrowth {
        stack: *stack,
        before: held(before, *stack),
        after: held(after, *stack),
    });
    let mut changed: Vec<StackGrowth> = both.filter(|stack| stack.before != stack.after).collect();
    changed.sort_by(|a, b| b.bytes().cmp(&a.bytes()).then(a.stack.cmp(&b.stack)));
    changed
}

/// All that a log allocates and frees, in any order of its events.
#[derive(Clone, Debug, Default)]
pub struct LogTotals {
    /// What its records are.
    pub counts: EventCounts,
    /// What each stack allocates, whether it is freed or not.
    pub allocated: StackTotals,
}

impl EventLog<'_> {
    /// The sums over all events. They need no order, so that they can be had of a sorted log.
    #[must_use]
    pub fn totals(&self) -> LogTotals {
        let mut totals = LogTotals::default();
        for event in self.events(0, self.len()) {
            let event = match event {
                Ok(event) => event,
                Err(why) => {
                    totals.counts.skip(why);
                    continue;
                }
            };
            totals.counts.add(event.kind);
            if event.kind != EventKind::Deallocation {
                let held = totals.allocated.entry(event.stack).or_default();
                let amount = if event.vm { &mut held.vm } else { &mut held.heap };
                *amount += one(event.size);
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
        assert_eq!((older[&1].heap.weight, older[&3].heap.weight), (20, 5));
        let changed = growth(&before, &live.by_stack());
        assert_eq!(changed.len(), 1);
        assert_eq!((changed[0].stack, changed[0].bytes()), (1, 30));
    }

    #[test]
    fn totals_count_what_was_freed_too() {
        let totals = EventLog::new(&log(), EventLayout::Index).totals();
        assert_eq!(totals.allocated[&1].heap, Amount { count: 3, weight: 70 });
        assert_eq!((totals.counts.allocations, totals.counts.deallocations), (5, 1));
    }
}

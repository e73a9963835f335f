//! Replays a log event by event: the allocated memory after any of them. Its own memory is that of the live
//! blocks.

use super::event::{EventKind, EventLog, MallocEvent, NoEvent};
use super::live::{LiveBlock, LiveSet};
use serde::{Deserialize, Serialize};

/// A log that cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the log is sorted by address: its totals are known, but not its live allocations at a time")]
pub struct SortedByAddress;

/// The number of records of each kind in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventCounts {
    /// Allocations.
    pub allocations: u64,
    /// Deallocations.
    pub deallocations: u64,
    /// Reallocations.
    pub reallocations: u64,
    /// Deallocations of blocks that are not live: the block was allocated before the log began, or its record
    /// is lost.
    pub unknown_deallocations: u64,
    /// Allocations at the address of live memory: the record of its deallocation is lost.
    pub replaced: u64,
    /// Records that were not written.
    pub empty: u64,
    /// Records of something else.
    pub other: u64,
    /// Damaged records.
    pub damaged: u64,
    /// Records that break the order of a log that is sorted by address.
    #[serde(default)]
    pub out_of_order: u64,
}

impl EventCounts {
    /// Counts a record that is no event.
    pub(super) fn count_skipped(&mut self, why: NoEvent) {
        match why {
            NoEvent::Empty => self.empty += 1,
            NoEvent::Other => self.other += 1,
            NoEvent::Damaged => self.damaged += 1,
        }
    }

    /// Counts an event.
    pub(super) fn count_event(&mut self, kind: EventKind) {
        match kind {
            EventKind::Allocation => self.allocations += 1,
            EventKind::Deallocation => self.deallocations += 1,
            EventKind::Reallocation => self.reallocations += 1,
        }
    }
}

/// A replay that stands between two events. It only goes on: [`Checkpoints`](super::Checkpoints) lead back.
#[derive(Clone, Debug)]
pub struct Replay<'a> {
    log: EventLog<'a>,
    at: usize,
    live: LiveSet,
    counts: EventCounts,
}

impl<'a> Replay<'a> {
    /// Creates a replay before the first event.
    ///
    /// # Errors
    /// Returns [`SortedByAddress`] if the log is sorted by address.
    pub fn new(log: EventLog<'a>) -> Result<Replay<'a>, SortedByAddress> {
        if log.out_of_order().is_some() {
            return Err(SortedByAddress);
        }
        Ok(Replay { log, at: 0, live: LiveSet::default(), counts: EventCounts::default() })
    }

    /// Returns the number of records that were read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the live memory.
    #[must_use]
    pub fn live(&self) -> &LiveSet {
        &self.live
    }

    /// Returns the counts of the records so far.
    #[must_use]
    pub fn counts(&self) -> EventCounts {
        self.counts
    }

    /// Goes on until `end` records are read, or all.
    pub fn advance_to(&mut self, end: usize) {
        let end = end.min(self.log.len());
        for (born, event) in (self.at as u64..).zip(self.log.events(self.at, end)) {
            match event {
                Ok(event) => self.apply_event(&event, born),
                Err(why) => self.counts.count_skipped(why),
            }
        }
        self.at = self.at.max(end);
    }

    #[inline]
    fn apply_event(&mut self, event: &MallocEvent, born: u64) {
        self.counts.count_event(event.kind);
        let MallocEvent { address, size, stack, .. } = *event;
        let block = LiveBlock { size, stack, born, tag: event.tag };
        match (event.kind, event.vm) {
            (EventKind::Deallocation, false) => {
                self.counts.unknown_deallocations += u64::from(self.live.remove_block(address).is_none());
            }
            (EventKind::Deallocation, true) => {
                let known = match size {
                    // A deallocation may leave the size out.
                    0 => self.live.unmap_whole(address),
                    _ => self.live.unmap_range(address, size),
                };
                self.counts.unknown_deallocations += u64::from(!known);
            }
            (EventKind::Allocation, true) => {
                self.counts.replaced += u64::from(self.live.map_range(address, block));
            }
            (EventKind::Allocation, false) => {
                self.counts.replaced += u64::from(self.live.add_block(address, block).is_some());
            }
            // A block that keeps its place is there already.
            (EventKind::Reallocation, _) => {
                self.live.add_block(address, block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::EventLayout;
    use super::super::event::tests::{LAYOUTS, record};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const LAYOUT: EventLayout = EventLayout::Disk64;

    fn log(events: &[(u32, u64, u64, u64)]) -> Vec<u8> {
        events
            .iter()
            .flat_map(|(flags, at, size, stack)| record(LAYOUT, *flags, *at, *size, *stack))
            .collect()
    }

    fn blocks(replay: &Replay<'_>) -> BTreeMap<u64, (u64, u64)> {
        replay.live().heap_blocks().map(|(address, block)| (address, (block.size, block.stack))).collect()
    }

    #[test]
    fn the_live_set_is_that_of_the_moment() {
        let bytes =
            log(&[(2, 0x20, 8, 1), (2, 0x10, 16, 2), (4, 0x20, 0, 3), (6, 0x10, 32, 4), (2, 0x20, 64, 5)]);
        let mut replay = Replay::new(EventLog::new(&bytes, LAYOUT)).unwrap();
        let mut sizes = Vec::new();
        for end in 1..=5 {
            replay.advance_to(end);
            sizes.push(replay.live().heap_blocks().map(|(_, block)| block.size).sum::<u64>());
        }
        assert_eq!(sizes, [8, 24, 16, 32, 96]);
        let counts = replay.counts();
        assert_eq!((counts.allocations, counts.deallocations, counts.reallocations), (3, 1, 1));
        assert_eq!((counts.unknown_deallocations, counts.replaced), (0, 0));
    }

    #[test]
    fn what_does_not_fit_is_counted_and_costs_nothing_else() {
        let mut bytes = log(&[(4, 0x90, 0, 1), (2, 0x20, 8, 1), (2, 0x20, 9, 2), (0, 0, 0, 0), (1, 1, 1, 1)]);
        bytes.extend(log(&[(2 | 16, 0x50, 1, 1), (2, u64::MAX - 1, 9, 1)]));
        bytes.extend([7; 11]);
        let mut replay = Replay::new(EventLog::new(&bytes, LAYOUT)).unwrap();
        replay.advance_to(usize::MAX);
        let counts = replay.counts();
        assert_eq!((counts.unknown_deallocations, counts.replaced), (1, 1));
        assert_eq!((counts.empty, counts.other, counts.damaged), (1, 1, 2));
        assert_eq!(blocks(&replay), BTreeMap::from([(0x20, (9, 2))]));
    }

    #[test]
    fn a_sorted_log_is_refused() {
        let sorted: Vec<_> = (1..100).map(|n| (2, n * 16, 8, 1)).collect();
        let bytes = log(&sorted);
        assert_eq!(Replay::new(EventLog::new(&bytes, LAYOUT)).err(), Some(SortedByAddress));
    }

    #[test]
    fn virtual_memory_is_freed_with_its_size_or_without() {
        let bytes =
            log(&[(16, 0x1000, 0x2000, 1), (16, 0x8000, 0x1000, 2), (32, 0x8000, 0, 0), (32, 0x2000, 0, 0)]);
        let mut replay = Replay::new(EventLog::new(&bytes, LAYOUT)).unwrap();
        replay.advance_to(usize::MAX);
        let ranges: Vec<(u64, u64)> = replay.live().vm_ranges().map(|(at, range)| (at, range.size)).collect();
        assert_eq!(ranges, [(0x1000, 0x2000)]);
        assert_eq!(replay.counts().unknown_deallocations, 1, "no range begins there");
    }

    /// The bytes of the heap and of the pages, one by one.
    #[derive(Default)]
    struct Model {
        heap: BTreeMap<u64, (u64, u64)>,
        /// The stack of each byte, and the number of the event that allocated it.
        pages: BTreeMap<u64, (u64, usize)>,
        events: usize,
    }

    impl Model {
        fn apply(&mut self, flags: u32, address: u64, size: u64, stack: u64) {
            self.events += 1;
            match flags {
                2 | 6 => drop(self.heap.insert(address, (size, stack))),
                4 => drop(self.heap.remove(&address)),
                16 => self.pages.extend((address..address + size).map(|byte| (byte, (stack, self.events)))),
                32 if size == 0 => self.free_range(address),
                32 => self.pages.retain(|byte, _| !(address..address + size).contains(byte)),
                _ => {}
            }
        }

        /// Frees the range that begins at an address. Its bytes were allocated together, and no other range
        /// is between them.
        fn free_range(&mut self, address: u64) {
            let Some(range) = self.pages.get(&address).copied() else { return };
            if self.pages.get(&(address - 1)) == Some(&range) {
                return;
            }
            let mut byte = address;
            while self.pages.get(&byte) == Some(&range) {
                self.pages.remove(&byte);
                byte += 1;
            }
        }
    }

    proptest! {
        #[test]
        fn a_replay_agrees_with_a_model_of_single_bytes(
            events in prop::collection::vec(
                (prop::sample::select(vec![2_u32, 2, 4, 4, 6, 16, 32, 1, 0]), 1_u64..40, 0_u64..12, 1_u64..9), 0..120),
            stop in 0_usize..120,
            layout in prop::sample::select(LAYOUTS.to_vec()),
        ) {
            let bytes: Vec<u8> =
                events.iter().flat_map(|(flags, at, size, stack)| record(layout, *flags, *at, *size, *stack)).collect();
            let Ok(mut replay) = Replay::new(EventLog::new(&bytes, layout)) else { return Ok(()) };
            let mut model = Model::default();
            for (flags, at, size, stack) in events.iter().take(stop) {
                model.apply(*flags, *at, *size, *stack);
            }
            // Pausing changes nothing.
            replay.advance_to(stop / 2);
            replay.advance_to(stop);
            prop_assert_eq!(blocks(&replay), model.heap);
            let pages: BTreeMap<u64, u64> = replay
                .live()
                .vm_ranges()
                .flat_map(|(at, range)| (at..at + range.size).map(|byte| (byte, range.stack)))
                .collect();
            let expected: BTreeMap<u64, u64> = model.pages.iter().map(|(byte, (stack, _))| (*byte, *stack)).collect();
            prop_assert_eq!(pages, expected);
        }

        #[test]
        fn any_bytes_are_replayed(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            for layout in LAYOUTS {
                let log = EventLog::new(&bytes, layout);
                if let Ok(mut replay) = Replay::new(log) {
                    replay.advance_to(usize::MAX);
                    let counts = replay.counts();
                    let events = counts.allocations + counts.deallocations + counts.reallocations;
                    prop_assert_eq!(events + counts.empty + counts.other + counts.damaged, log.len() as u64);
                }
            }
        }
    }
}

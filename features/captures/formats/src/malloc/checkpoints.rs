//! Any event of a log without a replay from its start: live sets are kept on the way, and a replay goes on from the
//! last one before the event.

use super::event::EventLog;
use super::replay::{Replay, SortedByAddress};

/// The most checkpoints.
const MOST_CHECKPOINTS: usize = 32;
/// The most blocks that all of them have room for, some 200 MB.
const MOST_BLOCKS: usize = 1 << 22;
/// The fewest events between two of them.
const FEWEST_EVENTS: usize = 64;

/// Replays that were kept at some events of a log. Their memory is bounded, so there are fewer if the live
/// sets are large.
#[derive(Clone, Debug)]
pub struct Checkpoints<'a> {
    log: EventLog<'a>,
    /// By position; the first stands before the first event.
    kept: Vec<Replay<'a>>,
    /// The fewest events between two of them.
    spacing: usize,
    most_blocks: usize,
}

impl<'a> Checkpoints<'a> {
    /// Creates the checkpoint before the first event. Others are kept when a replay passes them.
    ///
    /// # Errors
    /// Returns [`SortedByAddress`] if the log is sorted by address.
    pub fn new(log: EventLog<'a>) -> Result<Checkpoints<'a>, SortedByAddress> {
        Checkpoints::with_block_limit(MOST_BLOCKS, log)
    }

    /// Does the same with another limit of blocks.
    fn with_block_limit(most_blocks: usize, log: EventLog<'a>) -> Result<Checkpoints<'a>, SortedByAddress> {
        let kept = vec![Replay::new(log)?];
        let spacing = log.len().div_ceil(MOST_CHECKPOINTS).max(FEWEST_EVENTS);
        Ok(Checkpoints { log, kept, spacing, most_blocks })
    }

    /// Returns the replay after `end` events, or all. It continues from the last checkpoint before them.
    #[must_use]
    pub fn replay_to(&mut self, end: usize) -> Replay<'a> {
        let end = end.min(self.log.len());
        let after = self.kept.partition_point(|kept| kept.position() <= end);
        let is_last = after == self.kept.len();
        // The first stands before every event.
        let mut replay = self.kept[after.saturating_sub(1)].clone();
        while is_last && let Some(next) = self.next_after(&replay).filter(|next| *next <= end) {
            replay.advance_to(next);
            self.keep_copy(&replay);
        }
        replay.advance_to(end);
        replay
    }

    /// Returns the position of the next checkpoint: after at least as many events as the copy of this one
    /// takes blocks, so that copies cost less than the replay.
    fn next_after(&self, replay: &Replay<'a>) -> Option<usize> {
        replay.position().checked_add(self.spacing.max(replay.live().block_capacity()))
    }

    /// Keeps a copy of a replay that is further than all others, unless it alone is too large. If the copies
    /// would become too large with it, every second one is dropped first and their spacing doubles.
    fn keep_copy(&mut self, replay: &Replay<'a>) {
        let room = replay.live().block_capacity();
        if room > self.most_blocks {
            return;
        }
        while self.kept.len() > 1 && self.total_capacity() + room > self.most_blocks {
            let mut goes = true;
            self.kept.retain(|_| {
                goes = !goes;
                !goes
            });
            self.spacing = self.spacing.saturating_mul(2);
        }
        self.kept.push(replay.clone());
    }

    fn total_capacity(&self) -> usize {
        self.kept.iter().map(|kept| kept.live().block_capacity()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::EventLayout;
    use super::super::event::tests::record;
    use super::super::live::LiveBlock;
    use super::*;
    use std::collections::BTreeMap;

    const LAYOUT: EventLayout = EventLayout::Disk64;
    const EVENTS: u64 = 20_000;

    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    /// Allocations, deallocations and reallocations of blocks and of ranges of pages.
    fn log(random: &mut Random) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..EVENTS {
            let (at, stack) = (random.below(400), random.below(30));
            let (flags, address, size) = match random.below(10) {
                0..4 => (2, 0x6000_0000 + at * 48, random.below(48)),
                4..7 => (4, 0x6000_0000 + at * 48, 0),
                7 => (6, 0x6000_0000 + at * 48, random.below(48)),
                8 => (16, 0x1_0000_0000 + at * 4096, 4096 * (1 + random.below(4))),
                _ => (32, 0x1_0000_0000 + at * 4096, 4096 * random.below(3)),
            };
            bytes.extend(record(LAYOUT, flags, address, size, stack));
        }
        bytes
    }

    type Blocks = BTreeMap<(bool, u64), LiveBlock>;

    fn blocks(replay: &Replay<'_>) -> Blocks {
        let heap = replay.live().heap_blocks().map(|(at, block)| ((false, at), *block));
        let vm = replay.live().vm_ranges().map(|(at, range)| ((true, at), *range));
        heap.chain(vm).collect()
    }

    /// Where the checkpoints after the first stand.
    fn positions(checkpoints: &Checkpoints<'_>) -> Vec<usize> {
        checkpoints.kept.iter().skip(1).map(Replay::position).collect()
    }

    #[test]
    fn a_replay_from_a_checkpoint_is_that_from_the_start() {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let bytes = log(&mut random);
        let log = EventLog::new(&bytes, LAYOUT);
        for most_blocks in [MOST_BLOCKS, 5_000, 0] {
            let mut checkpoints = Checkpoints::with_block_limit(most_blocks, log).unwrap();
            for _ in 0..100 {
                let end = usize::try_from(random.below(EVENTS + 1)).unwrap();
                let mut from_start = Replay::new(log).unwrap();
                from_start.advance_to(end);
                let found = checkpoints.replay_to(end);
                assert_eq!((found.position(), found.counts()), (end, from_start.counts()), "{most_blocks}");
                assert_eq!(blocks(&found), blocks(&from_start), "{most_blocks} {end}");
            }
            let positions = positions(&checkpoints);
            assert!(positions.is_sorted() && checkpoints.total_capacity() <= most_blocks, "{positions:?}");
            assert!(positions.len() <= MOST_CHECKPOINTS && positions.is_empty() == (most_blocks == 0));
        }
    }

    #[test]
    fn a_replay_to_the_end_keeps_checkpoints_all_the_way() {
        let bytes = log(&mut Random(1));
        let mut checkpoints = Checkpoints::new(EventLog::new(&bytes, LAYOUT)).unwrap();
        assert_eq!(checkpoints.replay_to(usize::MAX).position() as u64, EVENTS);
        let positions = positions(&checkpoints);
        let are_near = positions.windows(2).all(|two| two[1] - two[0] < 1_000);
        assert!(positions.len() >= 15 && are_near, "{positions:?}");
    }

    #[test]
    fn checkpoints_stay_where_the_live_set_outgrows_their_memory() {
        let address = |at: u64| 0x6000_0000 + at * 7_919 % 10_007 * 0x40;
        let bytes: Vec<u8> = (0..8_000).flat_map(|at| record(LAYOUT, 2, address(at), 48, 1)).collect();
        let mut checkpoints = Checkpoints::with_block_limit(1_000, EventLog::new(&bytes, LAYOUT)).unwrap();
        for end in [8_000, 900, 5_000] {
            assert_eq!(checkpoints.replay_to(end).live().heap_blocks().count(), end);
            let positions = positions(&checkpoints);
            assert!(!positions.is_empty() && checkpoints.total_capacity() <= 1_000, "{end} {positions:?}");
        }
    }
}

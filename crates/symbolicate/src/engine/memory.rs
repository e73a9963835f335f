//! A thread's memory of finished answers, over reports: crashes repeat the same stacks.

use super::output::FrameDetail;
use crate::answer::{Judged, SettledFrame, settle_address};
use crate::plan::{Join, Plan, PlannedFrame};
use std::cell::RefCell;

/// Number of answers that a thread remembers at most. A slot holds the latest answer whose key hashes to it.
const SLOTS_LIMIT: usize = 1 << 13;

/// Bytes of answers that a thread remembers at most. The oldest are overwritten.
const REMEMBERED_BYTES_LIMIT: usize = 4 << 20;

/// Bytes of the longest answer that is remembered.
const ANSWER_BYTES_LIMIT: usize = 16 << 10;

thread_local! {
    static MEMORY: RefCell<AnswerMemory> = const { RefCell::new(AnswerMemory::without_answers()) };
}

/// Calls a function with this thread's memory. The function must not call this again.
pub(super) fn with_memory<R>(work: impl FnOnce(&mut AnswerMemory) -> R) -> R {
    MEMORY.with_borrow_mut(work)
}

/// Answers by symbols, as they were written.
pub(super) struct AnswerMemory {
    slots: Vec<Slot>,
    /// Hashes of the keys that were asked for last.
    seen: Vec<u32>,
    /// The answers one after another, from the start again when it is full.
    ring: Vec<u8>,
    /// Bytes that were ever written to the ring, gaps at its end included.
    written: u64,
}

/// Where a frame's answer would be remembered, and its image in this report.
#[derive(Clone, Copy)]
pub(super) struct AnswerKey {
    place: AnswerPlace,
    /// The index of the image in the report's plan.
    pub(super) image: usize,
}

/// Everything that an answer by symbols depends on.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct AnswerPlace {
    /// The number of the symcache in this process, from 1.
    symcache: u64,
    relative: u64,
    /// The detail, and what changes the look-up or is written beside it.
    variant: u8,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    place: AnswerPlace,
    bytes: usize,
    /// Bytes that were written to the ring before it.
    start: u64,
}

impl AnswerKey {
    /// Returns `None` without symbols.
    #[inline]
    pub(super) fn for_frame(
        plan: &Plan<'_, '_>,
        judged: &[Judged<'_>],
        planned: &PlannedFrame,
        after_sigtramp: bool,
        extent: FrameDetail,
    ) -> Option<AnswerKey> {
        let SettledFrame { choice, place, address } = settle_address(planned, after_sigtramp);
        let place = place.filter(|_| planned.valid)?;
        let image = place.image as usize;
        let (own, symbols) = (plan.images.get(image)?, judged.get(image)?.symbols?);
        let flags = [
            choice.adjusted,
            choice.approximate || planned.imprecise || own.approximate,
            planned.pac_stripped,
            place.reattributed,
            place.join == Join::OutsideSize,
        ];
        let variant = flags.into_iter().fold(extent as u8, |all, flag| all << 1 | u8::from(flag));
        let relative = address.wrapping_sub(own.start);
        Some(AnswerKey {
            place: AnswerPlace { symcache: symbols.process_number(), relative, variant },
            image,
        })
    }

    fn hash_place(&self) -> u64 {
        let AnswerPlace { symcache, relative, variant } = self.place;
        (relative ^ u64::from(variant) << 56 ^ symcache << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

impl AnswerMemory {
    const fn without_answers() -> AnswerMemory {
        AnswerMemory { slots: Vec::new(), seen: Vec::new(), ring: Vec::new(), written: 0 }
    }

    /// Returns the answer, if it is remembered.
    #[inline]
    pub(super) fn find_answer(&self, key: &AnswerKey) -> Option<&[u8]> {
        let slot = self.slots.get(slot_index(key.hash_place())).filter(|slot| slot.place == key.place)?;
        let is_overwritten = self.written - slot.start > REMEMBERED_BYTES_LIMIT as u64;
        let start = ring_index(slot.start);
        self.ring.get(start..start + slot.bytes).filter(|_| !is_overwritten)
    }

    /// Remembers an answer that is seen for the second time, unless it is long: stacks that come once cost no copy, and take
    /// no place of others.
    pub(super) fn remember_answer(&mut self, key: &AnswerKey, answer: &[u8]) {
        self.slots.resize(SLOTS_LIMIT, Slot::default());
        self.seen.resize(SLOTS_LIMIT, 0);
        let hash = key.hash_place();
        let seen = &mut self.seen[slot_index(hash)];
        if std::mem::replace(seen, hash as u32) != hash as u32 || answer.len() > ANSWER_BYTES_LIMIT {
            return;
        }
        let left = REMEMBERED_BYTES_LIMIT - ring_index(self.written);
        if answer.len() > left {
            self.written += left as u64;
        }
        let start = ring_index(self.written);
        let end = start + answer.len();
        self.ring.resize(self.ring.len().max(end), 0);
        self.ring[start..end].copy_from_slice(answer);
        self.slots[slot_index(hash)] = Slot { place: key.place, bytes: answer.len(), start: self.written };
        self.written += answer.len() as u64;
    }
}

fn slot_index(hash: u64) -> usize {
    (hash >> 40) as usize % SLOTS_LIMIT
}

/// Returns where in the ring the byte with this number is.
fn ring_index(number: u64) -> usize {
    usize::try_from(number % REMEMBERED_BYTES_LIMIT as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(symcache: u64, relative: u64, variant: u8) -> AnswerKey {
        AnswerKey { place: AnswerPlace { symcache, relative, variant }, image: 0 }
    }

    #[test]
    fn an_answer_is_found_as_it_was_written_or_not_at_all() {
        let mut memory = AnswerMemory::without_answers();
        assert_eq!(memory.find_answer(&key(1, 0, 0)), None);
        let mut found = 0;
        // Six times what the ring holds, with lengths that leave gaps at its end.
        for number in 1..30_000_u64 {
            let answer = number.to_string().repeat(1 + number as usize % 173);
            memory.remember_answer(&key(1, number, 0), answer.as_bytes());
            assert_eq!(memory.find_answer(&key(1, number, 0)), None);
            memory.remember_answer(&key(1, number, 0), answer.as_bytes());
            let earlier = number.saturating_sub(number * 7 % 5_000);
            if let Some(remembered) = memory.find_answer(&key(1, earlier, 0)) {
                found += 1;
                let expected = earlier.to_string().repeat(1 + earlier as usize % 173);
                assert_eq!(remembered, expected.as_bytes(), "{earlier} after {number}");
            }
            assert!(memory.ring.len() <= REMEMBERED_BYTES_LIMIT && memory.slots.len() == SLOTS_LIMIT);
        }
        assert!(found > 10_000, "{found}");
        assert_eq!(memory.find_answer(&key(1, 1, 0)), None);
    }

    #[test]
    fn another_symcache_address_or_variant_is_another_answer() {
        let mut memory = AnswerMemory::without_answers();
        for _ in 0..2 {
            memory.remember_answer(&key(1, 0x1000, 0), b"{}");
        }
        for other in [key(2, 0x1000, 0), key(1, 0x1001, 0), key(1, 0x1000, 1)] {
            assert_eq!(memory.find_answer(&other), None);
        }
        assert_eq!(memory.find_answer(&key(1, 0x1000, 0)), Some(&b"{}"[..]));
        for _ in 0..2 {
            memory.remember_answer(&key(1, 0x2000, 0), &vec![b' '; ANSWER_BYTES_LIMIT + 1]);
            assert_eq!(memory.find_answer(&key(1, 0x2000, 0)), None);
        }
    }
}

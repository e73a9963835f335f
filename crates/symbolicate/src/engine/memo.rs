//! Cache of answers for addresses that several threads share.

use super::output::FrameDetail;
use crate::answer::{SettledFrame, settle_address};
use std::ops::Range;

/// Ranges in the output of answers for addresses that several threads share. A slot holds the
/// latest address that hashes to it.
pub(super) struct Memo {
    slots: Vec<Option<(MemoKey, Range<u32>)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct MemoKey {
    address: u64,
    image: u32,
    flags: u8,
    extent: FrameDetail,
}

impl Memo {
    pub(super) fn new(frames: usize) -> Memo {
        let slots = if frames < 4 { 0 } else { frames.next_power_of_two().min(1024) };
        Memo { slots: vec![None; slots] }
    }

    /// Returns everything that an answer by symbols depends on; `None` without an image.
    pub(super) fn build_key(
        &self,
        planned: &crate::plan::PlannedFrame,
        after_sigtramp: bool,
        extent: FrameDetail,
    ) -> Option<MemoKey> {
        let SettledFrame { choice, place, address } = settle_address(planned, after_sigtramp);
        let place = place.filter(|_| planned.valid && !self.slots.is_empty())?;
        let flags = [
            choice.adjusted,
            choice.approximate || planned.imprecise,
            planned.pac_stripped,
            place.reattributed,
        ];
        let flags = flags.into_iter().fold(0, |all, flag| all << 1 | u8::from(flag));
        Some(MemoKey { address, image: place.image, flags, extent })
    }

    fn slot_index(&self, key: &MemoKey) -> usize {
        let mixed = (key.address ^ u64::from(key.flags)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 40) as usize & (self.slots.len() - 1)
    }

    pub(super) fn get(&self, key: &Option<MemoKey>) -> Option<(Range<usize>, u32)> {
        let key = key.as_ref()?;
        let (known, range) = self.slots[self.slot_index(key)].as_ref()?;
        (known == key).then_some((range.start as usize..range.end as usize, key.image))
    }

    pub(super) fn store_answer(&mut self, key: Option<MemoKey>, range: Range<usize>, image: u32) {
        let Some(key) = key.filter(|key| key.image == image) else { return };
        let (Ok(start), Ok(end)) = (u32::try_from(range.start), u32::try_from(range.end)) else { return };
        let slot = self.slot_index(&key);
        self.slots[slot] = Some((key, start..end));
    }
}

//! Looks up many ascending addresses in one walk over the ranges.

use super::view::{CallRecord, FunctionTexts, OwnerRecord, View};
use unslide_model::RelativeAddress;

/// Result of a walk for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkedPlace {
    /// In the range with this number, which may be a gap.
    Range(usize),
    /// Before the first range.
    Before,
    /// Past the end of the image.
    Outside,
}

/// A walk over the ranges. It searches onwards from the last address, in steps that double: near addresses cost
/// little, and far ones no more than a binary search.
pub(crate) struct RangeWalk<'a> {
    view: View<'a>,
    starts: &'a [[u8; 4]],
    /// Number of ranges that start at or before the last address.
    passed: usize,
}

impl<'a> RangeWalk<'a> {
    pub(super) fn new(view: View<'a>) -> RangeWalk<'a> {
        let section = view.layout.starts;
        let bytes = view.bytes.get(section.at..).and_then(|rest| rest.get(..section.len * 4));
        RangeWalk { view, starts: bytes.unwrap_or_default().as_chunks().0, passed: 0 }
    }

    /// Finds an address that is not below the last one. Also returns the first address after it with another
    /// answer.
    #[inline]
    pub(crate) fn find_range(&mut self, address: RelativeAddress) -> (WalkedPlace, RelativeAddress) {
        let Some(offset) = self.view.to_offset(address) else {
            return (WalkedPlace::Outside, RelativeAddress(u64::MAX));
        };
        let extent = self.view.layout.extent;
        let is_passed = |start: &[u8; 4]| u32::from_le_bytes(*start) <= offset;
        let rest = self.starts.get(self.passed..).unwrap_or_default();
        let (mut low, mut high) = (0, 1);
        while rest.get(high - 1).is_some_and(is_passed) {
            low = high;
            high *= 2;
        }
        let between = rest.get(low..high.min(rest.len())).unwrap_or_default();
        self.passed += low + between.partition_point(is_passed);
        let next =
            self.starts.get(self.passed).map_or(extent, |start| u32::from_le_bytes(*start).min(extent));
        let place = self.passed.checked_sub(1).map_or(WalkedPlace::Before, WalkedPlace::Range);
        (place, RelativeAddress(u64::from(next)))
    }

    /// Replaces `calls` with the calls of a range, the innermost first. Returns the owner of its code; `None`
    /// for a gap.
    #[inline]
    pub(crate) fn read_chain(&self, range: usize, calls: &mut Vec<CallRecord>) -> Option<OwnerRecord> {
        calls.clear();
        let (_, _, owner) = self.view.walk_chain(range, |call| calls.push(call))?;
        Some(owner)
    }

    /// Returns the texts of a function.
    pub(crate) fn function_texts(&self, index: u32) -> Option<FunctionTexts<'a>> {
        self.view.function_texts(index)
    }

    /// Returns the number of functions.
    pub(crate) fn function_count(&self) -> usize {
        self.view.layout.functions.len
    }
}

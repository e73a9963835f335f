//! Many ascending addresses in one walk over the ranges.

use super::view::{CallRecord, FunctionTexts, OwnerRecord, View};
use unslide_model::RelativeAddress;

/// Where a walk finds an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkedPlace {
    /// In the range with this number, which may be a gap.
    Range(usize),
    /// Before the first range.
    Before,
    /// Past the end of the image.
    Outside,
}

/// A walk over the ranges. It searches from where it found the last address, in steps that double, so that near
/// addresses cost little and far ones no more than a binary search.
pub(crate) struct RangeWalk<'a> {
    view: View<'a>,
    starts: &'a [[u8; 4]],
    /// The ranges that start at or before the last address.
    passed: usize,
}

impl<'a> RangeWalk<'a> {
    pub(super) fn new(view: View<'a>) -> RangeWalk<'a> {
        let section = view.layout.starts;
        let bytes = view.bytes.get(section.at..).and_then(|rest| rest.get(..section.len * 4));
        RangeWalk { view, starts: bytes.unwrap_or_default().as_chunks().0, passed: 0 }
    }

    /// Where an address lies that is not below the last one, and the first address behind it that lies elsewhere.
    #[inline]
    pub(crate) fn find(&mut self, address: RelativeAddress) -> (WalkedPlace, RelativeAddress) {
        let Some(offset) = self.view.offset(address) else {
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

    /// Puts the calls of a range in place of others, the innermost first, and gives the owner of its code; `None` for a
    /// gap.
    #[inline]
    pub(crate) fn chain(&self, range: usize, calls: &mut Vec<CallRecord>) -> Option<OwnerRecord> {
        calls.clear();
        let (_, _, owner) = self.view.chain(range, |call| calls.push(call))?;
        Some(owner)
    }

    /// The texts of a function.
    pub(crate) fn function(&self, index: u32) -> Option<FunctionTexts<'a>> {
        self.view.function_texts(index)
    }

    /// The number of functions.
    pub(crate) fn functions(&self) -> usize {
        self.view.layout.functions.len
    }
}

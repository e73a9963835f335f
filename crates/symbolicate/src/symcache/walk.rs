//! Many ascending addresses in one walk over the ranges.

use super::view::{CallRecord, CodeAnswer, FunctionTexts, View};
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

    /// Where an address lies that is not below the last one.
    #[inline]
    pub(crate) fn find(&mut self, address: RelativeAddress) -> WalkedPlace {
        let offset = match u32::try_from(address.0) {
            Ok(offset) if offset < self.view.layout.extent => offset,
            _ => return WalkedPlace::Outside,
        };
        let is_passed = |start: &[u8; 4]| u32::from_le_bytes(*start) <= offset;
        let rest = self.starts.get(self.passed..).unwrap_or_default();
        let (mut low, mut high) = (0, 1);
        while rest.get(high - 1).is_some_and(is_passed) {
            low = high;
            high *= 2;
        }
        let between = rest.get(low..high.min(rest.len())).unwrap_or_default();
        self.passed += low + between.partition_point(is_passed);
        self.passed.checked_sub(1).map_or(WalkedPlace::Before, WalkedPlace::Range)
    }

    /// The answer of a range; `None` for a gap.
    pub(crate) fn answer(&self, range: usize) -> Option<CodeAnswer<'a>> {
        self.view.answer_of(range)
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

impl CodeAnswer<'_> {
    /// As [`CodeAnswer::calls`], without their texts.
    pub(crate) fn records(&self) -> impl Iterator<Item = CallRecord> {
        let (view, mut next) = (self.view, Some(self.place));
        let records = std::iter::from_fn(move || {
            let (record, caller) = view.call_record(next.take()?)?;
            next = caller;
            Some(record)
        });
        records.take(super::MAX_CALLS)
    }
}

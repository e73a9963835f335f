//! Finds the image that contains an address, for any list of images.
//!
//! Images may overlap, be listed twice or share their start. If several contain an address, the one that
//! starts last (the innermost) answers; of those the smallest, of those the first listed. The intervals are
//! flattened once, in O(n log n), into stretches with one answer each. So a look-up is one binary search in
//! any list.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The memory range of an image: its position in the list, first address and size in bytes. A range
/// that exceeds the last address is cut off there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageExtent {
    /// The image's position in the list.
    pub image: u32,
    /// Its first address.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
}

impl ImageExtent {
    /// Returns the last address of the image; `None` if its size is 0.
    fn last_address(self) -> Option<u64> {
        self.size.checked_sub(1).map(|beyond| self.start.saturating_add(beyond))
    }
}

/// Consecutive addresses that have the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressStretch {
    /// The image that contains the addresses.
    pub image: Option<u32>,
    /// The first of the addresses.
    pub first: u64,
    /// The last of them.
    pub last: u64,
}

impl AddressStretch {
    /// A stretch without addresses.
    pub const EMPTY: AddressStretch = AddressStretch { image: None, first: 1, last: 0 };

    /// True if the stretch contains the address.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        self.first <= address && address <= self.last
    }
}

/// Index of images by address.
#[derive(Debug, Default)]
pub struct ImageIndex {
    /// Addresses at which the answer changes, ascending.
    boundaries: Vec<u64>,
    /// The answers: each applies from the boundary at the same position.
    answers: Vec<Option<u32>>,
    /// Every image by start, size and position, including those without size.
    by_start: Vec<ImageExtent>,
}

impl ImageIndex {
    /// Sorts and flattens a list of images.
    #[must_use]
    pub fn from_images(images: impl IntoIterator<Item = ImageExtent>) -> ImageIndex {
        let mut by_start: Vec<ImageExtent> = images.into_iter().collect();
        by_start.sort_unstable_by_key(|e| (e.start, e.size, e.image));
        let mut index = ImageIndex {
            boundaries: Vec::with_capacity(by_start.len() * 2),
            answers: Vec::with_capacity(by_start.len() * 2),
            by_start,
        };
        index.flatten_extents();
        index
    }

    /// Sweeps over the addresses. The heap holds the images that have begun, with the one that
    /// answers on top. Images that have ended are dropped when they reach the top.
    fn flatten_extents(&mut self) {
        let by_start = std::mem::take(&mut self.by_start);
        let mut open: BinaryHeap<(u64, Reverse<u64>, Reverse<u32>, u64)> = BinaryHeap::new();
        let mut coming = by_start.iter().filter_map(|e| Some((*e, e.last_address()?))).peekable();
        loop {
            let next = coming.peek().map(|(e, _)| e.start);
            let ends = open.peek().map(|(.., last)| *last);
            let at = match (ends, next) {
                (Some(last), next) if next.is_none_or(|start| last < start) => {
                    while open.peek().is_some_and(|(.., l)| *l <= last) {
                        open.pop();
                    }
                    // No address follows an image that reaches the last address.
                    let Some(behind) = last.checked_add(1) else { break };
                    behind
                }
                (_, Some(start)) => {
                    while let Some((e, last)) = coming.next_if(|(e, _)| e.start == start) {
                        open.push((start, Reverse(e.size), Reverse(e.image), last));
                    }
                    start
                }
                (_, None) => break,
            };
            self.answer_from(at, open.peek().map(|(_, _, Reverse(image), _)| *image));
        }
        self.by_start = by_start;
    }

    fn answer_from(&mut self, at: u64, answer: Option<u32>) {
        if self.boundaries.last() == Some(&at) {
            self.boundaries.pop();
            self.answers.pop();
        }
        if self.answers.last().copied().flatten() != answer {
            self.boundaries.push(at);
            self.answers.push(answer);
        }
    }

    /// Returns the image that contains an address.
    #[must_use]
    pub fn image_at(&self, address: u64) -> Option<u32> {
        self.stretch_at(address).image
    }

    /// Returns the addresses around `address` that have the same answer.
    #[must_use]
    pub fn stretch_at(&self, address: u64) -> AddressStretch {
        let after = self.boundaries.partition_point(|b| *b <= address);
        let last = self.boundaries.get(after).map_or(u64::MAX, |next| next - 1);
        match after.checked_sub(1) {
            Some(at) => AddressStretch { image: self.answers[at], first: self.boundaries[at], last },
            None => AddressStretch { image: None, first: 0, last },
        }
    }

    /// Returns the image that starts at `start` and contains `address`, the smallest of several.
    #[must_use]
    pub fn containing_from(&self, start: u64, address: u64) -> Option<u32> {
        let offset = address.checked_sub(start)?;
        let at = self.by_start.partition_point(|e| (e.start, e.size) <= (start, offset));
        self.by_start.get(at).filter(|e| e.start == start).map(|e| e.image)
    }

    /// Returns the first image without size that starts at `start`.
    #[must_use]
    pub fn unsized_from(&self, start: u64) -> Option<u32> {
        let at = self.by_start.partition_point(|e| e.start < start);
        self.by_start.get(at).filter(|e| e.start == start && e.size == 0).map(|e| e.image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn index(images: &[(u64, u64)]) -> ImageIndex {
        ImageIndex::from_images(extents(images))
    }

    fn extents(images: &[(u64, u64)]) -> Vec<ImageExtent> {
        (0..)
            .zip(images)
            .map(|(image, (start, size))| ImageExtent { image, start: *start, size: *size })
            .collect()
    }

    /// The rule word by word, in O(n).
    fn slow(images: &[(u64, u64)], address: u64) -> Option<u32> {
        extents(images)
            .into_iter()
            .filter(|e| e.start <= address && e.last_address().is_some_and(|last| address <= last))
            .max_by_key(|e| (e.start, Reverse(e.size), Reverse(e.image)))
            .map(|e| e.image)
    }

    #[test]
    fn an_image_contains_its_first_and_last_byte_and_no_other() {
        let index = index(&[(0x1000, 0x100), (0x3000, 0x100)]);
        let at = [0xFFF, 0x1000, 0x10FF, 0x1100, 0x3000, 0x30FF, 0x3100].map(|a| index.image_at(a));
        assert_eq!(at, [None, Some(0), Some(0), None, Some(1), Some(1), None]);
    }

    #[test]
    fn adjacent_images_do_not_leave_a_hole() {
        let index = index(&[(0x2000, 0x100), (0x1F00, 0x100)]);
        assert_eq!([0x1FFF, 0x2000].map(|a| index.image_at(a)), [Some(1), Some(0)]);
    }

    #[test]
    fn the_innermost_image_answers_then_the_smaller_then_the_first() {
        let nested = index(&[(0x1000, 0x1000), (0x1400, 0x100)]);
        assert_eq!(
            [0x13FF, 0x1400, 0x14FF, 0x1500].map(|a| nested.image_at(a)),
            [Some(0), Some(1), Some(1), Some(0)]
        );
        let same_start = index(&[(0x1000, 0x1000), (0x1000, 0x100)]);
        assert_eq!([0x10FF, 0x1100].map(|a| same_start.image_at(a)), [Some(1), Some(0)]);
        assert_eq!(index(&[(0x1000, 8), (0x1000, 8)]).image_at(0x1000), Some(0));
    }

    #[test]
    fn images_at_the_end_of_the_address_space_are_cut_off_there() {
        let index = index(&[(u64::MAX - 1, 2), (u64::MAX - 9, u64::MAX)]);
        let at = [u64::MAX - 10, u64::MAX - 9, u64::MAX - 1, u64::MAX].map(|a| index.image_at(a));
        assert_eq!(at, [None, Some(1), Some(0), Some(0)]);
        assert_eq!(super::ImageIndex::from_images([]).image_at(0), None);
    }

    #[test]
    fn an_image_is_found_by_its_start() {
        let index = index(&[(0x1000, 0x100), (0x1000, 0x10), (0x1000, 0), (0x2000, 0x10)]);
        assert_eq!(index.containing_from(0x1000, 0x1005), Some(1));
        assert_eq!(index.containing_from(0x1000, 0x1010), Some(0));
        assert_eq!(index.containing_from(0x1000, 0x1100), None);
        assert_eq!(index.containing_from(0x1001, 0x1005), None);
        assert_eq!(index.containing_from(0x1000, 0xFFF), None);
        assert_eq!(index.unsized_from(0x1000), Some(2));
        assert_eq!(index.unsized_from(0x2000), None);
    }

    #[test]
    fn many_overlapping_images_stay_cheap() {
        let images: Vec<(u64, u64)> = (0..100_000).map(|i| (0x1000 + i, 0x10_0000)).collect();
        let index = index(&images);
        assert!(index.boundaries.len() <= 2 * images.len());
        for address in (0x1000..0x12_0000).step_by(7) {
            let newest = (address - 0x1000).min(99_999);
            assert_eq!(
                index.image_at(address),
                (address < 0x1000 + newest + 0x10_0000).then_some(newest as u32)
            );
        }
    }

    proptest! {
        #[test]
        fn the_index_answers_as_the_rule_does(
            images in proptest::collection::vec((0_u64..64, 0_u64..24), 0..24),
            high: bool,
        ) {
            let base = if high { u64::MAX - 63 } else { 0 };
            let images: Vec<_> = images.into_iter().map(|(start, size)| (base + start, size)).collect();
            let index = index(&images);
            for address in (0..64).map(|a| base + a) {
                let stretch = index.stretch_at(address);
                prop_assert_eq!(stretch.image, slow(&images, address));
                prop_assert!(stretch.contains(address));
                for other in (0..64).map(|a| base + a).filter(|a| stretch.contains(*a)) {
                    prop_assert_eq!(index.image_at(other), stretch.image);
                }
                for start in (0..64).map(|a| base + a) {
                    let wanted = extents(&images)
                        .into_iter()
                        .filter(|e| e.start == start && e.start <= address && e.last_address().is_some_and(|l| address <= l))
                        .min_by_key(|e| (e.size, e.image))
                        .map(|e| e.image);
                    prop_assert_eq!(index.containing_from(start, address), wanted);
                }
            }
        }
    }
}

//! The memory that is allocated at a moment: blocks of the heap, and ranges of virtual memory.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

/// A block, or a range of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBlock {
    pub size: u64,
    /// The stack that allocated it.
    pub stack: u64,
    /// The position of the event that allocated it.
    pub born: u64,
    /// Its tag, if it is virtual memory.
    pub tag: u8,
}

/// The memory that is allocated.
#[derive(Clone, Debug, Default)]
pub struct LiveSet {
    heap: HashMap<u64, LiveBlock>,
    /// Ranges that do not overlap, by their starts.
    vm: BTreeMap<u64, LiveBlock>,
}

impl LiveSet {
    /// Returns the blocks of the heap with their addresses, in no order.
    pub fn heap_blocks(&self) -> impl Iterator<Item = (u64, &LiveBlock)> {
        self.heap.iter().map(|(address, block)| (*address, block))
    }

    /// Returns the block of the heap that begins at an address.
    #[must_use]
    pub fn heap_block(&self, address: u64) -> Option<&LiveBlock> {
        self.heap.get(&address)
    }

    /// Returns the ranges of virtual memory with their addresses, in order of these.
    pub fn vm_ranges(&self) -> impl Iterator<Item = (u64, &LiveBlock)> {
        self.vm.iter().map(|(address, block)| (*address, block))
    }

    /// Returns the number of blocks that its memory has room for. A copy takes the same room.
    pub(super) fn block_capacity(&self) -> usize {
        self.heap.capacity() + self.vm.len()
    }

    /// Adds a block; gives the one that was at its address.
    pub(super) fn add_block(&mut self, address: u64, block: LiveBlock) -> Option<LiveBlock> {
        self.heap.insert(address, block)
    }

    /// Removes a block. Returns `None` if there is none.
    pub(super) fn remove_block(&mut self, address: u64) -> Option<LiveBlock> {
        let removed = self.heap.remove(&address);
        if self.heap.len() < self.heap.capacity() / 8 {
            self.heap.shrink_to(self.heap.len() * 2);
        }
        removed
    }

    /// Adds a range in place of the memory that was there. Returns true if there was some.
    pub(super) fn map_range(&mut self, address: u64, range: LiveBlock) -> bool {
        if range.size == 0 {
            return false;
        }
        let replaced = self.unmap_range(address, range.size);
        self.vm.insert(address, range);
        replaced
    }

    /// Removes the range that begins at an address. Returns true if there is one.
    pub(super) fn unmap_whole(&mut self, address: u64) -> bool {
        self.vm.remove(&address).is_some()
    }

    /// Removes a range, which may be parts of several. Returns true if something was removed.
    pub(super) fn unmap_range(&mut self, address: u64, size: u64) -> bool {
        let end = address.saturating_add(size);
        if size == 0 {
            return false;
        }
        let mut removed = false;
        // The range that begins before may reach into this one, and beyond it.
        let before = self.vm.range_mut(..address).next_back();
        if let Some((start, range)) = before {
            let old_end = start + range.size;
            if old_end > address {
                removed = true;
                range.size = address - start;
                let rest = *range;
                if old_end > end {
                    self.vm.insert(end, LiveBlock { size: old_end - end, ..rest });
                }
            }
        }
        while let Some((start, range)) =
            self.vm.range((Bound::Included(address), Bound::Excluded(end))).next()
        {
            let (start, range) = (*start, *range);
            self.vm.remove(&start);
            removed = true;
            let old_end = start + range.size;
            if old_end > end {
                self.vm.insert(end, LiveBlock { size: old_end - end, ..range });
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(live: &LiveSet) -> Vec<(u64, u64, u64)> {
        live.vm_ranges().map(|(address, range)| (address, range.size, range.stack)).collect()
    }

    fn mapped(live: &mut LiveSet, address: u64, size: u64, stack: u64) -> bool {
        live.map_range(address, LiveBlock { size, stack, born: 0, tag: 0 })
    }

    #[test]
    fn a_range_is_unmapped_in_parts() {
        let mut live = LiveSet::default();
        mapped(&mut live, 0x1000, 0x4000, 1);
        assert!(live.unmap_range(0x2000, 0x1000));
        assert_eq!(ranges(&live), [(0x1000, 0x1000, 1), (0x3000, 0x2000, 1)]);
        assert!(live.unmap_range(0x1800, 0x2000));
        assert_eq!(ranges(&live), [(0x1000, 0x800, 1), (0x3800, 0x1800, 1)]);
        assert!(!live.unmap_range(0x1800, 0x1000) && live.unmap_range(0, u64::MAX));
        assert!(ranges(&live).is_empty());
    }

    #[test]
    fn memory_is_given_back_when_blocks_are_removed() {
        let mut live = LiveSet::default();
        for address in 0..10_000 {
            live.add_block(address, LiveBlock { size: 1, stack: 1, born: address, tag: 0 });
        }
        assert!(live.block_capacity() >= 10_000);
        for address in 10..10_000 {
            assert_eq!(live.remove_block(address).map(|block| block.born), Some(address));
        }
        assert!(live.heap_blocks().count() == 10 && live.block_capacity() < 100, "{}", live.block_capacity());
    }

    #[test]
    fn what_is_mapped_over_others_replaces_them() {
        let mut live = LiveSet::default();
        assert!(!mapped(&mut live, 0x1000, 0x1000, 1) && !mapped(&mut live, 0x2000, 0x1000, 2));
        assert!(mapped(&mut live, 0x1800, 0x1000, 3));
        assert_eq!(ranges(&live), [(0x1000, 0x800, 1), (0x1800, 0x1000, 3), (0x2800, 0x800, 2)]);
    }
}

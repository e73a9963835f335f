//! Symbols that were deleted, while object storage may still have them. Where there are too many, those that were deleted
//! longest ago go.

use lru::LruCache;
use std::num::NonZeroUsize;
use unslide_model::{DebugId, Owned, Owner};

/// The generation with which each was deleted: no alias of it, or of one before it, counts any more.
pub(super) struct DeletedSymbols(LruCache<Owned<DebugId>, u64>);

impl DeletedSymbols {
    /// Remembers at most `most`.
    pub(super) fn new(most: usize) -> DeletedSymbols {
        let mut all = LruCache::unbounded();
        all.resize(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN));
        DeletedSymbols(all)
    }

    pub(super) fn insert(&mut self, id: &Owned<DebugId>, generation: u64) {
        let before = self.0.peek(id).copied().unwrap_or_default();
        self.0.push(id.clone(), generation.max(before));
    }

    /// True where an alias of this generation was deleted.
    pub(super) fn has(&self, id: &Owned<DebugId>, generation: u64) -> bool {
        self.0.peek(id).is_some_and(|deleted| generation <= *deleted)
    }

    /// There are symbols again, of this generation.
    pub(super) fn published(&mut self, id: &Owned<DebugId>, generation: u64) {
        if self.0.peek(id).is_some_and(|deleted| generation > *deleted) {
            self.0.pop(id);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn remove_owner(&mut self, owner: &Owner) {
        let ids: Vec<_> = self.0.iter().map(|(id, _)| id).filter(|id| id.owner == *owner).cloned().collect();
        for id in ids {
            self.0.pop(&id);
        }
    }
}

//! Symbols that were deleted while object storage may still have them. Beyond the limit, the oldest deletions
//! are dropped.

use lru::LruCache;
use std::num::NonZeroUsize;
use unslide_model::{DebugId, Owned, Owner};

/// The generation at which each was deleted: its alias is ignored up to that generation.
pub(super) struct DeletedSymbols(LruCache<Owned<DebugId>, u64>);

impl DeletedSymbols {
    /// Returns an empty list for at most `most` deletions.
    pub(super) fn new(most: usize) -> DeletedSymbols {
        let mut all = LruCache::unbounded();
        all.resize(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN));
        DeletedSymbols(all)
    }

    pub(super) fn insert(&mut self, id: &Owned<DebugId>, generation: u64) {
        let before = self.0.peek(id).copied().unwrap_or_default();
        self.0.push(id.clone(), generation.max(before));
    }

    /// True if an alias of this generation was deleted.
    pub(super) fn is_deleted(&self, id: &Owned<DebugId>, generation: u64) -> bool {
        self.0.peek(id).is_some_and(|deleted| generation <= *deleted)
    }

    /// Records that symbols of this generation were published again.
    pub(super) fn record_published(&mut self, id: &Owned<DebugId>, generation: u64) {
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

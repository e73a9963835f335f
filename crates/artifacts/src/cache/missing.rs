//! Remembered answers that are not a symcache, limited in time and number. Beyond the limit, the least recently
//! requested are dropped.

use lru::LruCache;
use std::num::NonZeroUsize;
use unslide_model::{DebugId, Owned, Owner};
use unslide_symbolicate::ImageSymbols;

/// A remembered answer that is not a symcache.
pub(super) struct Negative {
    pub(super) answer: ImageSymbols,
    /// Microseconds of the monotonic clock.
    pub(super) until: i64,
}

pub(super) struct Missing(LruCache<Owned<DebugId>, Negative>);

impl Missing {
    /// Returns an empty list for at most `most` answers.
    pub(super) fn new(most: usize) -> Missing {
        let mut all = LruCache::unbounded();
        all.resize(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN));
        Missing(all)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn get(&mut self, id: &Owned<DebugId>, now: i64) -> Option<ImageSymbols> {
        let negative = self.0.get(id)?;
        if negative.until > now {
            return Some(negative.answer.clone());
        }
        self.0.pop(id);
        None
    }

    pub(super) fn remove(&mut self, id: &Owned<DebugId>) {
        self.0.pop(id);
    }

    pub(super) fn remove_owner(&mut self, owner: &Owner) {
        let ids: Vec<_> = self.0.iter().map(|(id, _)| id).filter(|id| id.owner == *owner).cloned().collect();
        for id in ids {
            self.0.pop(&id);
        }
    }

    /// Adds an answer. Returns how many others were dropped early.
    pub(super) fn insert(&mut self, id: &Owned<DebugId>, negative: Negative) -> u64 {
        let gone = self.0.push(id.clone(), negative);
        gone.is_some_and(|(gone, _)| gone != *id).into()
    }
}

//! Remembered answers that are not a symcache, bounded in time and number. Where there are too many, the
//! owner that has the most loses its oldest.

use std::collections::{BTreeMap, HashMap};
use unslide_model::{DebugId, Owned, Owner};
use unslide_symbolicate::ImageSymbols;

/// A remembered answer that is not a symcache.
pub(super) struct Negative {
    pub(super) answer: ImageSymbols,
    /// Microseconds of the monotonic clock.
    pub(super) until: i64,
}

pub(super) struct Missing {
    most: usize,
    all: HashMap<Owned<DebugId>, (Negative, u64)>,
    /// Each owner's in the order in which they came, which is the order in which they end.
    owners: HashMap<Owner, BTreeMap<u64, DebugId>>,
    ticks: u64,
}

impl Missing {
    /// Remembers at most `most`.
    pub(super) fn new(most: usize) -> Missing {
        Missing { most: most.max(1), all: HashMap::new(), owners: HashMap::new(), ticks: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.owners.clear();
    }

    pub(super) fn get(&mut self, id: &Owned<DebugId>, now: i64) -> Option<ImageSymbols> {
        let (negative, _) = self.all.get(id)?;
        if negative.until <= now {
            self.remove(id);
            return None;
        }
        Some(negative.answer.clone())
    }

    pub(super) fn remove(&mut self, id: &Owned<DebugId>) {
        let Some((_, came)) = self.all.remove(id) else { return };
        if let Some(own) = self.owners.get_mut(&id.owner) {
            own.remove(&came);
            if own.is_empty() {
                self.owners.remove(&id.owner);
            }
        }
    }

    pub(super) fn remove_owner(&mut self, owner: &Owner) {
        for id in self.owners.remove(owner).unwrap_or_default().into_values() {
            self.all.remove(&owner.own(id));
        }
    }

    /// Adds one; says how many had to go before their time.
    pub(super) fn insert(&mut self, id: Owned<DebugId>, negative: Negative) -> u64 {
        self.remove(&id);
        let mut dropped = 0;
        while self.all.len() >= self.most {
            // The oldest of the owner that has the most; of two that have as many the same one each time.
            let largest =
                self.owners.iter().max_by(|(a, x), (b, y)| x.len().cmp(&y.len()).then_with(|| b.cmp(a)));
            let Some((owner, own)) = largest else { break };
            let Some(id) = own.first_key_value().map(|(_, id)| *id) else { break };
            let oldest = owner.own(id);
            self.remove(&oldest);
            dropped += 1;
        }
        self.ticks += 1;
        self.owners.entry(id.owner.clone()).or_default().insert(self.ticks, id.id);
        self.all.insert(id, (negative, self.ticks));
        dropped
    }
}

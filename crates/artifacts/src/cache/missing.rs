//! What is known not to be there, for a while and so many: who asks for more makes room by its own.

use super::segments::Owner;
use super::{Cached, Slot};
use std::collections::{BTreeMap, HashMap};
use unslide_model::DebugId;

/// A remembered answer that is not a symcache.
pub(super) struct Negative {
    pub(super) answer: Cached,
    /// Microseconds of the monotonic clock.
    pub(super) until: i64,
}

#[derive(Default)]
pub(super) struct Missing {
    all: HashMap<Slot, (Negative, u64)>,
    /// Each owner's in the order in which they came, which is the order in which they end.
    owners: HashMap<Owner, BTreeMap<u64, DebugId>>,
    ticks: u64,
}

impl Missing {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.owners.clear();
    }

    pub(super) fn get(&mut self, slot: &Slot, now: i64) -> Option<Cached> {
        let (negative, _) = self.all.get(slot)?;
        if negative.until <= now {
            self.remove(slot);
            return None;
        }
        Some(negative.answer.clone())
    }

    pub(super) fn remove(&mut self, slot: &Slot) {
        let Some((_, came)) = self.all.remove(slot) else { return };
        if let Some(own) = self.owners.get_mut(&slot.tenant) {
            own.remove(&came);
            if own.is_empty() {
                self.owners.remove(&slot.tenant);
            }
        }
    }

    pub(super) fn remove_owner(&mut self, owner: &Owner) {
        for id in self.owners.remove(owner).unwrap_or_default().into_values() {
            self.all.remove(&Slot { tenant: owner.clone(), id });
        }
    }

    /// Adds one; says how many had to go before their time so that there are at most `most`.
    pub(super) fn insert(&mut self, slot: Slot, negative: Negative, most: usize) -> u64 {
        self.remove(&slot);
        let mut dropped = 0;
        while self.all.len() >= most.max(1) {
            // The oldest of whoever has the most; of two that have as many the same one each time.
            let largest =
                self.owners.iter().max_by(|(a, x), (b, y)| x.len().cmp(&y.len()).then_with(|| b.cmp(a)));
            let Some((owner, own)) = largest else { break };
            let Some(id) = own.first_key_value().map(|(_, id)| *id) else { break };
            let oldest = Slot { tenant: owner.clone(), id };
            self.remove(&oldest);
            dropped += 1;
        }
        self.ticks += 1;
        self.owners.entry(slot.tenant.clone()).or_default().insert(self.ticks, slot.id);
        self.all.insert(slot, (negative, self.ticks));
        dropped
    }
}

//! Eviction policy. Each owner's symcaches are in two segments, in the order of last use: on probation those
//! used once, proven those used again. Only an owner that uses symcaches repeatedly takes capacity from
//! others, and only up to its share.

use super::disk::OnDisk;
use super::{CacheSettings, CacheStats};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use unslide_model::{DebugId, Owned, Owner};
use unslide_symbolicate::symcache::SymCache;

/// A symcache on disk.
pub(super) struct CacheEntry {
    pub(super) file: OnDisk,
    /// The verified map; `None` if the file still has to be mapped and verified.
    pub(super) mapped: Option<Arc<SymCache>>,
    /// True if no event can have been missed since it was fetched or compared.
    pub(super) checked: bool,
    used: u64,
    /// True if it was used more than once.
    proven: bool,
}

impl CacheEntry {
    pub(super) fn on_disk(file: OnDisk) -> CacheEntry {
        CacheEntry { file, mapped: None, checked: true, used: 0, proven: false }
    }

    pub(super) fn from_download(file: OnDisk, mapped: Arc<SymCache>) -> CacheEntry {
        CacheEntry { mapped: Some(mapped), ..CacheEntry::on_disk(file) }
    }
}

/// Reason why a symcache was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvictionReason {
    /// Its owner exceeded its share.
    OverShare,
    /// It was used once, and so were too many others.
    Probation,
    /// It was the least recently used of the proven ones.
    LeastUsed,
}

/// Entries of one kind in the order of last use.
#[derive(Default)]
struct UseOrder {
    by_use: BTreeMap<u64, DebugId>,
    cost: u64,
}

impl UseOrder {
    fn oldest(&self) -> Option<(u64, DebugId)> {
        self.by_use.first_key_value().map(|(used, id)| (*used, *id))
    }
}

#[derive(Default)]
struct OwnerEntries {
    probation: UseOrder,
    proven: UseOrder,
}

impl OwnerEntries {
    fn cost(&self) -> u64 {
        self.probation.cost + self.proven.cost
    }

    fn order_for(&mut self, proven: bool) -> &mut UseOrder {
        if proven { &mut self.proven } else { &mut self.probation }
    }

    /// Returns this owner's first entry to evict. `probation` is the limit for entries that were used once.
    fn first_to_go(&self, probation: u64, incoming: u64) -> Option<DebugId> {
        let (once, again) = (self.probation.oldest(), self.proven.oldest());
        let crowded = self.probation.cost.saturating_add(incoming) > probation;
        let first = if crowded { once.or(again) } else { again.or(once) };
        first.map(|(_, id)| id)
    }
}

pub(super) struct Entries {
    settings: CacheSettings,
    all: HashMap<Owned<DebugId>, CacheEntry>,
    owners: HashMap<Owner, OwnerEntries>,
    /// The mapped entries, by last use.
    mapped: BTreeMap<u64, Owned<DebugId>>,
    ticks: u64,
    bytes: u64,
}

impl Entries {
    pub(super) fn new(settings: CacheSettings) -> Entries {
        let (all, owners) = (HashMap::new(), HashMap::new());
        Entries { settings, all, owners, mapped: BTreeMap::new(), ticks: 0, bytes: 0 }
    }

    pub(super) fn get(&self, id: &Owned<DebugId>) -> Option<&CacheEntry> {
        self.all.get(id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &Owned<DebugId>> {
        self.all.keys()
    }

    pub(super) fn uncheck_all(&mut self) {
        self.all.values_mut().for_each(|entry| entry.checked = false);
    }

    /// Records a use: the entry is now proven.
    pub(super) fn record_use(&mut self, id: &Owned<DebugId>) {
        if let Some(entry) = self.remove(id) {
            self.insert(id.clone(), CacheEntry { proven: true, ..entry });
        }
    }

    /// Records that an entry was mapped, verified and compared.
    pub(super) fn record_mapped(&mut self, id: &Owned<DebugId>, symcache: Arc<SymCache>) {
        if let Some(entry) = self.remove(id) {
            self.insert(id.clone(), CacheEntry { mapped: Some(symcache), checked: true, ..entry });
        }
    }

    /// Adds an entry for an id without one, as the most recently used.
    pub(super) fn insert(&mut self, id: Owned<DebugId>, mut entry: CacheEntry) {
        self.ticks += 1;
        entry.used = self.ticks;
        self.bytes += entry.file.size;
        let order = self.owners.entry(id.owner.clone()).or_default().order_for(entry.proven);
        order.by_use.insert(entry.used, id.id);
        order.cost += self.settings.file_cost(entry.file.size);
        if entry.mapped.is_some() {
            self.mapped.insert(entry.used, id.clone());
        }
        self.all.insert(id, entry);
    }

    pub(super) fn remove(&mut self, id: &Owned<DebugId>) -> Option<CacheEntry> {
        let entry = self.all.remove(id)?;
        self.bytes -= entry.file.size;
        if let Some(own) = self.owners.get_mut(&id.owner) {
            let order = own.order_for(entry.proven);
            order.by_use.remove(&entry.used);
            order.cost -= self.settings.file_cost(entry.file.size);
            if own.cost() == 0 {
                self.owners.remove(&id.owner);
            }
        }
        self.mapped.remove(&entry.used);
        Some(entry)
    }

    /// Unmaps files until the limit is met. Returns the number of unmapped files.
    pub(super) fn unmap_excess(&mut self) -> u64 {
        let mut given = 0;
        while self.mapped.len() > self.settings.limits.mapped
            && let Some((_, id)) = self.mapped.pop_first()
        {
            if let Some(entry) = self.all.get_mut(&id) {
                entry.mapped = None;
            }
            given += 1;
        }
        given
    }

    /// True if one more file of `incoming` bytes does not fit.
    pub(super) fn is_full(&self, incoming: u64) -> bool {
        let cost: u64 = self.owners.values().map(OwnerEntries::cost).sum();
        cost.saturating_add(self.settings.file_cost(incoming)) > self.settings.max_bytes
    }

    /// Returns the entry to evict for `incoming` bytes of an owner. First choice is one of its own if it
    /// exceeds its share, then one of the owner that exceeds its share most. After that it is the oldest on
    /// probation if probation exceeds its part, else the least recently used proven one.
    pub(super) fn choose_victim(
        &self,
        owner: Option<&Owner>,
        incoming: u64,
    ) -> Option<(Owned<DebugId>, EvictionReason)> {
        let incoming = self.settings.file_cost(incoming);
        let per_cent = u64::from(self.settings.limits.probation_share);
        let probation = |owner: &Owner| self.share_for(owner) / 100 * per_cent;
        if let Some(owner) = owner
            && let Some(own) = self.owners.get(owner)
            && own.cost().saturating_add(incoming) > self.share_for(owner)
            && let Some(id) = own.first_to_go(probation(owner), incoming)
        {
            return Some((owner.own(id), EvictionReason::OverShare));
        }
        let over = self
            .owners
            .iter()
            .map(|(owner, own)| (own.cost().saturating_sub(self.share_for(owner)), owner, own));
        // Ties go to the smaller name, so that the choice is deterministic.
        let most =
            over.filter(|(over, ..)| *over > 0).max_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.cmp(a.1)));
        if let Some((_, owner, own)) = most
            && let Some(id) = own.first_to_go(probation(owner), 0)
        {
            return Some((owner.own(id), EvictionReason::OverShare));
        }
        let oldest = |order: fn(&OwnerEntries) -> &UseOrder| {
            let all = self.owners.iter().filter_map(|(owner, own)| Some((order(own).oldest()?, owner)));
            all.min_by_key(|((used, _), _)| *used).map(|((_, id), owner)| owner.own(id))
        };
        let once = || oldest(|own| &own.probation).map(|id| (id, EvictionReason::Probation));
        let again = || oldest(|own| &own.proven).map(|id| (id, EvictionReason::LeastUsed));
        let on_probation: u64 = self.owners.values().map(|own| own.probation.cost).sum();
        if on_probation.saturating_add(incoming)
            > self.settings.bytes_for_percent(self.settings.limits.probation_share)
        {
            once().or_else(again)
        } else {
            again().or_else(once)
        }
    }

    /// Returns the bytes that an owner keeps when others need capacity.
    fn share_for(&self, owner: &Owner) -> u64 {
        let limits = &self.settings.limits;
        self.settings.bytes_for_percent(if *owner == Owner::System {
            limits.system_share
        } else {
            limits.tenant_share
        })
    }

    /// Adds the counts of the entries to the other statistics.
    pub(super) fn add_entry_counts(&self, others: CacheStats) -> CacheStats {
        let of = |order: fn(&OwnerEntries) -> &UseOrder| {
            self.owners.values().map(|own| order(own).by_use.len() as u64).sum()
        };
        CacheStats {
            bytes: self.bytes,
            probation: of(|own| &own.probation),
            proven: of(|own| &own.proven),
            mapped: self.mapped.len() as u64,
            ..others
        }
    }
}

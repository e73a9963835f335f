//! State of the cache, behind one lock: entries, missing symbols and running downloads.

use super::deleted::DeletedSymbols;
use super::disk::OnDisk;
use super::eviction::{CacheEntry, Entries, EvictionReason};
use super::missing::{Missing, Negative};
use super::{Answer, CacheSettings, CacheStats};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch;
use unslide_model::{DebugId, Owned, Owner, TenantId};
use unslide_symbolicate::ImageSymbols;
use unslide_symbolicate::symcache::SymCache;

struct Flight {
    landed: watch::Sender<Option<Answer>>,
    /// The newest generation named by an event since the current request began; `u64::MAX` after a gap.
    newest: Option<u64>,
}

pub(super) struct CacheState {
    entries: Entries,
    missing: Missing,
    deleted: DeletedSymbols,
    flights: HashMap<Owned<DebugId>, Flight>,
    /// Number of times that events may have been missed.
    gaps: u64,
    stats: CacheStats,
}

/// A file that has to be mapped, or compared with object storage, before use.
pub(super) struct Unready {
    pub(super) file: OnDisk,
    pub(super) mapped: Option<Arc<SymCache>>,
    pub(super) checked: bool,
    gaps: u64,
}

impl CacheState {
    pub(super) fn new(settings: &CacheSettings) -> CacheState {
        CacheState {
            entries: Entries::new(settings.clone()),
            missing: Missing::new(settings.limits.missing),
            deleted: DeletedSymbols::new(settings.limits.missing),
            flights: HashMap::new(),
            gaps: 0,
            stats: CacheStats::default(),
        }
    }

    pub(super) fn find_known(
        &mut self,
        id: &Owned<DebugId>,
        at_least: Option<u64>,
        now: i64,
    ) -> Option<ImageSymbols> {
        if let Some(entry) = self.entries.get(id) {
            let new_enough = at_least.is_none_or(|wanted| entry.file.generation >= wanted);
            let mapped = entry.mapped.clone().filter(|_| entry.checked && new_enough)?;
            let symbols = entry.file.to_image_symbols(mapped);
            self.entries.record_use(id);
            self.stats.hits += 1;
            return Some(symbols);
        }
        // A caller that knows of symbols does not accept "none" as an answer.
        let answer = self.missing.get(id, now).filter(|_| at_least.is_none())?;
        self.stats.hits += 1;
        Some(answer)
    }

    pub(super) fn join_flight(&mut self, id: &Owned<DebugId>) -> (watch::Receiver<Option<Answer>>, bool) {
        if let Some(flight) = self.flights.get(id) {
            return (flight.landed.subscribe(), false);
        }
        let (landed, receiver) = watch::channel(None);
        self.flights.insert(id.clone(), Flight { landed, newest: None });
        (receiver, true)
    }

    /// Starts a request. Events from now on may invalidate its answer.
    pub(super) fn begin_request(&mut self, id: &Owned<DebugId>) {
        self.stats.fetches += 1;
        if let Some(flight) = self.flights.get_mut(id) {
            flight.newest = None;
        }
    }

    /// True if an event since the request began may have made an answer of this generation outdated. The
    /// generation is `None` for "there is none".
    fn is_overtaken(&self, id: &Owned<DebugId>, generation: Option<u64>) -> bool {
        let newest = self.flights.get(id).and_then(|flight| flight.newest);
        newest.is_some_and(|newest| generation.is_none_or(|generation| generation < newest))
    }

    /// Keeps the result of a request, unless an event has overtaken it. Returns whether it was kept, and the
    /// entries with files to remove.
    pub(super) fn insert_fetched(
        &mut self,
        id: Owned<DebugId>,
        entry: CacheEntry,
    ) -> (bool, Vec<CacheEntry>) {
        if self.is_overtaken(&id, Some(entry.file.generation)) {
            return (false, vec![entry]);
        }
        let mut gone: Vec<CacheEntry> = self.remove_replaced(&id, &entry).into_iter().collect();
        gone.extend(self.make_room(Some(&id.owner), entry.file.size));
        self.insert(id, entry);
        (true, gone)
    }

    /// Removes the entry of an id. Returns it unless its file is the new one's.
    fn remove_replaced(&mut self, id: &Owned<DebugId>, entry: &CacheEntry) -> Option<CacheEntry> {
        let replaced = self.entries.remove(id);
        replaced.filter(|replaced| replaced.file.path != entry.file.path)
    }

    fn insert(&mut self, id: Owned<DebugId>, entry: CacheEntry) {
        self.missing.remove(&id);
        self.entries.insert(id, entry);
        self.stats.unmapped += self.entries.unmap_excess();
    }

    /// Adds a file of the last run. Returns the entry that it replaces.
    pub(super) fn insert_found(&mut self, id: Owned<DebugId>, file: OnDisk) -> Option<CacheEntry> {
        let entry = CacheEntry::on_disk(file);
        let replaced = self.remove_replaced(&id, &entry);
        self.insert(id, entry);
        replaced
    }

    /// Ends a flight and sends the answer to all waiting callers.
    pub(super) fn finish_flight(&mut self, id: &Owned<DebugId>, answer: Answer) {
        self.stats.failures += u64::from(answer.is_err());
        if let Some(flight) = self.flights.remove(id) {
            flight.landed.send_replace(Some(answer));
        }
    }

    /// Removes an entry with a corrupt file.
    pub(super) fn remove_corrupt(&mut self, id: &Owned<DebugId>) -> Option<CacheEntry> {
        self.stats.corrupt += 1;
        self.entries.remove(id)
    }

    /// Returns an entry that needs preparation before use.
    pub(super) fn find_unready(&self, id: &Owned<DebugId>) -> Option<Unready> {
        let entry = self.entries.get(id)?;
        Some(Unready {
            file: entry.file.clone(),
            mapped: entry.mapped.clone(),
            checked: entry.checked,
            gaps: self.gaps,
        })
    }

    /// Records that an entry was mapped, verified and compared. Returns false if the entry was replaced, or if
    /// events may have been missed since.
    pub(super) fn record_verified(
        &mut self,
        id: &Owned<DebugId>,
        unready: &Unready,
        mapped: Arc<SymCache>,
    ) -> bool {
        let same = self.entries.get(id).is_some_and(|entry| entry.file.path == unready.file.path);
        if !same || self.gaps != unready.gaps {
            return false;
        }
        self.entries.record_mapped(id, mapped);
        self.stats.unmapped += self.entries.unmap_excess();
        true
    }

    /// Remembers that there are no symbols, unless an event arrived during the request. Returns whether it did.
    pub(super) fn remember_missing(&mut self, id: &Owned<DebugId>, negative: Negative) -> bool {
        if self.is_overtaken(id, None) {
            return false;
        }
        self.stats.missing_dropped += self.missing.insert(id, negative);
        true
    }

    /// Handles an event: removes an older entry and returns it.
    pub(super) fn forget_outdated(&mut self, id: &Owned<DebugId>, generation: u64) -> Option<CacheEntry> {
        self.missing.remove(id);
        self.deleted.record_published(id, generation);
        if let Some(flight) = self.flights.get_mut(id) {
            flight.newest = flight.newest.max(Some(generation));
        }
        let older = self.entries.get(id).is_some_and(|entry| entry.file.generation < generation);
        if older { self.entries.remove(id) } else { None }
    }

    /// Handles a deletion: removes an entry of this or an older generation and returns it. Remembers "missing"
    /// unless a newer entry exists.
    pub(super) fn delete_symbols(
        &mut self,
        id: &Owned<DebugId>,
        generation: u64,
        missing: Negative,
    ) -> Option<CacheEntry> {
        let outdated = self.forget_outdated(id, generation.saturating_add(1));
        self.deleted.insert(id, generation);
        if self.entries.get(id).is_none() {
            self.stats.missing_dropped += self.missing.insert(id, missing);
        }
        outdated
    }

    /// True if symbols of this generation were deleted, even if object storage still has them.
    pub(super) fn is_deleted(&self, id: &Owned<DebugId>, generation: u64) -> bool {
        self.deleted.is_deleted(id, generation)
    }

    pub(super) fn record_gap(&mut self) {
        self.gaps += 1;
        self.missing.clear();
        self.deleted.clear();
        for flight in self.flights.values_mut() {
            flight.newest = Some(u64::MAX);
        }
        self.entries.uncheck_all();
    }

    pub(super) fn remove_tenant(&mut self, tenant: &TenantId) -> Vec<CacheEntry> {
        let owner = Owner::from(tenant);
        self.missing.remove_owner(&owner);
        self.deleted.remove_owner(&owner);
        for (_, flight) in self.flights.iter_mut().filter(|(id, _)| id.owner == owner) {
            flight.newest = Some(u64::MAX);
        }
        let ids: Vec<_> = self.entries.ids().filter(|id| id.owner == owner).cloned().collect();
        ids.iter().filter_map(|id| self.entries.remove(id)).collect()
    }

    /// Removes entries until `incoming` bytes of an owner fit. Returns them.
    pub(super) fn make_room(&mut self, owner: Option<&Owner>, incoming: u64) -> Vec<CacheEntry> {
        let mut gone = Vec::new();
        while self.entries.is_full(incoming)
            && let Some((id, reason)) = self.entries.choose_victim(owner, incoming)
        {
            match reason {
                EvictionReason::OverShare => self.stats.evictions.over_share += 1,
                EvictionReason::Probation => self.stats.evictions.probation += 1,
                EvictionReason::LeastUsed => self.stats.evictions.least_used += 1,
            }
            gone.extend(self.entries.remove(&id));
        }
        gone
    }

    /// Removes entries until the bytes that did not fit on the disk are free, even if the settings allow more.
    /// Returns them.
    pub(super) fn make_way(&mut self, owner: &Owner, bytes: u64) -> Vec<CacheEntry> {
        self.stats.disk_full += 1;
        let mut gone = Vec::new();
        let mut freed = 0;
        while freed < bytes
            && let Some((id, _)) = self.entries.choose_victim(Some(owner), bytes)
            && let Some(entry) = self.entries.remove(&id)
        {
            freed += entry.file.size;
            self.stats.evictions.disk_full += 1;
            gone.push(entry);
        }
        gone
    }

    pub(super) fn stats(&self) -> CacheStats {
        self.entries.add_entry_counts(CacheStats { missing: self.missing.len() as u64, ..self.stats })
    }
}

//! What the cache knows, behind one lock: entries, what is missing, and downloads under way.

use super::disk::OnDisk;
use super::missing::{Missing, Negative};
use super::segments::{Entries, Entry, Owner, Reason};
use super::{Answer, CacheSettings, CacheStats, Cached, Slot, Symcache};
use std::collections::HashMap;
use tokio::sync::watch;
use unslide_model::TenantId;

struct Flight {
    landed: watch::Sender<Option<Answer>>,
    /// The newest generation that an event named since the current request began; the largest
    /// number after a gap.
    newest: Option<u64>,
}

#[derive(Default)]
pub(super) struct State {
    entries: Entries,
    missing: Missing,
    flights: HashMap<Slot, Flight>,
    /// How often events may have been missed.
    gaps: u64,
    stats: CacheStats,
}

/// A file that has to be mapped, or compared with object storage, before it is used.
pub(super) struct Unready {
    pub(super) file: OnDisk,
    pub(super) mapped: Option<Symcache>,
    pub(super) checked: bool,
    gaps: u64,
}

impl State {
    pub(super) fn known(
        &mut self,
        settings: &CacheSettings,
        slot: &Slot,
        at_least: Option<u64>,
        now: i64,
    ) -> Option<Cached> {
        if let Some(entry) = self.entries.get(slot) {
            let new_enough = at_least.is_none_or(|wanted| entry.file.generation >= wanted);
            let mapped = entry.mapped.clone().filter(|_| entry.checked && new_enough)?;
            self.entries.used(slot, settings);
            self.stats.hits += 1;
            return Some(Cached::Found(mapped));
        }
        // Who knows that there is one does not take "none" for an answer.
        let answer = self.missing.get(slot, now).filter(|_| at_least.is_none())?;
        self.stats.hits += 1;
        Some(answer)
    }

    pub(super) fn join(&mut self, slot: &Slot) -> (watch::Receiver<Option<Answer>>, bool) {
        if let Some(flight) = self.flights.get(slot) {
            return (flight.landed.subscribe(), false);
        }
        let (landed, receiver) = watch::channel(None);
        self.flights.insert(slot.clone(), Flight { landed, newest: None });
        (receiver, true)
    }

    /// A request begins: from here on events count against its answer.
    pub(super) fn begin_request(&mut self, slot: &Slot) {
        self.stats.fetches += 1;
        if let Some(flight) = self.flights.get_mut(slot) {
            flight.newest = None;
        }
    }

    /// True where an event since the request began says that an answer of this generation (none
    /// for "there is none") may be outdated.
    fn overtaken(&self, slot: &Slot, generation: Option<u64>) -> bool {
        let newest = self.flights.get(slot).and_then(|flight| flight.newest);
        newest.is_some_and(|newest| generation.is_none_or(|generation| generation < newest))
    }

    /// Keeps what a request found, unless an event has overtaken it. Says whether it was kept, and
    /// gives the entries whose files have to be removed.
    pub(super) fn insert_fetched(
        &mut self,
        settings: &CacheSettings,
        slot: Slot,
        entry: Entry,
    ) -> (bool, Vec<Entry>) {
        if self.overtaken(&slot, Some(entry.file.generation)) {
            return (false, vec![entry]);
        }
        let mut gone: Vec<Entry> = self.replace(settings, &slot, &entry).into_iter().collect();
        gone.extend(self.make_room(settings, Some(&slot.tenant), entry.file.size));
        self.insert(settings, slot, entry);
        (true, gone)
    }

    /// Takes out the entry of a slot; it is returned unless its file is the new one's.
    fn replace(&mut self, settings: &CacheSettings, slot: &Slot, entry: &Entry) -> Option<Entry> {
        let replaced = self.entries.remove(slot, settings);
        replaced.filter(|replaced| replaced.file.path != entry.file.path)
    }

    fn insert(&mut self, settings: &CacheSettings, slot: Slot, entry: Entry) {
        self.missing.remove(&slot);
        self.entries.insert(slot, settings, entry);
        self.stats.unmapped += self.entries.unmap(settings.limits.mapped);
    }

    /// Adds a file of the last run; the one that it replaces is returned.
    pub(super) fn insert_found(
        &mut self,
        settings: &CacheSettings,
        slot: Slot,
        file: OnDisk,
    ) -> Option<Entry> {
        let entry = Entry::on_disk(file);
        let replaced = self.replace(settings, &slot, &entry);
        self.insert(settings, slot, entry);
        replaced
    }

    /// Ends a flight: everyone who waits gets the answer.
    pub(super) fn land(&mut self, slot: &Slot, answer: Answer) {
        self.stats.failures += u64::from(answer.is_err());
        if let Some(flight) = self.flights.remove(slot) {
            flight.landed.send_replace(Some(answer));
        }
    }

    /// Removes an entry whose file was not what its name says.
    pub(super) fn remove_corrupt(&mut self, settings: &CacheSettings, slot: &Slot) -> Option<Entry> {
        self.stats.corrupt += 1;
        self.entries.remove(slot, settings)
    }

    /// An entry that cannot be used as it is.
    pub(super) fn unready(&self, slot: &Slot) -> Option<Unready> {
        let entry = self.entries.get(slot)?;
        Some(Unready {
            file: entry.file.clone(),
            mapped: entry.mapped.clone(),
            checked: entry.checked,
            gaps: self.gaps,
        })
    }

    /// An entry was mapped, verified and compared. False where it is another by now, or where events
    /// may have been missed in between.
    pub(super) fn verified(
        &mut self,
        settings: &CacheSettings,
        slot: &Slot,
        unready: &Unready,
        mapped: Symcache,
    ) -> bool {
        let same = self.entries.get(slot).is_some_and(|entry| entry.file.path == unready.file.path);
        if !same || self.gaps != unready.gaps {
            return false;
        }
        self.entries.map(slot, settings, mapped);
        self.stats.unmapped += self.entries.unmap(settings.limits.mapped);
        true
    }

    /// Remembers that there is none, unless an event came while it was asked for; says which.
    pub(super) fn remember(&mut self, settings: &CacheSettings, slot: &Slot, negative: Negative) -> bool {
        if self.overtaken(slot, None) {
            return false;
        }
        self.stats.missing_dropped += self.missing.insert(slot.clone(), negative, settings.limits.missing);
        true
    }

    /// An event: an older entry goes, and is returned.
    pub(super) fn forget(&mut self, settings: &CacheSettings, slot: &Slot, generation: u64) -> Option<Entry> {
        self.missing.remove(slot);
        if let Some(flight) = self.flights.get_mut(slot) {
            flight.newest = flight.newest.max(Some(generation));
        }
        let older = self.entries.get(slot).is_some_and(|entry| entry.file.generation < generation);
        if older { self.entries.remove(slot, settings) } else { None }
    }

    pub(super) fn gap(&mut self) {
        self.gaps += 1;
        self.missing.clear();
        for flight in self.flights.values_mut() {
            flight.newest = Some(u64::MAX);
        }
        self.entries.uncheck_all();
    }

    pub(super) fn remove_tenant(&mut self, settings: &CacheSettings, tenant: &TenantId) -> Vec<Entry> {
        let owner = Some(tenant.clone());
        self.missing.remove_owner(&owner);
        for (_, flight) in self.flights.iter_mut().filter(|(slot, _)| slot.tenant == owner) {
            flight.newest = Some(u64::MAX);
        }
        let slots: Vec<_> = self.entries.slots().filter(|slot| slot.tenant == owner).cloned().collect();
        slots.iter().filter_map(|slot| self.entries.remove(slot, settings)).collect()
    }

    /// Takes out what has to go before so many bytes of an owner fit.
    pub(super) fn make_room(
        &mut self,
        settings: &CacheSettings,
        owner: Option<&Owner>,
        incoming: u64,
    ) -> Vec<Entry> {
        let mut gone = Vec::new();
        while self.entries.is_full(settings, incoming)
            && let Some((slot, reason)) = self.entries.victim(settings, owner, incoming)
        {
            match reason {
                Reason::OverShare => self.stats.evictions.over_share += 1,
                Reason::Probation => self.stats.evictions.probation += 1,
                Reason::LeastUsed => self.stats.evictions.least_used += 1,
            }
            gone.extend(self.entries.remove(&slot, settings));
        }
        gone
    }

    /// Takes out as many bytes as did not fit on the disk, whatever the settings allow.
    pub(super) fn make_way(&mut self, settings: &CacheSettings, owner: &Owner, bytes: u64) -> Vec<Entry> {
        self.stats.disk_full += 1;
        let mut gone = Vec::new();
        let mut freed = 0;
        while freed < bytes
            && let Some((slot, _)) = self.entries.victim(settings, Some(owner), bytes)
            && let Some(entry) = self.entries.remove(&slot, settings)
        {
            freed += entry.file.size;
            self.stats.evictions.disk_full += 1;
            gone.push(entry);
        }
        gone
    }

    pub(super) fn stats(&self) -> CacheStats {
        let held = self.entries.held();
        CacheStats {
            probation: held.probation,
            proven: held.proven,
            mapped: held.mapped,
            bytes: held.bytes,
            missing: self.missing.len() as u64,
            ..self.stats
        }
    }
}

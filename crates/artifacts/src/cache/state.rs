//! What the cache knows, behind one lock: entries, what is missing, and downloads under way.

use super::disk::OnDisk;
use super::{Answer, CacheSettings, CacheStats, Cached, Slot, Symcache};
use std::collections::HashMap;
use tokio::sync::watch;
use unslide_model::TenantId;

/// Entries at most: each may hold a memory map, of which a process has some 65,000.
const MOST_ENTRIES: usize = 20_000;

/// Remembered "there is none" at most; then they are dropped and asked for again.
const MOST_MISSING: usize = 200_000;

/// A symcache on disk.
pub(super) struct Entry {
    pub(super) file: OnDisk,
    /// Mapped and verified; before that the file is only a name from the last run.
    pub(super) mapped: Option<Symcache>,
    /// Whether an event could have been missed since it was fetched or checked.
    checked: bool,
    used: u64,
    /// Used more than once.
    proven: bool,
}

impl Entry {
    pub(super) fn on_disk(file: OnDisk) -> Entry {
        Entry { file, mapped: None, checked: true, used: 0, proven: false }
    }

    pub(super) fn fetched(file: OnDisk, mapped: Symcache) -> Entry {
        Entry { mapped: Some(mapped), ..Entry::on_disk(file) }
    }
}

/// A remembered answer that is not a symcache.
pub(super) struct Negative {
    pub(super) answer: Cached,
    /// Microseconds since the Unix epoch.
    pub(super) until: i64,
}

struct Flight {
    landed: watch::Sender<Option<Answer>>,
    /// The newest generation that an event named since the current request began; the largest
    /// number after a gap.
    newest: Option<u64>,
}

#[derive(Default)]
pub(super) struct State {
    entries: HashMap<Slot, Entry>,
    missing: HashMap<Slot, Negative>,
    flights: HashMap<Slot, Flight>,
    bytes: u64,
    probation_bytes: u64,
    tenant_bytes: HashMap<Option<TenantId>, u64>,
    ticks: u64,
    stats: CacheStats,
}

impl State {
    pub(super) fn known(&mut self, slot: &Slot, at_least: Option<u64>, now: i64) -> Option<Cached> {
        if let Some(entry) = self.entries.get_mut(slot) {
            let new_enough = at_least.is_none_or(|wanted| entry.file.generation >= wanted);
            let mapped = entry.mapped.clone().filter(|_| entry.checked && new_enough)?;
            self.ticks += 1;
            entry.used = self.ticks;
            if !entry.proven {
                entry.proven = true;
                self.probation_bytes -= entry.file.size;
            }
            self.stats.hits += 1;
            return Some(Cached::Found(mapped));
        }
        let negative = self.missing.get(slot)?;
        if negative.until <= now {
            self.missing.remove(slot);
            return None;
        }
        // Who knows that there is one does not take "none" for an answer.
        if at_least.is_some() {
            return None;
        }
        let answer = negative.answer.clone();
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
    /// gives the entry that has to be removed: the one that was replaced, or the new one.
    pub(super) fn insert_fetched(&mut self, slot: Slot, entry: Entry) -> (bool, Option<Entry>) {
        if self.overtaken(&slot, Some(entry.file.generation)) {
            return (false, Some(entry));
        }
        (true, self.insert(slot, entry))
    }

    /// Ends a flight: everyone who waits gets the answer.
    pub(super) fn land(&mut self, slot: &Slot, answer: Answer) {
        self.stats.failures += u64::from(answer.is_err());
        if let Some(flight) = self.flights.remove(slot) {
            flight.landed.send_replace(Some(answer));
        }
    }

    /// Adds an entry; the one that it replaces is returned, unless it is the same file.
    pub(super) fn insert(&mut self, slot: Slot, mut entry: Entry) -> Option<Entry> {
        self.missing.remove(&slot);
        let replaced = self.remove(&slot);
        self.ticks += 1;
        entry.used = self.ticks;
        self.bytes += entry.file.size;
        if !entry.proven {
            self.probation_bytes += entry.file.size;
        }
        *self.tenant_bytes.entry(slot.tenant.clone()).or_default() += entry.file.size;
        let path = entry.file.path.clone();
        self.entries.insert(slot, entry);
        replaced.filter(|replaced| replaced.file.path != path)
    }

    pub(super) fn remove(&mut self, slot: &Slot) -> Option<Entry> {
        let entry = self.entries.remove(slot)?;
        let size = entry.file.size;
        self.bytes -= size;
        if !entry.proven {
            self.probation_bytes -= size;
        }
        if let Some(bytes) = self.tenant_bytes.get_mut(&slot.tenant) {
            *bytes -= size;
            if *bytes == 0 {
                self.tenant_bytes.remove(&slot.tenant);
            }
        }
        Some(entry)
    }

    /// Removes an entry whose file was not what its name says.
    pub(super) fn remove_corrupt(&mut self, slot: &Slot) -> Option<Entry> {
        self.stats.corrupt += 1;
        self.remove(slot)
    }

    /// The file to map, where an entry has not been mapped yet, and whether it has to be compared
    /// with object storage.
    pub(super) fn unmapped(&self, slot: &Slot) -> Option<(OnDisk, Option<Symcache>, bool)> {
        let entry = self.entries.get(slot)?;
        Some((entry.file.clone(), entry.mapped.clone(), entry.checked))
    }

    /// An entry was mapped, verified and compared.
    pub(super) fn verified(&mut self, slot: &Slot, file: &OnDisk, mapped: Symcache) {
        if let Some(entry) = self.entries.get_mut(slot).filter(|entry| entry.file.path == file.path) {
            entry.mapped = Some(mapped);
            entry.checked = true;
        }
    }

    /// Remembers that there is none, unless an event came while it was asked for; says which.
    pub(super) fn remember(&mut self, slot: &Slot, negative: Negative, now: i64) -> bool {
        if self.overtaken(slot, None) {
            return false;
        }
        if self.missing.len() >= MOST_MISSING {
            self.missing.retain(|_, negative| negative.until > now);
        }
        if self.missing.len() >= MOST_MISSING {
            self.missing.clear();
        }
        self.missing.insert(slot.clone(), negative);
        true
    }

    /// An event: an older entry goes, and is returned.
    pub(super) fn forget(&mut self, slot: &Slot, generation: u64) -> Option<Entry> {
        self.missing.remove(slot);
        if let Some(flight) = self.flights.get_mut(slot) {
            flight.newest = flight.newest.max(Some(generation));
        }
        let older = self.entries.get(slot).is_some_and(|entry| entry.file.generation < generation);
        if older { self.remove(slot) } else { None }
    }

    pub(super) fn gap(&mut self) {
        self.missing.clear();
        for flight in self.flights.values_mut() {
            flight.newest = Some(u64::MAX);
        }
        for entry in self.entries.values_mut() {
            entry.checked = false;
        }
    }

    pub(super) fn remove_tenant(&mut self, tenant: &TenantId) -> Vec<Entry> {
        let of_tenant = |slot: &&Slot| slot.tenant.as_ref() == Some(tenant);
        self.missing.retain(|slot, _| !of_tenant(&slot));
        let slots: Vec<_> = self.entries.keys().filter(of_tenant).cloned().collect();
        slots.iter().filter_map(|slot| self.remove(slot)).collect()
    }

    /// Takes out what has to go before `incoming` bytes more fit.
    pub(super) fn evict(&mut self, settings: &CacheSettings, incoming: u64) -> Vec<Entry> {
        let share = |per_cent: u8| settings.max_bytes / 100 * u64::from(per_cent);
        let (tenant_share, probation_share) = (share(settings.tenant_share), share(settings.probation_share));
        let mut victims = Vec::new();
        let full = |state: &State| {
            state.bytes.saturating_add(incoming) > settings.max_bytes || state.entries.len() >= MOST_ENTRIES
        };
        while full(self) {
            let probation_full = self.probation_bytes > probation_share;
            let turn = |(slot, entry): &(&Slot, &Entry)| {
                let bytes = self.tenant_bytes.get(&slot.tenant).copied().unwrap_or_default();
                let class = match (bytes > tenant_share, entry.proven) {
                    (true, false) => 0,
                    (true, true) => 1,
                    (false, false) if probation_full => 2,
                    (false, true) => 3,
                    (false, false) => 4,
                };
                (class, entry.used)
            };
            let Some(slot) = self.entries.iter().min_by_key(turn).map(|(slot, _)| slot.clone()) else {
                break;
            };
            victims.extend(self.remove(&slot));
            self.stats.evictions += 1;
        }
        victims
    }

    pub(super) fn stats(&self) -> CacheStats {
        CacheStats {
            entries: self.entries.len() as u64,
            bytes: self.bytes,
            missing: self.missing.len() as u64,
            ..self.stats
        }
    }
}

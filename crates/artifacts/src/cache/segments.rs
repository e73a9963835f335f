//! Which symcaches stay. Each owner's lie in two segments, in the order of their last use: on
//! probation what was used once, proven what was used again. Only who uses symcaches again and again
//! takes room from others, and only as far as its share.

use super::disk::OnDisk;
use super::{CacheSettings, Slot, Symcache};
use std::collections::{BTreeMap, HashMap};
use unslide_model::{DebugId, TenantId};

/// Whose symcaches; none stands for the system.
pub(super) type Owner = Option<TenantId>;

/// A symcache on disk.
pub(super) struct Entry {
    pub(super) file: OnDisk,
    /// Mapped and verified; else it has to be before it is used.
    pub(super) mapped: Option<Symcache>,
    /// Whether no event could have been missed since it was fetched or compared.
    pub(super) checked: bool,
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

/// Why a symcache had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Its owner had more than its share.
    OverShare,
    /// It was used once, and so many others were too.
    Probation,
    /// Of all that were used again it was used longest ago.
    LeastUsed,
}

/// The uses of one kind, by when.
#[derive(Default)]
struct Segment {
    by_use: BTreeMap<u64, DebugId>,
    cost: u64,
}

impl Segment {
    fn oldest(&self) -> Option<(u64, DebugId)> {
        self.by_use.first_key_value().map(|(used, id)| (*used, *id))
    }
}

#[derive(Default)]
struct Segments {
    probation: Segment,
    proven: Segment,
}

impl Segments {
    fn cost(&self) -> u64 {
        self.probation.cost + self.proven.cost
    }

    fn of(&mut self, proven: bool) -> &mut Segment {
        if proven { &mut self.proven } else { &mut self.probation }
    }

    /// What this owner has to give first, where probation may take so much.
    fn first_to_go(&self, probation: u64, incoming: u64) -> Option<DebugId> {
        let (once, again) = (self.probation.oldest(), self.proven.oldest());
        let crowded = self.probation.cost.saturating_add(incoming) > probation;
        let first = if crowded { once.or(again) } else { again.or(once) };
        first.map(|(_, id)| id)
    }
}

#[derive(Default)]
pub(super) struct Entries {
    all: HashMap<Slot, Entry>,
    owners: HashMap<Owner, Segments>,
    mapped: BTreeMap<u64, Slot>,
    ticks: u64,
    bytes: u64,
    cost: u64,
    probation_cost: u64,
}

/// Figures of the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) bytes: u64,
    pub(super) probation: u64,
    pub(super) proven: u64,
    pub(super) mapped: u64,
}

impl Entries {
    pub(super) fn get(&self, slot: &Slot) -> Option<&Entry> {
        self.all.get(slot)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.all.keys()
    }

    pub(super) fn uncheck_all(&mut self) {
        self.all.values_mut().for_each(|entry| entry.checked = false);
    }

    /// Notes a use: the entry is proven from here on.
    pub(super) fn used(&mut self, slot: &Slot, settings: &CacheSettings) {
        self.touch(slot, settings, true);
    }

    /// Notes that an entry was mapped, verified and compared.
    pub(super) fn map(&mut self, slot: &Slot, settings: &CacheSettings, symcache: Symcache) {
        self.touch(slot, settings, false);
        if let Some(entry) = self.all.get_mut(slot) {
            entry.mapped = Some(symcache);
            entry.checked = true;
            self.mapped.insert(entry.used, slot.clone());
        }
    }

    fn touch(&mut self, slot: &Slot, settings: &CacheSettings, prove: bool) {
        let Some(entry) = self.all.get_mut(slot) else { return };
        let Some(segments) = self.owners.get_mut(&slot.tenant) else { return };
        self.ticks += 1;
        let cost = settings.cost(entry.file.size);
        let before = segments.of(entry.proven);
        before.by_use.remove(&entry.used);
        before.cost -= cost;
        if prove && !entry.proven {
            entry.proven = true;
            self.probation_cost -= cost;
        }
        let after = segments.of(entry.proven);
        after.by_use.insert(self.ticks, slot.id);
        after.cost += cost;
        if let Some(slot) = self.mapped.remove(&entry.used) {
            self.mapped.insert(self.ticks, slot);
        }
        entry.used = self.ticks;
    }

    /// Adds an entry, and gives the one that it replaces.
    pub(super) fn insert(&mut self, slot: Slot, settings: &CacheSettings, mut entry: Entry) -> Option<Entry> {
        let replaced = self.remove(&slot, settings);
        self.ticks += 1;
        entry.used = self.ticks;
        let cost = settings.cost(entry.file.size);
        self.bytes += entry.file.size;
        self.cost += cost;
        let segment = self.owners.entry(slot.tenant.clone()).or_default().of(entry.proven);
        segment.by_use.insert(entry.used, slot.id);
        segment.cost += cost;
        if !entry.proven {
            self.probation_cost += cost;
        }
        if entry.mapped.is_some() {
            self.mapped.insert(entry.used, slot.clone());
        }
        self.all.insert(slot, entry);
        replaced
    }

    pub(super) fn remove(&mut self, slot: &Slot, settings: &CacheSettings) -> Option<Entry> {
        let entry = self.all.remove(slot)?;
        let cost = settings.cost(entry.file.size);
        self.bytes -= entry.file.size;
        self.cost -= cost;
        if !entry.proven {
            self.probation_cost -= cost;
        }
        if let Some(segments) = self.owners.get_mut(&slot.tenant) {
            let segment = segments.of(entry.proven);
            segment.by_use.remove(&entry.used);
            segment.cost -= cost;
            if segments.cost() == 0 {
                self.owners.remove(&slot.tenant);
            }
        }
        self.mapped.remove(&entry.used);
        Some(entry)
    }

    /// Gives maps back until at most so many are left; says how many it gave.
    pub(super) fn unmap(&mut self, most: usize) -> u64 {
        let mut given = 0;
        while self.mapped.len() > most
            && let Some((_, slot)) = self.mapped.pop_first()
        {
            if let Some(entry) = self.all.get_mut(&slot) {
                entry.mapped = None;
            }
            given += 1;
        }
        given
    }

    /// True where so many bytes of one more file do not fit.
    pub(super) fn is_full(&self, settings: &CacheSettings, incoming: u64) -> bool {
        self.cost.saturating_add(settings.cost(incoming)) > settings.max_bytes
    }

    /// Which entry makes room for so many bytes of an owner: one of its own where it is over its
    /// share, then one of whoever is most over its own, then the probation that is over its part, and
    /// only then what was used longest ago.
    pub(super) fn victim(
        &self,
        settings: &CacheSettings,
        owner: Option<&Owner>,
        incoming: u64,
    ) -> Option<(Slot, Reason)> {
        let incoming = settings.cost(incoming);
        let slot = |owner: &Owner, id: DebugId| Slot { tenant: owner.clone(), id };
        let probation =
            |owner: &Owner| share(settings, owner) / 100 * u64::from(settings.limits.probation_share);
        if let Some(owner) = owner
            && let Some(own) = self.owners.get(owner)
            && own.cost().saturating_add(incoming) > share(settings, owner)
            && let Some(id) = own.first_to_go(probation(owner), incoming)
        {
            return Some((slot(owner, id), Reason::OverShare));
        }
        let over = self
            .owners
            .iter()
            .map(|(owner, own)| (own.cost().saturating_sub(share(settings, owner)), owner, own));
        // Of two that are equally far over the one with the smaller name, so that it is always the same.
        let most =
            over.filter(|(over, ..)| *over > 0).max_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.cmp(a.1)));
        if let Some((_, owner, own)) = most
            && let Some(id) = own.first_to_go(probation(owner), 0)
        {
            return Some((slot(owner, id), Reason::OverShare));
        }
        let oldest = |segment: fn(&Segments) -> &Segment| {
            let all = self.owners.iter().filter_map(|(owner, own)| Some((segment(own).oldest()?, owner)));
            all.min_by_key(|((used, _), _)| *used).map(|((_, id), owner)| slot(owner, id))
        };
        let once = || oldest(|own| &own.probation).map(|slot| (slot, Reason::Probation));
        let again = || oldest(|own| &own.proven).map(|slot| (slot, Reason::LeastUsed));
        if self.probation_cost.saturating_add(incoming) > settings.part(settings.limits.probation_share) {
            once().or_else(again)
        } else {
            again().or_else(once)
        }
    }

    pub(super) fn held(&self) -> Held {
        let of = |segment: fn(&Segments) -> &Segment| {
            self.owners.values().map(|own| segment(own).by_use.len() as u64).sum()
        };
        Held {
            bytes: self.bytes,
            probation: of(|own| &own.probation),
            proven: of(|own| &own.proven),
            mapped: self.mapped.len() as u64,
        }
    }
}

fn share(settings: &CacheSettings, owner: &Owner) -> u64 {
    let limits = &settings.limits;
    settings.part(if owner.is_some() { limits.tenant_share } else { limits.system_share })
}

//! Derived objects of images: fetched once, mapped into memory, limited in bytes. They follow the events of their
//! debug id, as symcaches do.

use super::fetch::{download_object, given_up, run_blocking};
use super::{CacheError, Hint, Inner, SymcacheCache};
use crate::keys;
use crate::{AliasMeta, CacheSettings};
use bytes::Bytes;
use lru::LruCache;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use tokio::sync::Mutex;
use unslide_archive::map_file;
use unslide_model::{DebugId, Owned, Owner, Scoped};

/// Share of the cache's bytes that derived objects have beside the symcaches: 1 / 8.
const DERIVED_DIVISOR: u64 = 8;
/// Number of flights above which those that ended are forgotten.
const FLIGHTS_LIMIT: usize = 64;

/// The answer about a derived object.
#[derive(Clone, Debug)]
pub enum DerivedContents {
    /// Its bytes, mapped from a file.
    Found(Bytes),
    /// There is none.
    Missing,
}

/// The derived objects that are cached, and the remembered "there is none".
pub(super) struct DerivedObjects {
    entries: LruCache<Owned<DebugId>, Vec<DerivedEntry>>,
    flights: HashMap<(Owned<DebugId>, &'static str), Arc<Mutex<()>>>,
    bytes: u64,
    most_bytes: u64,
    /// Number of events so far: an answer that an event may have overtaken is not kept.
    events: u64,
}

struct DerivedEntry {
    name: &'static str,
    contents: DerivedContents,
    /// The generation of the symbols that it is known to be up to date with.
    generation: Option<u64>,
    /// Microseconds of the monotonic clock; `None` for contents that stay until an event.
    until: Option<i64>,
}

impl DerivedEntry {
    fn size(&self) -> u64 {
        match &self.contents {
            DerivedContents::Found(bytes) => bytes.len() as u64,
            DerivedContents::Missing => 0,
        }
    }
}

impl DerivedObjects {
    pub(super) fn new(settings: &CacheSettings) -> DerivedObjects {
        let mut entries = LruCache::unbounded();
        entries.resize(NonZeroUsize::new(settings.limits.missing).unwrap_or(NonZeroUsize::MIN));
        let most_bytes = settings.max_bytes / DERIVED_DIVISOR;
        DerivedObjects { entries, flights: HashMap::new(), bytes: 0, most_bytes, events: 0 }
    }

    fn find_known(
        &mut self,
        id: &Owned<DebugId>,
        name: &str,
        at_least: Option<u64>,
        now: i64,
    ) -> Option<DerivedContents> {
        let entry = self.entries.get(id)?.iter().find(|entry| entry.name == name)?;
        let is_fresh = entry.until.is_none_or(|until| until > now) && entry.generation >= at_least;
        is_fresh.then(|| entry.contents.clone())
    }

    fn insert(&mut self, id: &Owned<DebugId>, entry: DerivedEntry) {
        let size = entry.size();
        if size > self.most_bytes {
            return;
        }
        let mut all = self.remove(id);
        all.retain(|other| other.name != entry.name);
        all.push(entry);
        let added: u64 = all.iter().map(DerivedEntry::size).sum();
        while self.bytes + added > self.most_bytes
            && self.entries.pop_lru().map(|gone| self.release(&gone.1)).is_some()
        {}
        self.bytes += added;
        if let Some(gone) = self.entries.push(id.clone(), all) {
            self.release(&gone.1);
        }
    }

    fn release(&mut self, gone: &[DerivedEntry]) {
        self.bytes = self.bytes.saturating_sub(gone.iter().map(DerivedEntry::size).sum());
    }

    fn remove(&mut self, id: &Owned<DebugId>) -> Vec<DerivedEntry> {
        let gone = self.entries.pop(id).unwrap_or_default();
        self.release(&gone);
        gone
    }

    /// Handles an event of a debug id.
    pub(super) fn forget(&mut self, id: &Owned<DebugId>) {
        self.events += 1;
        self.remove(id);
    }

    pub(super) fn forget_owner(&mut self, owner: &Owner) {
        self.events += 1;
        let ids: Vec<_> =
            self.entries.iter().map(|(id, _)| id).filter(|id| id.owner == *owner).cloned().collect();
        ids.iter().for_each(|id| drop(self.remove(id)));
    }

    pub(super) fn forget_all(&mut self) {
        self.events += 1;
        self.entries.clear();
        self.bytes = 0;
    }

    /// Returns the lock of the flight for a derived object, so that concurrent callers share one request.
    fn join_flight(&mut self, id: &Owned<DebugId>, name: &'static str) -> Arc<Mutex<()>> {
        if self.flights.len() > FLIGHTS_LIMIT {
            self.flights.retain(|_, flight| Arc::strong_count(flight) > 1);
        }
        Arc::clone(self.flights.entry((id.clone(), name)).or_default())
    }
}

impl SymcacheCache {
    /// Returns a derived object of the tenant's symbols for a debug id. Downloads share the limits of the symcaches'
    /// downloads.
    ///
    /// # Errors
    /// Returns [`CacheError`] if it is unknown whether there is one.
    pub async fn get_derived(
        &self,
        id: &Scoped<DebugId>,
        name: &'static str,
        hint: Hint,
    ) -> Result<DerivedContents, CacheError> {
        let inner = &self.inner;
        let id = Owned::from(id);
        let flight = inner.derived.lock().join_flight(&id, name);
        let _flight = flight.lock().await;
        if let Some(known) = inner.find_known_derived(&id, name, hint.tenant) {
            return Ok(known);
        }
        let Ok(_permit) = inner.downloads.acquire().await else { return Err(given_up()) };
        let events = inner.derived.lock().events;
        // The future is large, and requests would carry it.
        let (contents, generation) = Box::pin(fetch_derived(inner, &id, name)).await?;
        let until = match contents {
            DerivedContents::Found(_) => None,
            DerivedContents::Missing => Some(inner.remember_missing_until()),
        };
        let generation = generation.max(hint.tenant);
        let entry = DerivedEntry { name, contents: contents.clone(), generation, until };
        let mut derived = inner.derived.lock();
        if derived.events == events {
            derived.insert(&id, entry);
        }
        Ok(contents)
    }

    /// Returns the answer of [`SymcacheCache::get_derived`] if it is known without waiting.
    #[must_use]
    pub fn peek_derived(
        &self,
        id: &Scoped<DebugId>,
        name: &'static str,
        hint: Hint,
    ) -> Option<DerivedContents> {
        self.inner.find_known_derived(&id.into(), name, hint.tenant)
    }
}

impl Inner {
    fn find_known_derived(
        &self,
        id: &Owned<DebugId>,
        name: &str,
        at_least: Option<u64>,
    ) -> Option<DerivedContents> {
        self.derived.lock().find_known(id, name, at_least, self.clock.monotonic_micros())
    }
}

/// Fetches a derived object, with the generation that it was published with.
async fn fetch_derived(
    inner: &Arc<Inner>,
    id: &Owned<DebugId>,
    name: &str,
) -> Result<(DerivedContents, Option<u64>), CacheError> {
    let key = keys::for_symbols(id).derived(name);
    let Some((temporary, fetched)) = download_object(inner, id, &key).await? else {
        return Ok((DerivedContents::Missing, None));
    };
    let Some(meta) = AliasMeta::from_metadata(&fetched.head.metadata) else {
        return Ok((DerivedContents::Missing, None));
    };
    if inner.state.lock().is_deleted(id, meta.generation) {
        return Ok((DerivedContents::Missing, Some(meta.generation)));
    }
    if fetched.sha256 != meta.sha256 {
        let text = "a derived object's bytes are not those that its metadata names";
        return Err(CacheError::Transient(text.into()));
    }
    // The file is unlinked when the download ends; the map keeps its bytes.
    let bytes = run_blocking(move || map_file(&temporary.path)).await?;
    Ok((DerivedContents::Found(bytes), Some(meta.generation)))
}

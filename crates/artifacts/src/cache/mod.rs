//! Symcaches on this machine's disk: fetched once, mapped into memory, limited in bytes.

mod deleted;
mod derived;
mod disk;
mod download_space;
mod events;
mod eviction;
mod fetch;
mod limits;
mod missing;
mod state;
mod stats;
#[cfg(test)]
mod tests;

use crate::ObjectStore;
pub use derived::DerivedContents;
use derived::DerivedObjects;
use disk::Disk;
use download_space::DownloadSpace;
use limits::REMEMBER_MISSING_MICROS;
pub use limits::{CacheLimits, CacheSettings};
use missing::Negative;
use parking_lot::Mutex;
use state::CacheState;
pub use stats::{CacheStats, Evictions};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use unslide_model::{Clock, DebugId, Owned, Owner, Scoped, TenantId};
use unslide_symbolicate::ImageSymbols;

/// Reason why the cache has no answer. Errors are not cached.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CacheError {
    /// A temporary failure; another try may succeed.
    #[error("{0}")]
    Transient(String),
    /// This machine has no capacity for the symcache now: it is too large, or other downloads use the capacity.
    /// Object storage is not at fault.
    #[error("{0}")]
    NoRoom(String),
    /// An operator has to act: access to the bucket, or the disk.
    #[error("{0}")]
    Operator(String),
    /// The folder cannot be used.
    #[error("the cache folder {folder} cannot be used")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        #[source]
        source: Arc<std::io::Error>,
    },
}

impl CacheError {
    /// True if another try may succeed without an operator.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, CacheError::Transient(_) | CacheError::NoRoom(_))
    }
}

/// Newest generations that the caller knows of. Older answers and remembered "none" answers are not accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// At least this generation of the tenant's own symbols exists.
    pub tenant: Option<u64>,
    /// At least this generation of the system's symbols exists.
    pub system: Option<u64>,
}

type Answer = Result<ImageSymbols, CacheError>;

struct Inner {
    settings: CacheSettings,
    store: ObjectStore,
    clock: Arc<dyn Clock>,
    disk: Disk,
    /// Permits for new downloads.
    downloads: Semaphore,
    /// Disk space for downloads.
    space: DownloadSpace,
    runtime: Handle,
    state: Mutex<CacheState>,
    derived: Mutex<DerivedObjects>,
}

/// The cache. Cheap to clone; clones share the same cache.
#[derive(Clone)]
pub struct SymcacheCache {
    inner: Arc<Inner>,
}

impl SymcacheCache {
    /// Opens the folder with its files, or creates it. Must be called within the tokio runtime in which
    /// downloads will run. Reads only the names of files; contents are verified on use.
    ///
    /// # Errors
    /// Returns [`CacheError::Folder`] if the folder cannot be used.
    pub fn open(
        settings: CacheSettings,
        store: ObjectStore,
        clock: Arc<dyn Clock>,
    ) -> Result<SymcacheCache, CacheError> {
        SymcacheCache::open_on(settings, store, clock, disk::create_file)
    }

    /// Does the same with a given function that creates files.
    fn open_on(
        settings: CacheSettings,
        store: ObjectStore,
        clock: Arc<dyn Clock>,
        create: impl Fn(&std::path::Path) -> std::io::Result<std::fs::File> + Send + Sync + 'static,
    ) -> Result<SymcacheCache, CacheError> {
        let folder_error = |source: std::io::Error| CacheError::Folder {
            folder: settings.folder.clone(),
            source: Arc::new(source),
        };
        let opened = Disk::open(&settings.folder, &settings.versions, Box::new(create));
        let (disk, files) = opened.map_err(folder_error)?;
        let mut state = CacheState::new(&settings);
        for (id, file) in files {
            if let Some(older) = state.insert_found(id, file) {
                disk.remove_file(&older.file);
            }
        }
        for gone in state.make_room(None, 0) {
            disk.remove_file(&gone.file);
        }
        let downloads = Semaphore::new(settings.limits.downloads.max(1));
        let space = DownloadSpace::new(settings.limits.download_bytes);
        let runtime = Handle::current();
        let state = Mutex::new(state);
        let derived = Mutex::new(DerivedObjects::new(&settings));
        let inner = Inner { settings, store, clock, disk, downloads, space, runtime, state, derived };
        Ok(SymcacheCache { inner: Arc::new(inner) })
    }

    /// Returns the symbols for a debug id: the system's first if `system_path`, then the tenant's. Concurrent
    /// callers share one request. It continues when the caller stops waiting, so that the next caller finds the
    /// answer.
    ///
    /// # Errors
    /// Returns [`CacheError`] if it is unknown whether there are symbols.
    pub async fn get(&self, id: &Scoped<DebugId>, system_path: bool, hint: Hint) -> Answer {
        if system_path {
            match self.find_for_owner(&Owner::System.own(id.id), hint.system).await? {
                ImageSymbols::Missing => {}
                other => return Ok(other),
            }
        }
        self.find_for_owner(&id.into(), hint.tenant).await
    }

    /// Returns the answer of [`SymcacheCache::get`] if it is known without waiting.
    #[must_use]
    pub fn peek(&self, id: &Scoped<DebugId>, system_path: bool, hint: Hint) -> Option<ImageSymbols> {
        let inner = &self.inner;
        if system_path {
            match inner.find_known(&Owner::System.own(id.id), hint.system)? {
                ImageSymbols::Missing => {}
                other => return Some(other),
            }
        }
        inner.find_known(&id.into(), hint.tenant)
    }

    /// Returns one owner's symbols for a debug id, as [`SymcacheCache::get`] does.
    ///
    /// # Errors
    /// Returns [`CacheError`] if it is unknown whether there are symbols.
    pub async fn get_owned(&self, id: &Owned<DebugId>) -> Answer {
        self.find_for_owner(id, None).await
    }

    /// Returns the answer of [`SymcacheCache::get_owned`] if it is known without waiting.
    #[must_use]
    pub fn peek_owned(&self, id: &Owned<DebugId>) -> Option<ImageSymbols> {
        self.inner.find_known(id, None)
    }

    /// Handles an event: an owner's symbols for a debug id changed, to this generation.
    pub fn forget_outdated(&self, id: impl Into<Owned<DebugId>>, generation: u64) {
        let id = id.into();
        let outdated = self.inner.state.lock().forget_outdated(&id, generation);
        self.inner.derived.lock().forget(&id);
        if let Some(entry) = outdated {
            self.inner.disk.remove_file(&entry.file);
        }
    }

    /// Handles a deletion of an owner's symbols for a debug id, with this generation: there are none until a
    /// newer generation, even while object storage still has them.
    pub fn delete_symbols(&self, id: impl Into<Owned<DebugId>>, generation: u64) {
        let missing = self.inner.to_negative(ImageSymbols::Missing);
        let id = id.into();
        let outdated = self.inner.state.lock().delete_symbols(&id, generation, missing);
        self.inner.derived.lock().forget(&id);
        if let Some(entry) = outdated {
            self.inner.disk.remove_file(&entry.file);
        }
    }

    /// Handles a possible loss of events: drops all remembered "none" answers, and compares each symcache with
    /// object storage before its next use.
    pub fn missed_events(&self) {
        self.inner.state.lock().record_gap();
        self.inner.derived.lock().forget_all();
    }

    /// Drops all symcaches of a tenant, from memory and disk.
    pub fn forget_tenant(&self, tenant: &TenantId) {
        let gone = self.inner.state.lock().remove_tenant(tenant);
        self.inner.derived.lock().forget_owner(&Owner::from(tenant));
        for entry in gone {
            self.inner.disk.remove_file(&entry.file);
        }
    }

    /// Returns the statistics for metrics.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let inner = &self.inner;
        let limits = &inner.settings.limits;
        let free = inner.downloads.available_permits() as u64;
        CacheStats {
            downloads: (limits.downloads.max(1) as u64).saturating_sub(free),
            download_bytes: inner.space.reserved_bytes(),
            ..inner.state.lock().stats()
        }
    }

    async fn find_for_owner(&self, id: &Owned<DebugId>, at_least: Option<u64>) -> Answer {
        let inner = &self.inner;
        // An answer that arrived just before this call may be too old for it. The next flight begins after the
        // call and is not.
        loop {
            if let Some(known) = inner.find_known(id, at_least) {
                return Ok(known);
            }
            let (mut landed, ours) = inner.state.lock().join_flight(id);
            if ours {
                inner.runtime.spawn(fetch::run_flight(inner.clone(), id.clone()));
            }
            let answer = landed.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
            let Some(answer) = answer else {
                return Err(CacheError::Transient("the download was given up".into()));
            };
            let good_enough = match &answer {
                Ok(symbols) => at_least.is_none_or(|wanted| symbols.generation() >= Some(wanted)),
                Err(_) => true,
            };
            if ours || good_enough {
                return answer;
            }
        }
    }
}

impl Inner {
    /// Returns the answer if it needs no request.
    fn find_known(&self, id: &Owned<DebugId>, at_least: Option<u64>) -> Option<ImageSymbols> {
        self.state.lock().find_known(id, at_least, self.clock.monotonic_micros())
    }

    /// Remembers that there are no symbols. Returns false if an event has overtaken the answer.
    fn remember_missing(&self, id: &Owned<DebugId>, answer: ImageSymbols) -> bool {
        let negative = self.to_negative(answer);
        self.state.lock().remember_missing(id, negative)
    }

    /// Returns an answer to be remembered from now on.
    fn to_negative(&self, answer: ImageSymbols) -> Negative {
        Negative { answer, until: self.remember_missing_until() }
    }

    /// Returns the end of the time for which an absence that is found now is remembered.
    fn remember_missing_until(&self) -> i64 {
        self.clock.monotonic_micros().saturating_add(REMEMBER_MISSING_MICROS)
    }
}

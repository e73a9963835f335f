//! Symcaches on this machine's disk: fetched once, mapped into memory, bounded in bytes.

mod deleted;
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

/// Why the cache has no answer. Nothing of it is remembered.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CacheError {
    /// For now; another try may succeed.
    #[error("{0}")]
    Transient(String),
    /// This machine does not take it for now, and object storage is not at fault: it is too large, or
    /// other downloads take the room.
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
        /// Why not.
        #[source]
        source: Arc<std::io::Error>,
    },
}

impl CacheError {
    /// True where another try may succeed without an operator.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, CacheError::Transient(_) | CacheError::NoRoom(_))
    }
}

/// What the caller knows of the newest symbols. An older answer, and a remembered "none", is not
/// good enough for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// At least this generation of the tenant's own symbols is there.
    pub tenant: Option<u64>,
    /// At least this generation of the system's symbols is there.
    pub system: Option<u64>,
}

type Answer = Result<ImageSymbols, CacheError>;

struct Inner {
    settings: CacheSettings,
    store: ObjectStore,
    clock: Arc<dyn Clock>,
    disk: Disk,
    /// Downloads that may begin.
    downloads: Semaphore,
    /// What downloads may take on disk.
    space: DownloadSpace,
    runtime: Handle,
    state: Mutex<CacheState>,
}

/// The cache. Cheap to clone; clones are the same cache.
#[derive(Clone)]
pub struct SymcacheCache {
    inner: Arc<Inner>,
}

impl SymcacheCache {
    /// Opens the folder with what is in it, or makes it. Has to be called within a tokio runtime,
    /// where downloads will run. Reads the folder's names only; contents are verified when used.
    ///
    /// # Errors
    /// [`CacheError::Folder`].
    pub fn open(
        settings: CacheSettings,
        store: ObjectStore,
        clock: Arc<dyn Clock>,
    ) -> Result<SymcacheCache, CacheError> {
        SymcacheCache::open_on(settings, store, clock, disk::create)
    }

    /// The same on a disk where files are made by `create`.
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
                disk.remove(&older.file);
            }
        }
        for gone in state.make_room(None, 0) {
            disk.remove(&gone.file);
        }
        let downloads = Semaphore::new(settings.limits.downloads.max(1));
        let space = DownloadSpace::new(settings.limits.download_bytes);
        let runtime = Handle::current();
        let state = Mutex::new(state);
        let inner = Inner { settings, store, clock, disk, downloads, space, runtime, state };
        Ok(SymcacheCache { inner: Arc::new(inner) })
    }

    /// The symbols for a debug id: the system's first where `system_path`, then the tenant's.
    /// However many ask at the same time, one request is made; it goes on when the caller stops
    /// waiting, so that the next one finds the answer.
    ///
    /// # Errors
    /// [`CacheError`] where it is not known whether there are symbols.
    pub async fn get(&self, id: &Scoped<DebugId>, system_path: bool, hint: Hint) -> Answer {
        if system_path {
            match self.of_owner(&Owner::System.own(id.id), hint.system).await? {
                ImageSymbols::Missing => {}
                other => return Ok(other),
            }
        }
        self.of_owner(&id.into(), hint.tenant).await
    }

    /// What [`SymcacheCache::get`] would say, where it can say so without waiting.
    #[must_use]
    pub fn peek(&self, id: &Scoped<DebugId>, system_path: bool, hint: Hint) -> Option<ImageSymbols> {
        let inner = &self.inner;
        if system_path {
            match inner.known(&Owner::System.own(id.id), hint.system)? {
                ImageSymbols::Missing => {}
                other => return Some(other),
            }
        }
        inner.known(&id.into(), hint.tenant)
    }

    /// An event said that an owner's symbols for a debug id changed, to this generation.
    pub fn forget(&self, id: impl Into<Owned<DebugId>>, generation: u64) {
        let outdated = self.inner.state.lock().forget(&id.into(), generation);
        if let Some(entry) = outdated {
            self.inner.disk.remove(&entry.file);
        }
    }

    /// An owner's symbols for a debug id were deleted, with this generation: there are none until a newer one, also while
    /// object storage still has them.
    pub fn delete(&self, id: impl Into<Owned<DebugId>>, generation: u64) {
        let missing = self.inner.negative(ImageSymbols::Missing);
        let outdated = self.inner.state.lock().delete(&id.into(), generation, missing);
        if let Some(entry) = outdated {
            self.inner.disk.remove(&entry.file);
        }
    }

    /// Events may have been missed: no remembered "there is none" counts any more, and each symcache
    /// is compared with object storage before it is used again.
    pub fn missed_events(&self) {
        self.inner.state.lock().gap();
    }

    /// Drops everything of a tenant, from memory and disk.
    pub fn forget_tenant(&self, tenant: &TenantId) {
        let gone = self.inner.state.lock().remove_tenant(tenant);
        for entry in gone {
            self.inner.disk.remove(&entry.file);
        }
    }

    /// Figures for metrics.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let inner = &self.inner;
        let limits = &inner.settings.limits;
        let free = inner.downloads.available_permits() as u64;
        CacheStats {
            downloads: (limits.downloads.max(1) as u64).saturating_sub(free),
            download_bytes: inner.space.held(),
            ..inner.state.lock().stats()
        }
    }

    async fn of_owner(&self, id: &Owned<DebugId>, at_least: Option<u64>) -> Answer {
        let inner = &self.inner;
        // An answer that came just before this question was asked may be too old for it; the next
        // flight begins after the question and is not.
        loop {
            if let Some(known) = inner.known(id, at_least) {
                return Ok(known);
            }
            let (mut landed, ours) = inner.state.lock().join(id);
            if ours {
                inner.runtime.spawn(fetch::fly(inner.clone(), id.clone()));
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
    /// The answer that needs no request.
    fn known(&self, id: &Owned<DebugId>, at_least: Option<u64>) -> Option<ImageSymbols> {
        self.state.lock().known(id, at_least, self.clock.monotonic_micros())
    }

    /// Remembers that there is none; false where an event has overtaken it.
    fn remember(&self, id: &Owned<DebugId>, answer: ImageSymbols) -> bool {
        let negative = self.negative(answer);
        self.state.lock().remember(id, negative)
    }

    /// An answer to remember from now on.
    fn negative(&self, answer: ImageSymbols) -> Negative {
        let until = self.clock.monotonic_micros().saturating_add(REMEMBER_MISSING_MICROS);
        Negative { answer, until }
    }
}

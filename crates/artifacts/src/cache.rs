//! Symcaches on this machine's disk: fetched once, mapped into memory, bounded in bytes.

mod disk;
mod download_space;
mod fetch;
mod figures;
#[cfg(test)]
mod full_disk;
mod limits;
mod missing;
mod segments;
mod state;

use crate::ObjectStore;
use disk::Disk;
use download_space::DownloadSpace;
pub use figures::{CacheStats, Evictions};
pub use limits::{CacheLimits, CacheSettings};
use memmap2::Mmap;
use missing::Negative;
use parking_lot::Mutex;
use state::State;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use unslide_model::{Clock, ContentHash, DebugId, Scoped, TenantId};
use unslide_symbolicate::ImageSymbols;
use unslide_symbolicate::symcache::SymCache;

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
    /// True where another try may succeed without anybody's doing.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, CacheError::Transient(_) | CacheError::NoRoom(_))
    }
}

/// What is known of the symbols for a debug id.
#[derive(Clone)]
pub enum Cached {
    /// They are here.
    Found(Symcache),
    /// There are none.
    Missing,
    /// What is stored is not a symcache.
    Malformed,
    /// What is stored is of a format that this build does not read.
    Unsupported,
}

/// A symcache on this machine. The bytes stay readable as long as this lives, whatever the cache
/// does with the file.
#[derive(Clone)]
pub struct Symcache {
    /// The symbols.
    pub symcache: Arc<SymCache<Mmap>>,
    /// Which generation of the debug id's symbols this is.
    pub generation: u64,
    /// The object that they were built from.
    pub object: ContentHash,
    /// True for system symbols.
    pub system: bool,
}

impl Cached {
    /// As the engine wants it.
    #[must_use]
    pub fn symbols(&self) -> ImageSymbols {
        match self {
            Cached::Found(found) => ImageSymbols::Found {
                symcache: found.symcache.clone(),
                generation: Some(found.generation),
                object: Some(found.object),
            },
            Cached::Missing => ImageSymbols::Missing,
            Cached::Malformed => ImageSymbols::Malformed,
            Cached::Unsupported => ImageSymbols::Unsupported,
        }
    }

    /// The generation of what was found.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        match self {
            Cached::Found(found) => Some(found.generation),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Cached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cached::Found(found) => write!(f, "Found(generation {})", found.generation),
            Cached::Missing => f.write_str("Missing"),
            Cached::Malformed => f.write_str("Malformed"),
            Cached::Unsupported => f.write_str("Unsupported"),
        }
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

/// Whose symbols for which debug id; no tenant stands for the system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slot {
    tenant: Option<TenantId>,
    id: DebugId,
}

type Answer = Result<Cached, CacheError>;

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
    state: Mutex<State>,
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
        let mut state = State::default();
        for (slot, file) in files {
            if let Some(older) = state.insert_found(&settings, slot, file) {
                disk.remove(&older);
            }
        }
        for gone in state.make_room(&settings, None, 0) {
            disk.remove(&gone);
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
            let slot = Slot { tenant: None, id: id.id };
            match self.slot(slot, hint.system).await? {
                Cached::Missing => {}
                other => return Ok(other),
            }
        }
        self.slot(Slot { tenant: Some(id.tenant.clone()), id: id.id }, hint.tenant).await
    }

    /// What [`SymcacheCache::get`] would say, where it can say so without waiting.
    #[must_use]
    pub fn peek(&self, id: &Scoped<DebugId>, system_path: bool, hint: Hint) -> Option<Cached> {
        let inner = &self.inner;
        if system_path {
            match inner.known(&Slot { tenant: None, id: id.id }, hint.system)? {
                Cached::Missing => {}
                other => return Some(other),
            }
        }
        inner.known(&Slot { tenant: Some(id.tenant.clone()), id: id.id }, hint.tenant)
    }

    /// An event said that the tenant's symbols for a debug id changed, to this generation.
    pub fn forget(&self, id: &Scoped<DebugId>, generation: u64) {
        self.inner.forget(&Slot { tenant: Some(id.tenant.clone()), id: id.id }, generation);
    }

    /// An event said that the system's symbols for a debug id changed, to this generation.
    pub fn forget_system(&self, id: DebugId, generation: u64) {
        self.inner.forget(&Slot { tenant: None, id }, generation);
    }

    /// Events may have been missed: no remembered "there is none" counts any more, and each symcache
    /// is compared with object storage before it is used again.
    pub fn missed_events(&self) {
        self.inner.state.lock().gap();
    }

    /// Drops everything of a tenant, from memory and disk.
    pub fn forget_tenant(&self, tenant: &TenantId) {
        let gone = self.inner.state.lock().remove_tenant(&self.inner.settings, tenant);
        for entry in gone {
            self.inner.disk.remove(&entry);
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

    async fn slot(&self, slot: Slot, at_least: Option<u64>) -> Answer {
        let inner = &self.inner;
        // An answer that came just before this question was asked may be too old for it; the next
        // flight begins after the question and is not.
        loop {
            if let Some(known) = inner.known(&slot, at_least) {
                return Ok(known);
            }
            let (mut landed, ours) = inner.join(&slot);
            if ours {
                inner.runtime.spawn(fetch::fly(inner.clone(), slot.clone()));
            }
            let answer = landed.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
            let Some(answer) = answer else {
                return Err(CacheError::Transient("the download was given up".into()));
            };
            let good_enough = match &answer {
                Ok(Cached::Found(found)) => at_least.is_none_or(|wanted| found.generation >= wanted),
                Ok(_) => at_least.is_none(),
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
    fn known(&self, slot: &Slot, at_least: Option<u64>) -> Option<Cached> {
        self.state.lock().known(&self.settings, slot, at_least, self.clock.monotonic_micros())
    }

    /// The flight for a slot, and whether it is the caller's to begin.
    fn join(&self, slot: &Slot) -> (watch::Receiver<Option<Answer>>, bool) {
        self.state.lock().join(slot)
    }

    fn forget(&self, slot: &Slot, generation: u64) {
        let outdated = self.state.lock().forget(&self.settings, slot, generation);
        if let Some(entry) = outdated {
            self.disk.remove(&entry);
        }
    }

    /// Remembers that there is none; false where an event has overtaken it.
    fn remember(&self, slot: &Slot, answer: Cached) -> bool {
        let until = self.clock.monotonic_micros().saturating_add(self.settings.limits.remember_missing());
        self.state.lock().remember(&self.settings, slot, Negative { answer, until })
    }
}

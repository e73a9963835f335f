//! Symcaches on this machine's disk: fetched once, mapped into memory, bounded in bytes.

mod disk;
mod fetch;
mod state;

use crate::ObjectStore;
use disk::Disk;
use memmap2::Mmap;
use parking_lot::Mutex;
use state::{Entry, Negative, State};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use unslide_model::{Clock, ContentHash, DebugId, Scoped, TenantId};
use unslide_symbolicate::ImageSymbols;
use unslide_symbolicate::symcache::SymCache;

/// How the cache is set up.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// The folder, which is the cache's alone. It may be deleted at any time.
    pub folder: PathBuf,
    /// Bytes on disk. What is being downloaded comes on top.
    pub max_bytes: u64,
    /// Per cent of the bytes that one tenant keeps when others want room.
    pub tenant_share: u8,
    /// Per cent of the bytes that symcaches which were used only once keep when others want room,
    /// so that new ones have a chance to be used again.
    pub probation_share: u8,
    /// How long "there is none" is remembered at most.
    pub remember_missing: Duration,
    /// The largest symcache that is fetched, in bytes.
    pub largest: u64,
    /// Downloads at the same time.
    pub downloads: usize,
}

impl CacheSettings {
    /// The usual settings.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, max_bytes: u64) -> CacheSettings {
        CacheSettings {
            folder: folder.into(),
            max_bytes,
            tenant_share: 50,
            probation_share: 20,
            remember_missing: Duration::from_secs(60),
            largest: 2 << 30,
            downloads: 32,
        }
    }
}

/// Why the cache has no answer. Nothing of it is remembered.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CacheError {
    /// For now; another try may succeed.
    #[error("{0}")]
    Transient(String),
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
        matches!(self, CacheError::Transient(_))
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

/// Figures since the cache was opened, and its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Answers that needed no request, "missing" included.
    pub hits: u64,
    /// Requests to object storage.
    pub fetches: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Symcaches that made room for others.
    pub evictions: u64,
    /// Files that were not what they should be.
    pub corrupt: u64,
    /// Symcaches on disk.
    pub entries: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Remembered "there is none".
    pub missing: u64,
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
    downloads: Semaphore,
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
        let folder_error = |source: std::io::Error| CacheError::Folder {
            folder: settings.folder.clone(),
            source: Arc::new(source),
        };
        let (disk, files) = Disk::open(&settings.folder).map_err(folder_error)?;
        let mut state = State::default();
        for (slot, file) in files {
            if let Some(older) = state.insert(slot, Entry::on_disk(file)) {
                disk.remove(&older);
            }
        }
        let downloads = Semaphore::new(settings.downloads.max(1));
        let runtime = Handle::current();
        let state = Mutex::new(state);
        let inner = Inner { settings, store, clock, disk, downloads, runtime, state };
        inner.make_room(0);
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
        let gone = self.inner.state.lock().remove_tenant(tenant);
        for entry in gone {
            self.inner.disk.remove(&entry);
        }
    }

    /// Figures for metrics.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.inner.state.lock().stats()
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
        self.state.lock().known(slot, at_least, self.clock.now_micros())
    }

    /// The flight for a slot, and whether it is the caller's to begin.
    fn join(&self, slot: &Slot) -> (watch::Receiver<Option<Answer>>, bool) {
        self.state.lock().join(slot)
    }

    fn forget(&self, slot: &Slot, generation: u64) {
        let outdated = self.state.lock().forget(slot, generation);
        if let Some(entry) = outdated {
            self.disk.remove(&entry);
        }
    }

    /// Unlinks what has to go for `bytes` more.
    fn make_room(&self, bytes: u64) {
        let victims = self.state.lock().evict(&self.settings, bytes);
        for victim in victims {
            self.disk.remove(&victim);
        }
    }

    /// Remembers that there is none; false where an event has overtaken it.
    fn remember(&self, slot: &Slot, answer: Cached) -> bool {
        let keep = i64::try_from(self.settings.remember_missing.as_micros()).unwrap_or(i64::MAX);
        let now = self.clock.now_micros();
        self.state.lock().remember(slot, Negative { answer, until: now.saturating_add(keep) }, now)
    }
}

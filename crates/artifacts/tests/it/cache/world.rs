//! A cache of symcaches over a bucket in memory.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use unslide_artifacts::{
    AliasMeta, CacheLimits, CacheSettings, Hint, Memory, ObjectStore, Put, SymcacheCache, keys,
};
use unslide_model::{ContentHash, DebugId, FixedClock, Quality, Scoped, TenantId};
use unslide_symbolicate::object::{build_symcache, list_objects};
use unslide_symbolicate::symcache::SYMCACHE_VERSION;
use unslide_testkit::fixtures;

/// A real symcache and its debug id.
pub fn fixture() -> &'static (DebugId, Vec<u8>) {
    static FIXTURE: OnceLock<(DebugId, Vec<u8>)> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let file = std::fs::read(fixtures::dsym("app")).unwrap();
        let slice = list_objects(&file).unwrap().swap_remove(0).range;
        let built = build_symcache(&file[slice]).unwrap();
        (built.debug_id, built.symcache)
    })
}

/// The fixture's symcache under another debug id, whole: the checksum is that of the new bytes.
pub fn symcache_of(id: DebugId) -> Vec<u8> {
    let (original, bytes) = fixture();
    let mut bytes = bytes.clone();
    let at = bytes.windows(16).position(|w| w == original.0).unwrap();
    bytes[at..at + 16].copy_from_slice(&id.0);
    let mut crc = flate2::Crc::new();
    crc.update(&bytes[..12]);
    crc.update(&bytes[16..]);
    bytes[12..16].copy_from_slice(&crc.sum().to_le_bytes());
    bytes
}

pub fn sha256(bytes: &[u8]) -> ContentHash {
    ContentHash(Sha256::digest(bytes).into())
}

pub fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

pub fn id(n: u16) -> DebugId {
    let [high, low] = n.to_be_bytes();
    let mut id = [low; 16];
    id[0] = high;
    DebugId(id)
}

pub struct World {
    pub store: ObjectStore,
    pub memory: Memory,
    pub clock: Arc<FixedClock>,
    pub folder: tempfile::TempDir,
}

impl World {
    pub fn new() -> World {
        let (store, memory) = ObjectStore::memory();
        let clock = Arc::new(FixedClock::at_micros(1_000_000_000_000_000));
        World { store, memory, clock, folder: tempfile::tempdir().unwrap() }
    }

    pub fn open(&self, max_bytes: u64) -> SymcacheCache {
        self.open_with(CacheSettings::new(self.cache_folder(), max_bytes))
    }

    /// A cache with room for this number of symcaches.
    pub fn open_for(&self, symcaches: u64, limits: CacheLimits) -> SymcacheCache {
        self.open_with(CacheSettings::new(self.cache_folder(), symcaches * size()).with_limits(limits))
    }

    pub fn open_with(&self, settings: CacheSettings) -> SymcacheCache {
        SymcacheCache::open(settings, self.store.clone(), self.clock.clone()).unwrap()
    }

    pub fn cache_folder(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    pub async fn publish(&self, keys: &keys::SymbolKeys, generation: u64, bytes: Vec<u8>) {
        self.publish_as(SYMCACHE_VERSION, keys, generation, bytes).await;
    }

    /// Publishes bytes under the keys of a version of the format, whatever they are.
    pub async fn publish_as(&self, version: u32, keys: &keys::SymbolKeys, generation: u64, bytes: Vec<u8>) {
        let meta = AliasMeta {
            generation,
            quality: Quality::DwarfSymtab,
            sha256: sha256(&bytes),
            object: ContentHash([9; 32]),
        };
        let put = Put { metadata: meta.to_metadata(), ..Put::default() };
        self.store.put(&keys.alias(version), bytes.into(), &put).await.unwrap();
    }

    pub async fn tenants(&self, id: &Scoped<DebugId>, generation: u64) {
        self.publish(&keys::for_symbols(id), generation, symcache_of(id.id)).await;
    }

    /// A symcache of a tenant, fetched and used so often.
    pub async fn used(&self, cache: &SymcacheCache, tenant: &str, n: u16, times: u32) -> Scoped<DebugId> {
        let ours = self::tenant(tenant).scope(id(n));
        if self.store.head(&keys::for_symbols(&ours).alias(SYMCACHE_VERSION)).await.unwrap().is_none() {
            self.tenants(&ours, 1).await;
        }
        for _ in 0..times {
            generation(cache, &ours).await;
        }
        ours
    }

    pub fn files(&self) -> Vec<PathBuf> {
        fn walk(folder: &Path, into: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { walk(&path, into) } else { into.push(path) }
            }
        }
        let mut files = Vec::new();
        walk(self.folder.path(), &mut files);
        files
    }
}

pub fn size() -> u64 {
    fixture().1.len() as u64
}

pub async fn generation(cache: &SymcacheCache, id: &Scoped<DebugId>) -> Option<u64> {
    cache.get(id, false, Hint::default()).await.unwrap().generation()
}

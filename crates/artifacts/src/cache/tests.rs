//! What a full disk does. The kernel's own full device stands for it, so that the failure comes from
//! a real write.

use super::{CacheSettings, Hint, SymcacheCache};
use crate::{AliasMeta, ObjectStore, Put, keys};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use unslide_model::{ContentHash, DebugId, FixedClock, Quality, Scoped, TenantId};
use unslide_symbolicate::ImageSymbols;
use unslide_symbolicate::object::build_symcache;
use unslide_symbolicate::symcache::SYMCACHE_VERSION;

/// Symcaches under two debug ids, published for a tenant.
async fn published(store: &ObjectStore) -> (Vec<Scoped<DebugId>>, u64) {
    let dsym = include_bytes!("../../../symbolicate/tests/data/app.dsym");
    let built = build_symcache(dsym).unwrap();
    let at = built.symcache.windows(16).position(|w| w == built.debug_id.0).unwrap();
    let tenant = TenantId::new("acme").unwrap();
    let mut ids = Vec::new();
    for n in 1..=2 {
        let id = tenant.scope(DebugId([n; 16]));
        let mut bytes = built.symcache.clone();
        bytes[at..at + 16].copy_from_slice(&id.id.0);
        let sha256 = ContentHash(Sha256::digest(&bytes).into());
        let meta = AliasMeta { generation: 1, quality: Quality::Dwarf, sha256, object: ContentHash([9; 32]) };
        let put = Put { metadata: meta.to_metadata(), ..Put::default() };
        store.put(&keys::for_symbols(&id).alias(SYMCACHE_VERSION), bytes.into(), &put).await.unwrap();
        ids.push(id);
    }
    (ids, built.symcache.len() as u64)
}

/// A cache on a disk that has room for `most` symcaches. Files of `folder` count.
fn on_disk_for(folder: &Path, most: Arc<AtomicUsize>, store: ObjectStore) -> SymcacheCache {
    let files = folder.join(format!("v{SYMCACHE_VERSION}"));
    let create = move |path: &Path| {
        let kept = |owner: std::fs::DirEntry| std::fs::read_dir(owner.path()).unwrap().count();
        let there: usize = std::fs::read_dir(&files).unwrap().map(|owner| kept(owner.unwrap())).sum();
        let room = there < most.load(Ordering::Relaxed);
        if room { File::create_new(path) } else { File::options().write(true).open("/dev/full") }
    };
    let clock = Arc::new(FixedClock::at_micros(0));
    SymcacheCache::open_on(CacheSettings::new(folder, 1 << 30), store, clock, create).unwrap()
}

/// Proves: outages
#[tokio::test]
async fn a_full_disk_costs_another_symcache_and_then_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = ObjectStore::memory();
    let (ids, size) = published(&store).await;
    let room = Arc::new(AtomicUsize::new(1));
    let cache = on_disk_for(folder.path(), room.clone(), store);
    let get = async |n: usize| cache.get(&ids[n], false, Hint::default()).await;
    let temporary = || std::fs::read_dir(folder.path().join("tmp")).unwrap().count();
    assert!(matches!(get(0).await, Ok(ImageSymbols::Found { .. })));
    // There is room for one: the first makes way for the second.
    assert!(matches!(get(1).await, Ok(ImageSymbols::Found { .. })));
    let stats = cache.stats();
    assert_eq!((stats.evictions.disk_full, stats.disk_full), (1, 1));
    assert_eq!((stats.entry_count(), stats.bytes, temporary()), (1, size, 0));
    assert!(cache.peek(&ids[0], false, Hint::default()).is_none());
    // Another program has filled the disk: nothing that the cache gives up helps.
    room.store(0, Ordering::Relaxed);
    let error = get(0).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("disk is full"), "{error}");
    assert_eq!((cache.stats().entry_count(), cache.stats().disk_full, temporary()), (0, 2, 0));
    // Nothing of it is remembered.
    room.store(2, Ordering::Relaxed);
    assert!(matches!(get(0).await, Ok(ImageSymbols::Found { .. })));
    assert_eq!((cache.stats().downloads, cache.stats().download_bytes), (0, 0));
}

//! Two versions of the symcache's format at the same time. The cache chooses by the objects' keys;
//! the bytes under them are alike here.

use super::world::{World, generation, id, symcache_of, tenant};
use unslide_artifacts::{CacheSettings, Hint, Operation, SymcacheCache, keys};

fn reading(world: &World, versions: &[u32]) -> SymcacheCache {
    let settings = CacheSettings::new(world.cache_folder(), 1 << 30);
    world.open_with(CacheSettings { versions: versions.to_vec(), ..settings })
}

#[tokio::test]
async fn the_newest_version_that_is_there_answers() {
    let world = World::new();
    let cache = reading(&world, &[2, 1]);
    let ours = |n| tenant("acme").scope(id(n));
    let publish = async |version: u32, n: u16, generation: u64| {
        world.publish_as(version, &keys::for_symbols(ours(n)), generation, symcache_of(id(n))).await;
    };
    // Built by both, by one that writes the old version only, and by one that writes the new only.
    publish(1, 1, 3).await;
    publish(2, 1, 4).await;
    publish(1, 2, 5).await;
    publish(2, 3, 6).await;
    let calls = || world.memory.call_count(Operation::Get);
    for (n, expected, requests) in [(1, Some(4), 1), (2, Some(5), 2), (3, Some(6), 1), (4, None, 2)] {
        let before = calls();
        assert_eq!(generation(&cache, &ours(n)).await, expected, "image {n}");
        assert_eq!(calls() - before, requests, "image {n}");
    }
    // What is under the newer key cannot be used: the older one still can.
    world.publish_as(2, &keys::for_symbols(ours(5)), 9, b"nonsense".to_vec()).await;
    publish(1, 5, 8).await;
    assert_eq!(generation(&cache, &ours(5)).await, Some(8));
    // The backfill comes by, and an event after a gap in the events has the older one compared with
    // its own version.
    publish(2, 2, 5).await;
    cache.missed_events();
    let before = calls();
    assert_eq!(generation(&cache, &ours(2)).await, Some(5));
    assert_eq!(calls(), before, "the same symbols");
}

#[tokio::test]
async fn files_of_versions_that_are_not_read_any_more_are_removed() {
    let world = World::new();
    let (old, new) = (tenant("acme").scope(id(1)), tenant("acme").scope(id(2)));
    world.publish_as(1, &keys::for_symbols(&old), 1, symcache_of(old.id)).await;
    world.publish_as(2, &keys::for_symbols(&new), 1, symcache_of(new.id)).await;
    let cache = reading(&world, &[2, 1]);
    for id in [&old, &new] {
        assert_eq!(generation(&cache, id).await, Some(1));
    }
    assert_eq!(world.files().len(), 2);
    drop(cache);
    let cache = reading(&world, &[3, 2]);
    assert_eq!((cache.stats().entry_count(), world.files().len()), (1, 1));
    let gets = world.memory.call_count(Operation::Get);
    assert_eq!(cache.get(&new, false, Hint::default()).await.unwrap().generation(), Some(1));
    assert_eq!(world.memory.call_count(Operation::Get), gets, "kept");
    assert_eq!(generation(&cache, &old).await, None, "this build does not ask for it");
}

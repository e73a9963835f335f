//! Events, gaps and damage that meet a fetch half-way.

use super::world::{World, generation, id, tenant};
use crate::object_store::suite::clear;
use tokio::task::JoinHandle;
use unslide_artifacts::{CacheLimits, Fault, Hint, Hold, Operation, SymcacheCache};
use unslide_model::{DebugId, Scoped};
use unslide_symbolicate::ImageSymbols;

fn fetching(cache: &SymcacheCache, id: &Scoped<DebugId>) -> JoinHandle<Option<u64>> {
    let (cache, id) = (cache.clone(), id.clone());
    tokio::spawn(async move { generation(&cache, &id).await })
}

/// A fetch. Its operation has begun and is held before it answers.
async fn held_fetch(
    world: &World,
    operation: Operation,
    cache: &SymcacheCache,
    id: &Scoped<DebugId>,
) -> (Hold, JoinHandle<Option<u64>>) {
    let hold = world.memory.hold(operation, "symcache");
    let before = world.memory.call_count(operation);
    let fetching = fetching(cache, id);
    while world.memory.call_count(operation) == before {
        tokio::task::yield_now().await;
    }
    (hold, fetching)
}

/// Proves: late-symbols
#[tokio::test]
async fn an_event_during_a_fetch_makes_its_answer_worthless() {
    let world = World::new();
    let cache = world.open(1 << 30);
    for before in [None, Some(1)] {
        let ours = tenant("acme").scope(id(if before.is_some() { 1 } else { 2 }));
        if let Some(before) = before {
            world.tenants(&ours, before).await;
        }
        // The fetch has seen the bucket without the new symcache, and is held before it answers.
        let calls = world.memory.call_count(Operation::Get);
        let (hold, fetching) = held_fetch(&world, Operation::Get, &cache, &ours).await;
        world.tenants(&ours, 2).await;
        cache.forget_outdated(&ours, 2);
        drop(hold);
        assert_eq!(fetching.await.unwrap(), Some(2), "before: {before:?}");
        assert_eq!(generation(&cache, &ours).await, Some(2));
        assert_eq!(world.memory.call_count(Operation::Get), calls + 2);
    }
    // The event of the very generation that is being fetched changes nothing.
    let ours = tenant("acme").scope(id(5));
    world.tenants(&ours, 7).await;
    let calls = world.memory.call_count(Operation::Get);
    let (hold, fetching) = held_fetch(&world, Operation::Get, &cache, &ours).await;
    cache.forget_outdated(&ours, 7);
    drop(hold);
    assert_eq!(fetching.await.unwrap(), Some(7));
    assert_eq!(world.memory.call_count(Operation::Get), calls + 1);
}

/// Proves: late-symbols
#[tokio::test]
async fn a_deletion_during_a_fetch_counts_while_object_storage_still_has_them() {
    let world = World::new();
    let cache = world.open(1 << 30);
    let ours = tenant("acme").scope(id(1));
    world.tenants(&ours, 1).await;
    let (hold, fetching) = held_fetch(&world, Operation::Get, &cache, &ours).await;
    cache.delete_symbols(&ours, 2);
    assert_eq!(generation(&cache, &ours).await, None, "the next one does not wait for the download");
    drop(hold);
    assert_eq!(fetching.await.unwrap(), None);
    assert_eq!(generation(&cache, &ours).await, None);
    assert!(world.files().is_empty());
}

/// Proves: late-symbols
#[tokio::test]
async fn a_gap_during_a_fetch_makes_its_answer_worthless() {
    let world = World::new();
    let cache = world.open(1 << 30);
    for before in [None, Some(1)] {
        let ours = tenant("acme").scope(id(if before.is_some() { 1 } else { 2 }));
        if let Some(before) = before {
            world.tenants(&ours, before).await;
        }
        let calls = world.memory.call_count(Operation::Get);
        let (hold, fetching) = held_fetch(&world, Operation::Get, &cache, &ours).await;
        world.tenants(&ours, 2).await;
        cache.missed_events();
        drop(hold);
        assert_eq!(fetching.await.unwrap(), Some(2), "before: {before:?}");
        assert_eq!(world.memory.call_count(Operation::Get), calls + 2);
    }
}

/// Proves: late-symbols
#[tokio::test]
async fn a_gap_while_a_file_is_compared_makes_the_comparison_worthless() {
    let world = World::new();
    let cache = world.open(1 << 30);
    let ours = world.used(&cache, "acme", 1, 1).await;
    cache.missed_events();
    // Object storage says that nothing has changed, and is held before it answers.
    let (hold, fetching) = held_fetch(&world, Operation::Head, &cache, &ours).await;
    world.tenants(&ours, 2).await;
    cache.missed_events();
    drop(hold);
    assert_eq!(fetching.await.unwrap(), Some(2));
    assert_eq!(generation(&cache, &ours).await, Some(2));
}

/// Proves: late-symbols
#[tokio::test]
async fn an_event_before_the_request_does_not_cost_its_answer() {
    let world = World::new();
    let cache = world.open_for(10, CacheLimits { downloads: 1, ..CacheLimits::default() });
    let (first, second) = (tenant("acme").scope(id(1)), tenant("acme").scope(id(2)));
    let calls = world.memory.call_count(Operation::Get);
    let (hold, busy) = held_fetch(&world, Operation::Get, &cache, &first).await;
    // The second waits for its turn; its request will see what this event speaks of.
    let waiting = fetching(&cache, &second);
    tokio::task::yield_now().await;
    cache.forget_outdated(&second, 9);
    drop(hold);
    assert_eq!((busy.await.unwrap(), waiting.await.unwrap()), (None, None));
    assert_eq!(world.memory.call_count(Operation::Get), calls + 2);
    assert!(cache.peek(&second, false, Hint::default()).is_some(), "remembered");
}

#[tokio::test]
async fn a_tenant_that_was_forgotten_during_a_fetch_leaves_nothing() {
    let world = World::new();
    let cache = world.open(1 << 30);
    let ours = tenant("acme").scope(id(1));
    world.tenants(&ours, 1).await;
    let (hold, fetching) = held_fetch(&world, Operation::Get, &cache, &ours).await;
    clear(&world.store, &unslide_artifacts::keys::tenant_prefix(&ours.tenant)).await;
    cache.forget_tenant(&ours.tenant);
    drop(hold);
    assert_eq!(fetching.await.unwrap(), None);
    assert!(world.files().is_empty());
}

/// Proves: outages
#[tokio::test(start_paused = true)]
async fn damaged_answers_are_failures_for_now_and_never_answers() {
    for fault in [Fault::Corrupted, Fault::Truncated] {
        let world = World::new();
        let cache = world.open(1 << 30);
        let ours = tenant("acme").scope(id(1));
        world.tenants(&ours, 1).await;
        world.memory.fail(Operation::Get, "symcache", fault, None);
        let error = cache.get(&ours, false, Hint::default()).await.unwrap_err();
        assert!(error.is_transient(), "{fault:?}: {error}");
        assert!(world.files().is_empty() && cache.stats().entry_count() == 0, "{fault:?}");
        assert!(cache.peek(&ours, false, Hint::default()).is_none(), "{fault:?}: nothing is remembered");
        world.memory.heal();
        assert_eq!(generation(&cache, &ours).await, Some(1), "{fault:?}");
    }
    // Damage that passes is not noticed by who asks.
    let world = World::new();
    let cache = world.open(1 << 30);
    let ours = tenant("acme").scope(id(1));
    world.tenants(&ours, 1).await;
    world.memory.fail(Operation::Get, "symcache", Fault::Corrupted, Some(1));
    assert_eq!(generation(&cache, &ours).await, Some(1));
}

/// Proves: outages
#[tokio::test]
async fn an_evicted_symcache_stays_readable_and_a_new_one_does_not_overwrite_it() {
    let world = World::new();
    let cache = world.open_for(1, CacheLimits::default());
    let ours = world.used(&cache, "acme", 1, 1).await;
    let Some(ImageSymbols::Found { symcache: old, .. }) = cache.peek(&ours, false, Hint::default()) else {
        panic!("not kept")
    };
    let [path] = &world.files()[..] else { panic!("one file") };
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with(&format!("{}.1.", ours.id.to_compact())), "{name} says the generation");
    let held = std::fs::File::open(path).unwrap();
    let length = held.metadata().unwrap().len();
    world.used(&cache, "acme", 2, 1).await;
    assert!(!path.exists() && cache.peek(&ours, false, Hint::default()).is_none());
    // The same file again, under the same name: another one for the file system.
    world.used(&cache, "acme", 1, 1).await;
    assert!(path.exists());
    assert_eq!(held.metadata().unwrap().len(), length, "neither cut nor written to");
    assert_eq!(std::os::unix::fs::MetadataExt::nlink(&held.metadata().unwrap()), 0, "but unlinked");
    assert!(old.verify_checksum().is_ok());
}

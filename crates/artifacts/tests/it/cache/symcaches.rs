//! The symcache cache: what it keeps, what it forgets, and who wins a race.

use super::world::{World, fixture, generation, id, sha256, symcache_of, tenant};
use crate::object_store::suite::clear;
use bytes::Bytes;
use std::time::Duration;
use unslide_artifacts::{Fault, Hint, Operation, Put, keys};
use unslide_model::{ContentHash, Owner};
use unslide_symbolicate::ImageSymbols::{self, Found};
use unslide_symbolicate::symcache::SYMCACHE_VERSION;

#[tokio::test]
async fn a_symcache_is_fetched_once_and_answers() {
    let world = World::new();
    let cache = world.open(1 << 30);
    let ours = tenant("acme").scope(fixture().0);
    world.tenants(&ours, 3).await;
    assert!(cache.peek(&ours, false, Hint::default()).is_none());
    let all = futures::future::join_all((0..50).map(|_| cache.get(&ours, false, Hint::default()))).await;
    assert!(all.iter().all(|answer| answer.as_ref().unwrap().generation() == Some(3)));
    assert_eq!(world.memory.call_count(Operation::Get), 1);
    let Some(Found { symcache, object, .. }) = cache.peek(&ours, false, Hint::default()) else {
        panic!("not kept")
    };
    assert_eq!((symcache.debug_id(), object), (ours.id, Some(ContentHash([9; 32]))));
    assert!(symcache.ranges().count() > 3);
    assert_eq!(world.files().len(), 1);
    // Another tenant's symbols are not ours.
    let theirs = tenant("other").scope(ours.id);
    assert_eq!(generation(&cache, &theirs).await, None);
}

/// Proves: late-symbols
#[tokio::test]
async fn missing_is_remembered_for_a_minute_and_forgotten_on_an_event() {
    let world = World::new();
    let cache = world.open(1 << 30);
    let ours = tenant("acme").scope(id(1));
    for _ in 0..3 {
        assert!(matches!(cache.get(&ours, false, Hint::default()).await, Ok(ImageSymbols::Missing)));
    }
    assert_eq!(world.memory.call_count(Operation::Get), 1);
    // Steps of the wall clock are no time.
    for step in [3_600_000_000, -7_200_000_000] {
        world.clock.step_wall_micros(step);
        assert_eq!(generation(&cache, &ours).await, None);
        assert_eq!(world.memory.call_count(Operation::Get), 1);
    }
    // The time is over.
    world.clock.advance_micros(61_000_000);
    assert_eq!(generation(&cache, &ours).await, None);
    assert_eq!(world.memory.call_count(Operation::Get), 2);
    // An event.
    world.tenants(&ours, 1).await;
    assert_eq!(generation(&cache, &ours).await, None, "remembered");
    cache.forget_outdated(&ours, 1);
    assert_eq!(generation(&cache, &ours).await, Some(1));
    // A gap in the events.
    let other = tenant("acme").scope(id(2));
    assert_eq!(generation(&cache, &other).await, None);
    world.tenants(&other, 1).await;
    cache.missed_events();
    assert_eq!(generation(&cache, &other).await, Some(1));
    // Someone who knows better than the memory.
    let third = tenant("acme").scope(id(3));
    assert_eq!(generation(&cache, &third).await, None);
    world.tenants(&third, 4).await;
    let hint = Hint { tenant: Some(4), system: None };
    assert_eq!(cache.get(&third, false, hint).await.unwrap().generation(), Some(4));
}

#[tokio::test]
async fn an_event_replaces_an_older_symcache_and_leaves_a_newer_one() {
    let world = World::new();
    let cache = world.open(1 << 30);
    let ours = tenant("acme").scope(id(1));
    world.tenants(&ours, 2).await;
    let Found { symcache: old, .. } = cache.get(&ours, false, Hint::default()).await.unwrap() else {
        panic!()
    };
    cache.forget_outdated(&ours, 2);
    assert!(cache.peek(&ours, false, Hint::default()).is_some(), "an event about what is here");
    world.tenants(&ours, 3).await;
    cache.forget_outdated(&ours, 3);
    assert!(cache.peek(&ours, false, Hint::default()).is_none());
    assert!(world.files().is_empty(), "unlinked");
    assert!(old.ranges().count() > 3, "its holder can still read it");
    assert_eq!(generation(&cache, &ours).await, Some(3));
    // Deleted.
    clear(&world.store, &keys::for_symbols(&ours).prefix()).await;
    cache.forget_outdated(&ours, 4);
    assert_eq!(generation(&cache, &ours).await, None);
    // After a gap what is here is compared, and fetched again only where it is another.
    world.tenants(&ours, 5).await;
    cache.forget_outdated(&ours, 5);
    assert_eq!(generation(&cache, &ours).await, Some(5));
    let gets = world.memory.call_count(Operation::Get);
    cache.missed_events();
    assert_eq!(generation(&cache, &ours).await, Some(5));
    assert_eq!(world.memory.call_count(Operation::Get), gets, "only compared");
    world.tenants(&ours, 6).await;
    cache.missed_events();
    assert_eq!(generation(&cache, &ours).await, Some(6));
}

/// Proves: late-symbols
#[tokio::test]
async fn deleted_symbols_stay_missing_while_object_storage_still_has_them() {
    let world = World::new();
    let cache = world.open(1 << 30);
    let ours = world.used(&cache, "acme", 1, 1).await;
    cache.delete_symbols(&ours, 2);
    assert!(world.files().is_empty(), "unlinked");
    for _ in 0..3 {
        assert_eq!(generation(&cache, &ours).await, None);
        // That it is missing is not remembered any more.
        world.clock.advance_micros(61_000_000);
    }
    cache.forget_outdated(&ours, 1);
    assert_eq!(generation(&cache, &ours).await, None, "an event of what was deleted");
    // A builder that lost against the deletion leaves the deletion's own number for a moment.
    world.tenants(&ours, 2).await;
    cache.delete_symbols(&ours, 2);
    world.clock.advance_micros(61_000_000);
    assert_eq!(generation(&cache, &ours).await, None, "the deletion comes twice");
    // New symbols count within a minute where their event does not come.
    world.tenants(&ours, 3).await;
    assert_eq!(generation(&cache, &ours).await, None, "remembered");
    world.clock.advance_micros(61_000_000);
    assert_eq!(generation(&cache, &ours).await, Some(3));
    cache.delete_symbols(&ours, 2);
    assert_eq!(generation(&cache, &ours).await, Some(3), "what is here is newer");
    cache.delete_symbols(&ours, 4);
    assert_eq!(generation(&cache, &ours).await, None);
    world.tenants(&ours, 5).await;
    cache.forget_outdated(&ours, 5);
    assert_eq!(generation(&cache, &ours).await, Some(5));
}

#[tokio::test]
async fn system_symbols_come_first_for_system_paths() {
    let world = World::new();
    let cache = world.open(1 << 30);
    let ours = tenant("acme").scope(id(1));
    world.tenants(&ours, 1).await;
    assert_eq!(cache.get(&ours, true, Hint::default()).await.unwrap().generation(), Some(1));
    world.publish(&keys::for_symbols(Owner::System.own(ours.id)), 9, symcache_of(ours.id)).await;
    cache.forget_outdated(Owner::System.own(ours.id), 9);
    assert_eq!(cache.get(&ours, true, Hint::default()).await.unwrap().generation(), Some(9));
    assert_eq!(generation(&cache, &ours).await, Some(1));
}

#[tokio::test]
async fn a_failure_is_no_answer_and_is_not_remembered() {
    let world = World::new();
    let cache = world.open(1 << 30);
    let ours = tenant("acme").scope(id(1));
    world.tenants(&ours, 1).await;
    world.memory.fail(Operation::Get, "", Fault::Transient, None);
    assert!(cache.get(&ours, false, Hint::default()).await.unwrap_err().is_transient());
    world.memory.heal();
    world.memory.fail(Operation::Get, "", Fault::Refused, None);
    assert!(!cache.get(&ours, false, Hint::default()).await.unwrap_err().is_transient());
    world.memory.heal();
    assert_eq!(generation(&cache, &ours).await, Some(1));
    assert_eq!(cache.stats().failures, 2);
}

#[tokio::test]
async fn what_is_stored_may_be_wrong() {
    let world = World::new();
    let cache = world.open(1 << 30);
    let get = async |n: u16, bytes: Vec<u8>| {
        let ours = tenant("acme").scope(id(n));
        world.publish(&keys::for_symbols(&ours), 1, bytes).await;
        cache.get(&ours, false, Hint::default()).await.unwrap()
    };
    assert!(matches!(get(1, b"nonsense".to_vec()).await, ImageSymbols::Malformed));
    assert!(matches!(get(2, Vec::new()).await, ImageSymbols::Malformed));
    assert!(matches!(get(3, symcache_of(id(4))).await, ImageSymbols::Malformed), "another object's");
    let mut newer = symcache_of(id(5));
    let version = newer.windows(4).position(|w| w == SYMCACHE_VERSION.to_le_bytes()).unwrap();
    newer[version..version + 4].copy_from_slice(&99_u32.to_le_bytes());
    assert!(matches!(get(5, newer).await, ImageSymbols::Unsupported));
    assert!(world.files().is_empty());
    // Bytes and metadata of two writes, as a store may show them that does not write both at once.
    let ours = tenant("acme").scope(id(6));
    let bytes = symcache_of(ours.id);
    world.publish(&keys::for_symbols(&ours), 1, bytes.clone()).await;
    let meta =
        world.store.head(&keys::for_symbols(&ours).alias(SYMCACHE_VERSION)).await.unwrap().unwrap().metadata;
    let torn = Put { metadata: meta, ..Put::default() };
    world
        .store
        .put(&keys::for_symbols(&ours).alias(SYMCACHE_VERSION), Bytes::from_static(b"other"), &torn)
        .await
        .unwrap();
    assert!(cache.get(&ours, false, Hint::default()).await.unwrap_err().is_transient());
    let immutable = keys::for_symbols(&ours).symcache(SYMCACHE_VERSION, &sha256(&bytes));
    world.store.put(&immutable, bytes.into(), &Put::default()).await.unwrap();
    assert_eq!(generation(&cache, &ours).await, Some(1), "the object that the metadata names");
}

/// Proves: outages
#[tokio::test]
async fn the_folder_survives_a_restart_and_a_corrupt_file_does_not() {
    let world = World::new();
    let (whole, corrupt) = (tenant("acme").scope(fixture().0), tenant("other").scope(fixture().0));
    world.tenants(&whole, 1).await;
    world.tenants(&corrupt, 1).await;
    let cache = world.open(1 << 30);
    for id in [&whole, &corrupt] {
        assert_eq!(generation(&cache, id).await, Some(1));
    }
    drop(cache);
    let damaged = world.files().into_iter().find(|path| path.to_str().unwrap().contains("/other/")).unwrap();
    let mut bytes = std::fs::read(&damaged).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 0xff;
    std::fs::write(&damaged, bytes).unwrap();
    let stray = world.folder.path().join("cache/tmp/1-1");
    std::fs::write(&stray, b"half a download").unwrap();
    let gets = world.memory.call_count(Operation::Get);
    let cache = world.open(1 << 30);
    assert!(!stray.exists());
    assert_eq!(cache.stats().entry_count(), 2);
    for id in [&whole, &corrupt] {
        assert_eq!(generation(&cache, id).await, Some(1));
    }
    assert_eq!(world.memory.call_count(Operation::Get), gets + 1, "only the corrupt one is fetched again");
    assert_eq!(cache.stats().corrupt, 1);
    // Deleted under our feet: what is mapped goes on, and new ones are kept again.
    std::fs::remove_dir_all(world.folder.path().join("cache")).unwrap();
    assert_eq!(generation(&cache, &whole).await, Some(1));
    let another = tenant("acme").scope(id(3));
    world.tenants(&another, 1).await;
    assert_eq!(generation(&cache, &another).await, Some(1));
    assert_eq!(world.files().len(), 1);
}

/// Proves: late-symbols
#[tokio::test]
async fn a_file_of_the_last_run_is_compared_where_events_were_missed_since() {
    let world = World::new();
    let (changed, same) = (tenant("acme").scope(id(1)), tenant("acme").scope(id(2)));
    let cache = world.open(1 << 30);
    for ours in [&changed, &same] {
        world.tenants(ours, 1).await;
        assert_eq!(generation(&cache, ours).await, Some(1));
    }
    drop(cache);
    world.tenants(&changed, 2).await;
    let calls = || (world.memory.call_count(Operation::Head), world.memory.call_count(Operation::Get));
    let (heads, gets) = calls();
    let cache = world.open(1 << 30);
    cache.missed_events();
    for (ours, newest) in [(&changed, 2), (&same, 1), (&changed, 2), (&same, 1)] {
        assert_eq!(generation(&cache, ours).await, Some(newest));
    }
    assert_eq!(calls(), (heads + 2, gets + 1), "each is compared once, and one is fetched");
}

#[tokio::test]
async fn a_caller_that_gives_up_leaves_the_download_running() {
    let world = World::new();
    let cache = world.open(1 << 30);
    let ours = tenant("acme").scope(id(1));
    world.tenants(&ours, 1).await;
    let hold = world.memory.hold(Operation::Get, "symcache");
    let soft =
        tokio::time::timeout(Duration::from_millis(20), cache.get(&ours, false, Hint::default())).await;
    assert!(soft.is_err());
    drop(hold);
    while cache.peek(&ours, false, Hint::default()).is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.memory.call_count(Operation::Get), 1);
}

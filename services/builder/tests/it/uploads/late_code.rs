//! Code of a binary that comes after the dSYM, which stays the answer.
//! Proves: late-symbols

use super::read;
use crate::builder_fixture::{World, acme};
use crate::feature::CODE;
use std::sync::Arc;
use unslide_artifacts::{AliasMeta, CacheSettings, DerivedContents, Hint, SymcacheCache, keys};
use unslide_model::{DebugId, Owner, Scoped};
use unslide_store::jobs::{self, Work};
use unslide_store::objects::{ObjectRow, ObjectStatus};
use unslide_testkit::fixtures::{binary, dsym};

/// A binary of the app, with this code at its end.
fn app_with(end: &str) -> Vec<u8> {
    [read(binary("app")), end.as_bytes().to_vec()].concat()
}

/// Checks that the dSYM answers with this generation, and that the binary's code lies beside it.
async fn assert_code(world: &World, dsym: &ObjectRow, code: &ObjectRow, generation: u64) {
    let id = acme().scope(dsym.debug_id.unwrap());
    let symcache = dsym.symcache().unwrap();
    let answer =
        AliasMeta { generation, quality: dsym.quality, sha256: symcache.sha256, object: dsym.content_hash };
    assert_eq!(world.alias(&id).await, Some(answer));
    let slot = world.slot(&id.id).await.unwrap();
    assert_eq!((slot.generation, slot.content_hash), (generation, Some(dsym.content_hash)));
    let stored = world.objects.head(&keys::for_symbols(&id).derived(CODE.name)).await.unwrap().unwrap();
    assert_eq!(AliasMeta::from_metadata(&stored.metadata).unwrap().object, code.content_hash);
}

async fn has_code(cache: &SymcacheCache, id: &Scoped<DebugId>, hint: Hint, code: &[u8]) -> bool {
    let found = cache.get_derived(id, CODE.name, hint).await.unwrap();
    matches!(found, DerivedContents::Found(bytes) if bytes == code)
}

#[tokio::test(flavor = "multi_thread")]
async fn new_code_gives_the_answer_the_next_generation_and_known_code_does_not() {
    let world = World::start(1).await;
    let mut events = world.symbol_events();
    let (answer, _) = world.one("app", &read(dsym("app"))).await;
    assert_eq!(events.event().await.generation, 1);
    let id = acme().scope(answer.debug_id.unwrap());
    let settings = CacheSettings::new(world.folder().join("cache"), 1 << 30);
    let cache = SymcacheCache::open(settings, world.objects.clone(), Arc::clone(&world.host.clock)).unwrap();
    let find_absence =
        |hint| matches!(cache.peek_derived(&id, CODE.name, hint), Some(DerivedContents::Missing));
    assert!(!has_code(&cache, &id, Hint { tenant: Some(1), system: None }, b"").await);
    assert!(find_absence(Hint { tenant: Some(1), system: None }), "the absence is cached");

    let first = app_with("code-a");
    let (code, _) = world.one("app", &first).await;
    assert_eq!((code.debug_id, events.event().await.generation), (answer.debug_id, 2));
    assert_code(&world, &answer, &code, 2).await;
    // A request that knows of the generation does not take the cached absence.
    let woken = Hint { tenant: Some(2), system: None };
    assert!(find_absence(Hint::default()) && !find_absence(woken));
    assert!(has_code(&cache, &id, woken, b"code-a").await);
    assert_eq!(cache.get(&id, false, woken).await.unwrap().generation(), Some(2));

    // The same file, and another one with the same code, as after another signature.
    assert!(world.one("app", &first).await.1);
    assert!(!world.one("app", &app_with("signed, code-a")).await.1);
    assert!(world.is_quiet(&mut events).await);
    let (newer, _) = world.one("app", &app_with("code-b")).await;
    assert_eq!(events.event().await.generation, 3);
    cache.forget_outdated(&id, 3);
    assert!(has_code(&cache, &id, Hint::default(), b"code-b").await);

    // All are built again, in any order: the newest code stays, and nothing is announced.
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    jobs::add_job(&mut tx, &Work::Backfill { version: 1, all: true, after: None }).await.unwrap();
    tx.commit().await.unwrap();
    assert!(world.is_quiet(&mut events).await);
    assert_code(&world, &answer, &newer, 3).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_version_of_the_answer_gets_the_generation_of_new_code() {
    let mut world = World::start(0).await;
    world.config.builder.symcache_versions = vec![2, 1];
    world.builder();
    let (answer, _) = world.one("app", &read(dsym("app"))).await;
    let id = acme().scope(answer.debug_id.unwrap());
    let generations = async || {
        let mut found = Vec::new();
        for version in [1, 2] {
            let key = keys::for_symbols(&id).alias(version);
            let head = world.objects.head(&key).await.unwrap().unwrap();
            found.push(AliasMeta::from_metadata(&head.metadata).unwrap().generation);
        }
        found
    };
    assert_eq!(generations().await, [1, 1]);
    world.one("app", &app_with("code-a")).await;
    assert_eq!(generations().await, [2, 2]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_code_is_kept_of_the_systems_libraries() {
    let world = World::start(1).await;
    let upload = world.receive_upload(&Owner::System, "app", &app_with("code-a")).await;
    let (_, objects) = world.wait_for_upload(&Owner::System, upload).await;
    assert_eq!(objects[0].object.status, ObjectStatus::Ready);
    let id = Owner::System.own(objects[0].object.debug_id.unwrap());
    assert!(world.objects.head(&keys::for_symbols(&id).derived(CODE.name)).await.unwrap().is_none());
    world.stop().await;
}

//! Two versions of the symcache's format at the same time. There is one so far: the bytes under the
//! second version's keys are those of the first.

use crate::builder_fixture::{World, acme};
use crate::feature::LENGTH;
use unslide_artifacts::{AliasMeta, Put, keys};
use unslide_model::{DebugId, Scoped};
use unslide_store::jobs::{self, Work};
use unslide_store::{objects, symbols};
use unslide_testkit::fixtures::{binary, dsym};

async fn alias(world: &World, id: &Scoped<DebugId>, version: u32) -> Option<AliasMeta> {
    let head = world.objects.head(&keys::for_symbols(id).alias(version)).await.unwrap()?;
    Some(AliasMeta::from_metadata(&head.metadata).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_builder_writes_every_version_that_it_is_told_to() {
    let mut world = World::start(0).await;
    world.config.builder.symcache_versions = vec![1, 2];
    let mut events = world.symbol_events();
    world.builder();
    let (names, _) = world.one("app-symtab", &std::fs::read(binary("app-symtab")).unwrap()).await;
    let (full, _) = world.one("app", &std::fs::read(dsym("app")).unwrap()).await;
    let id = acme().scope(full.debug_id.unwrap());
    assert_eq!(names.debug_id, full.debug_id);
    assert_eq!(full.symcache().unwrap().version, 2, "the record names the newest");
    for version in [1, 2] {
        let meta = alias(&world, &id, version).await.unwrap();
        assert_eq!((meta.generation, meta.object), (2, full.content_hash), "version {version}");
        let immutable = keys::for_symbols(&id).symcache(version, &meta.sha256);
        assert!(world.objects.head(&immutable).await.unwrap().is_some(), "version {version}");
    }
    for generation in 1..=2 {
        let event = events.event().await;
        assert_eq!((event.generation, event.symcache_version), (generation, 2));
    }
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    symbols::delete_symbols(&mut tx, &id.id).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    world.wait_until_idle().await;
    let left = world.objects.list(&keys::for_symbols(&id).prefix(), None, 10).await.unwrap().entries;
    assert_eq!(left, []);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_brings_every_object_to_the_new_version_and_wakes_nobody() {
    let mut world = World::start(1).await;
    let mut events = world.symbol_events();
    let files = [binary("app-symtab"), dsym("app"), dsym("watch")].map(|path| std::fs::read(path).unwrap());
    let mut built = Vec::new();
    for file in &files {
        built.push(world.one("app", file).await.0);
        events.event().await;
    }
    world.wait_until_idle().await;
    world.stop_builders().await;
    // What nobody can build any more is skipped.
    let gone = built.pop().unwrap();
    world.objects.delete(&keys::for_object(acme().scope(gone.content_hash))).await.unwrap();
    // One alias of the new version is there and behind the old one, as a builder of an earlier
    // release leaves it that does not know the new version.
    let id = acme().scope(built[1].debug_id.unwrap());
    let behind = AliasMeta { generation: 1, ..alias(&world, &id, 1).await.unwrap() };
    let put = Put { metadata: behind.to_metadata(), ..Put::default() };
    world.objects.put(&keys::for_symbols(&id).alias(2), "old bytes".into(), &put).await.unwrap();

    world.config.builder.symcache_versions = vec![2, 1];
    world.config.builder.backfill_objects = 1;
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    assert_eq!(objects::to_rebuild(&mut tx, 2, false, None, 10).await.unwrap().len(), 3);
    assert!(objects::to_rebuild(&mut tx, 1, false, None, 10).await.unwrap().is_empty());
    jobs::add_job(&mut tx, &Work::Backfill { version: 2, all: false, after: None }).await.unwrap();
    assert!(jobs::backfill_is_waiting(&mut tx, false).await.unwrap());
    tx.commit().await.unwrap();
    world.builder();
    world.wait_until_idle().await;
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    assert!(!jobs::backfill_is_waiting(&mut tx, false).await.unwrap());
    let left = objects::to_rebuild(&mut tx, 2, false, None, 10).await.unwrap();
    assert_eq!(left.iter().map(|object| object.content_hash).collect::<Vec<_>>(), [gone.content_hash]);
    tx.rollback().await.unwrap();
    let (old, new) = (alias(&world, &id, 1).await.unwrap(), alias(&world, &id, 2).await.unwrap());
    assert_eq!((old, old.object), (new, built[1].content_hash), "the same symbols under both");
    let stored = world.objects.get(&keys::for_symbols(&id).alias(2), 1 << 30).await.unwrap().unwrap();
    assert!(stored.bytes.len() > 1_000, "the bytes are the symcache's");
    assert_eq!(world.slot(&id.id).await.unwrap().generation, old.generation);
    assert!(world.is_quiet(&mut events).await, "nothing got better");
    world.stop().await;
}

/// What an earlier release built lacks what this one reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_of_all_builds_symcaches_of_the_same_version_anew_and_publishes_what_changed() {
    let mut world = World::start(1).await;
    let (same, _) = world.one("app-symtab", &std::fs::read(binary("app-symtab")).unwrap()).await;
    let (changed, _) = world.one("watch", &std::fs::read(dsym("watch")).unwrap()).await;
    let (tool, _) = world.one("tool", &std::fs::read(dsym("tool-x86_64")).unwrap()).await;
    // The version of a derived object is part of its name, so one of an earlier release has another key.
    let derived = keys::for_symbols(acme().scope(tool.debug_id.unwrap())).derived(LENGTH.name);
    world.objects.delete(&derived).await.unwrap();
    world.wait_until_idle().await;
    let ids = [same, changed].map(|object| acme().scope(object.debug_id.unwrap()));
    let built = [alias(&world, &ids[0], 1).await.unwrap(), alias(&world, &ids[1], 1).await.unwrap()];
    let old = AliasMeta { sha256: unslide_model::ContentHash([1; 32]), ..built[1] };
    let put = Put { metadata: old.to_metadata(), ..Put::default() };
    world.objects.put(&keys::for_symbols(&ids[1]).alias(1), "old bytes".into(), &put).await.unwrap();
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    assert_eq!(objects::to_rebuild(&mut tx, 1, true, None, 10).await.unwrap().len(), 3);
    jobs::add_job(&mut tx, &Work::Backfill { version: 1, all: true, after: None }).await.unwrap();
    tx.commit().await.unwrap();
    world.wait_until_idle().await;
    assert_eq!(alias(&world, &ids[0], 1).await.unwrap(), built[0], "the same bytes are no news");
    assert!(world.objects.head(&derived).await.unwrap().is_some(), "its symcache is the same");
    let now = alias(&world, &ids[1], 1).await.unwrap();
    assert_eq!((now.sha256, now.generation), (built[1].sha256, old.generation + 1));
    assert_eq!(world.slot(&ids[1].id).await.unwrap().generation, now.generation);
    world.stop_builders().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_no_builder_writes_is_not_filled_in_for_ever() {
    let mut world = World::start(1).await;
    world.one("app", &std::fs::read(dsym("app")).unwrap()).await;
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    jobs::add_job(&mut tx, &Work::Backfill { version: 2, all: false, after: None }).await.unwrap();
    tx.commit().await.unwrap();
    world.wait_until_idle().await;
    use sqlx::Row;
    let mut connection = world.connect().await;
    let failed = sqlx::query("SELECT last_error FROM jobs WHERE kind = 'backfill' AND status = 'failed'")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert!(failed.get::<String, _>(0).starts_with("version_not_written"));
    sqlx::Connection::close(connection).await.unwrap();
    world.stop_builders().await;
    world.stop().await;
}

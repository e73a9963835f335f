//! Builders that are killed between two of the steps that publish symbols. Each is held at its step
//! by a lock of the database, killed there, and followed by another one.
//! Proves: uploads

use crate::builder_fixture::{BUILDER_TIMEOUT, Topic, World, acme};
use crate::feature::{CODE, LENGTH};
use sqlx::PgConnection;
use std::collections::BTreeSet;
use std::time::Duration;
use unslide_artifacts::keys::ObjectKey;
use unslide_artifacts::{AliasMeta, ETag, Put, keys};
use unslide_model::{DebugId, Scoped};
use unslide_store::jobs::{self, JobKind};
use unslide_store::outbox::Relay;
use unslide_store::{UploadId, symbols, uploads};
use unslide_symbolicate::object::list_objects;
use unslide_symbolicate::symcache::SYMCACHE_VERSION;
use unslide_testkit::fixtures::{binary, dsym};

fn app() -> (Vec<u8>, Scoped<DebugId>) {
    let file = std::fs::read(dsym("app")).unwrap();
    let id = list_objects(&file).unwrap()[0].object.clone().unwrap().debug_id.unwrap();
    (file, acme().scope(id))
}

/// Holds every builder between the immutable symcaches and the aliases of a debug id.
async fn before_the_alias(lock: &mut PgConnection, id: &DebugId) {
    sqlx::query("SELECT pg_advisory_lock(hashtextextended($1, 0))")
        .bind(format!("symbols {}/{id}", acme()))
        .execute(lock)
        .await
        .unwrap();
}

/// Holds every builder between the aliases and the database's commit.
async fn before_the_slot(lock: &mut PgConnection, id: &DebugId) {
    sqlx::query("BEGIN").execute(&mut *lock).await.unwrap();
    let hold = "INSERT INTO symbol_slots (tenant, debug_id, updated_at) VALUES ($1, $2, now())
                ON CONFLICT (tenant, debug_id) DO UPDATE SET updated_at = now()";
    sqlx::query(hold).bind(acme().as_str()).bind(id.uuid()).execute(lock).await.unwrap();
}

async fn let_go(lock: PgConnection) {
    use sqlx::Connection;
    lock.close().await.unwrap();
}

async fn etag(world: &World, id: &Scoped<DebugId>) -> Option<ETag> {
    world.objects.head(&keys::for_symbols(id).alias(SYMCACHE_VERSION)).await.unwrap().map(|head| head.etag)
}

/// Waits until a builder has stored an immutable symcache under the debug id.
async fn symcache_stored(world: &World, id: &Scoped<DebugId>) {
    let prefix = keys::for_symbols(id).prefix();
    until(async || {
        let page = world.objects.list(&prefix, None, 100).await.unwrap();
        page.entries.iter().any(|entry| entry.key.as_str().contains("/symcache-v1-"))
    })
    .await;
}

/// Waits until a builder has stored the alias, and what it says of itself.
async fn alias_stored(world: &World, id: &Scoped<DebugId>) {
    let alias = keys::for_symbols(id).alias(SYMCACHE_VERSION);
    until(async || {
        let head = world.objects.head(&alias).await.unwrap();
        head.is_some_and(|head| AliasMeta::from_metadata(&head.metadata).is_some())
    })
    .await;
}

async fn until(reached: impl AsyncFn() -> bool) {
    let look = async {
        while !reached().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(BUILDER_TIMEOUT, look).await.expect("the builder comes to its step");
}

/// Builders with jobs that are soon taken over.
async fn mortal() -> World {
    let mut world = World::start(0).await;
    world.config.builder.lease_seconds = 3;
    world
}

/// Has a builder write the alias, and die before the database knows of it.
async fn leave_an_alias(world: &mut World, id: &Scoped<DebugId>) {
    let mut lock = world.connect().await;
    before_the_slot(&mut lock, &id.id).await;
    world.builder();
    alias_stored(world, id).await;
    world.kill_builders().await;
    let_go(lock).await;
}

/// The upload is done, and says, stores and announces generation 1, once.
async fn is_whole(world: &World, id: &Scoped<DebugId>, upload: UploadId, events: &mut Topic) {
    let (record, objects) = world.wait(upload).await;
    assert_eq!(record.status, uploads::UploadStatus::Done, "{record:?}");
    let (alias, slot) = (world.alias(id).await.unwrap(), world.slot(&id.id).await.unwrap());
    assert_eq!((alias.generation, alias.object), (1, objects[0].object.content_hash));
    assert_eq!((slot.generation, slot.content_hash), (1, Some(alias.object)));
    let event = events.event().await;
    assert_eq!((event.generation, event.deleted), (1, false));
    assert!(world.is_quiet(events).await);
}

/// The bucket has what the one object's row refers to and no more; and once its symbols are deleted, nothing.
async fn nothing_is_left(world: &World, id: &Scoped<DebugId>) {
    world.files_gone().await;
    let stored = async || -> BTreeSet<ObjectKey> {
        let page = world.objects.list(&keys::tenant_prefix(&acme()), None, 1_000).await.unwrap();
        page.entries.into_iter().map(|entry| entry.key).collect()
    };
    let (alias, under) = (world.alias(id).await.unwrap(), keys::for_symbols(id));
    let immutable = under.symcache(SYMCACHE_VERSION, &alias.sha256);
    let object = keys::for_object(acme().scope(alias.object));
    let (alias, derived) = (under.alias(SYMCACHE_VERSION), under.derived(LENGTH.name));
    assert_eq!(stored().await, [object, immutable, alias, under.debuginfo(), derived].into());
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    symbols::delete_symbols(&mut tx, &id.id).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    world.wait_until_idle().await;
    assert_eq!(stored().await, BTreeSet::new());
}

/// Between which steps a builder is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Killed {
    BeforeTheAlias,
    AfterTheAlias,
    AfterTheCommit,
}

/// What keeps builders from the next step.
enum Held {
    Lock(PgConnection),
    /// Somebody else has the outbox, and dies without having sent anything.
    Outbox(Relay),
}

/// A builder is held between two steps and killed there. The next one goes on: it sends the missing messages,
/// and writes nothing again.
async fn the_next_builder_goes_on(killed: Killed) {
    let mut world = mortal().await;
    let mut events = world.symbol_events();
    let (file, id) = app();
    let upload = world.upload("app", &file).await;
    let mut lock = world.connect().await;
    let held = match killed {
        Killed::BeforeTheAlias => {
            before_the_alias(&mut lock, &id.id).await;
            Held::Lock(lock)
        }
        Killed::AfterTheAlias => {
            before_the_slot(&mut lock, &id.id).await;
            Held::Lock(lock)
        }
        Killed::AfterTheCommit => {
            Held::Outbox(Relay::acquire(&world.store).await.unwrap().expect("nobody relays"))
        }
    };
    world.builder();
    match killed {
        Killed::BeforeTheAlias => symcache_stored(&world, &id).await,
        Killed::AfterTheAlias => alias_stored(&world, &id).await,
        Killed::AfterTheCommit => {
            world.wait(upload).await;
            // The builder removes the file after its commit; what it leaves behind is another test's subject.
            world.files_gone().await;
        }
    }
    world.kill_builders().await;
    let alias = etag(&world, &id).await;
    assert_eq!(alias.is_some(), killed != Killed::BeforeTheAlias);
    assert_eq!(world.slot(&id.id).await.is_some(), killed == Killed::AfterTheCommit);
    assert!(killed != Killed::AfterTheCommit || events.is_empty().await);
    match held {
        Held::Lock(lock) => let_go(lock).await,
        Held::Outbox(relay) => drop(relay),
    }
    world.builder();
    is_whole(&world, &id, upload, &mut events).await;
    if alias.is_some() {
        assert_eq!(etag(&world, &id).await, alias, "written once");
    }
    nothing_is_left(&world, &id).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_alias_the_next_builder_begins_with_it() {
    the_next_builder_goes_on(Killed::BeforeTheAlias).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_alias_the_next_builder_commits_what_it_says() {
    the_next_builder_goes_on(Killed::AfterTheAlias).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_commit_the_event_still_comes() {
    the_next_builder_goes_on(Killed::AfterTheCommit).await;
}

/// The heartbeats of a job find no lease any more once it is committed. What is left to do goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_tidies_up_after_its_commit_for_longer_than_a_heartbeat() {
    let mut world = mortal().await;
    let slow = "CREATE FUNCTION be_slow() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN PERFORM pg_sleep(5); RETURN NEW; END $$;
                CREATE TRIGGER slow BEFORE UPDATE OF file_gone_at ON uploads FOR EACH ROW EXECUTE FUNCTION be_slow()";
    sqlx::raw_sql(slow).execute(&mut world.connect().await).await.unwrap();
    world.builder();
    world.one("app", &app().0).await;
    world.files_gone().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alias_that_its_builder_did_not_announce_is_announced_by_the_next_one() {
    let mut world = mortal().await;
    let mut events = world.symbol_events();
    let (file, id) = app();
    let better = world.upload("app", &file).await;
    leave_an_alias(&mut world, &id).await;
    // Its job is with a builder that does not come to an end either; another upload offers less.
    let lease = time::Duration::hours(1);
    let taken = loop {
        let taken = jobs::lease_jobs(&world.store, &[JobKind::Build], "stuck", lease, 1).await.unwrap();
        if !taken.is_empty() {
            break taken;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let worse = world.upload("app-symtab", &std::fs::read(binary("app-symtab")).unwrap()).await;
    world.builder();
    assert_eq!(world.wait(worse).await.0.status, uploads::UploadStatus::Done);
    let (alias, slot) = (world.alias(&id).await.unwrap(), world.slot(&id.id).await.unwrap());
    assert_eq!((slot.generation, slot.content_hash), (1, Some(alias.object)));
    assert_eq!(events.event().await.generation, 1);
    // The first job's next attempt finds everything done.
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    jobs::fail_job(&mut tx, &taken[0], "stuck", false).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.wait(better).await.0.status, uploads::UploadStatus::Done);
    assert!(world.is_quiet(&mut events).await);
    assert_eq!(world.slot(&id.id).await.unwrap().generation, 1);
    world.stop().await;
}

/// Between which steps a builder is killed that announces the code of a binary beside a dSYM.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KilledWithCode {
    AfterTheCode,
    AfterTheAlias,
}

/// The next builder announces the code once. It writes nothing again that is there.
async fn the_next_builder_announces_the_code(killed: KilledWithCode) {
    let mut world = mortal().await;
    let mut events = world.symbol_events();
    let (file, id) = app();
    world.builder();
    let (answer, _) = world.one("app", &file).await;
    assert_eq!(events.event().await.generation, 1);
    world.wait_until_idle().await;
    world.stop_builders().await;
    let before = world.alias(&id).await.unwrap();
    let program = [std::fs::read(binary("app")).unwrap(), b"code-a".to_vec()].concat();
    let upload = world.upload("app", &program).await;
    let mut lock = world.connect().await;
    before_the_slot(&mut lock, &id.id).await;
    world.builder();
    let rewritten = async {
        while world.alias(&id).await.unwrap().generation < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(BUILDER_TIMEOUT, rewritten).await.expect("the builder comes to its step");
    world.kill_builders().await;
    let_go(lock).await;
    assert_eq!(world.slot(&id.id).await.unwrap().generation, 1);
    let alias = keys::for_symbols(&id).alias(SYMCACHE_VERSION);
    if killed == KilledWithCode::AfterTheCode {
        // As it was before the last step.
        let symcache = world.objects.get(&alias, 1 << 30).await.unwrap().unwrap();
        let put = Put { metadata: before.to_metadata(), ..Put::default() };
        world.objects.put(&alias, symcache.bytes, &put).await.unwrap();
    }
    let code = keys::for_symbols(&id).derived(CODE.name);
    let objects = world.objects.clone();
    let stored = async |key| objects.head(key).await.unwrap().unwrap();
    let (seen_alias, seen_code) = (stored(&alias).await, stored(&code).await);
    world.builder();
    let (record, _) = world.wait(upload).await;
    assert_eq!(record.status, uploads::UploadStatus::Done, "{record:?}");
    assert_eq!(events.event().await.generation, 2);
    assert!(world.is_quiet(&mut events).await);
    let slot = world.slot(&id.id).await.unwrap();
    assert_eq!((slot.generation, slot.content_hash), (2, Some(answer.content_hash)));
    assert_eq!(world.alias(&id).await, Some(AliasMeta { generation: 2, ..before }));
    assert_eq!(stored(&code).await, seen_code, "written once");
    if killed == KilledWithCode::AfterTheAlias {
        assert_eq!(stored(&alias).await, seen_alias, "written once");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_code_the_next_builder_writes_the_alias_again() {
    the_next_builder_announces_the_code(KilledWithCode::AfterTheCode).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_alias_of_new_code_the_next_builder_announces_it() {
    the_next_builder_announces_the_code(KilledWithCode::AfterTheAlias).await;
}

/// What a store that died itself may leave: the bytes, and nothing of what they are.
#[tokio::test(flavor = "multi_thread")]
async fn an_alias_that_does_not_say_what_it_is_is_replaced() {
    let mut world = mortal().await;
    let mut events = world.symbol_events();
    let (file, id) = app();
    let half = Put::default();
    world.objects.put(&keys::for_symbols(&id).alias(SYMCACHE_VERSION), "half".into(), &half).await.unwrap();
    let upload = world.upload("app", &file).await;
    world.builder();
    is_whole(&world, &id, upload, &mut events).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alias_whose_number_a_deletion_took_gets_the_next_one() {
    let mut world = mortal().await;
    let mut events = world.symbol_events();
    let (file, id) = app();
    let upload = world.upload("app", &file).await;
    leave_an_alias(&mut world, &id).await;
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let deleted = symbols::delete_symbols(&mut tx, &id.id).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.alias(&id).await.unwrap().generation, deleted.generation);
    // Whoever is to purge it comes late: the file is found in its upload once more before that.
    let lease = time::Duration::hours(1);
    let purge = jobs::lease_jobs(&world.store, &[JobKind::Purge], "late", lease, 1).await.unwrap();
    world.builder();
    let (record, objects) = world.wait(upload).await;
    assert_eq!(record.status, uploads::UploadStatus::Done, "{record:?}");
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    jobs::fail_job(&mut tx, &purge[0], "late", false).await.unwrap();
    tx.commit().await.unwrap();
    world.wait_until_idle().await;
    let (alias, slot) = (world.alias(&id).await.unwrap(), world.slot(&id.id).await.unwrap());
    assert_eq!((alias.generation, alias.object), (2, objects[0].object.content_hash));
    assert_eq!((slot.generation, slot.content_hash), (2, Some(alias.object)));
    for told in [(1, true), (2, false)] {
        let event = events.event().await;
        assert_eq!((event.generation, event.deleted), told);
    }
    assert!(world.is_quiet(&mut events).await);
    world.stop().await;
}

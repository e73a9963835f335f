//! Builders that die, and servers that go away.

use crate::world::{World, acme};
use std::time::Duration;
use unslide_store::jobs::{self, Kind};
use unslide_store::uploads;
use unslide_testkit::fixtures::dsym;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_dead_builder_is_taken_over() {
    let mut world = World::start(0).await;
    let id = world.upload("app", &std::fs::read(dsym("app")).unwrap()).await;
    // A builder that takes the job and is never heard of again.
    let lease = time::Duration::milliseconds(500);
    let taken = jobs::lease(&world.store, &[Kind::Build], "dead", lease, 1).await.unwrap();
    assert_eq!(taken.len(), 1);
    world.builder();
    let (record, _) = world.wait(id).await;
    assert_eq!(record.status, uploads::Status::Done);
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let late = jobs::complete(&mut tx, &taken[0]).await;
    assert!(matches!(late, Err(unslide_store::StoreError::LeaseLost(_))), "the dead one has no say any more");
    drop(tx);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_builders_all_die_ends_with_a_reason() {
    let mut world = World::start(0).await;
    let id = world.upload("app", &std::fs::read(dsym("app")).unwrap()).await;
    for _ in 0..jobs::MAX_ATTEMPTS {
        let lease = time::Duration::milliseconds(1);
        let taken = jobs::lease(&world.store, &[Kind::Build], "dead", lease, 1).await.unwrap();
        assert_eq!(taken.len(), 1);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.builder();
    let (record, _) = world.wait(id).await;
    assert_eq!((record.status, record.reason.as_deref()), (uploads::Status::Failed, Some("kills_builder")));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_object_storage_to_come_back() {
    let mut world = World::start(0).await;
    let id = world.upload("app", &std::fs::read(dsym("app")).unwrap()).await;
    world.storage(false).await;
    world.builder();
    let early = uploads::wait(&world.store, &acme(), id, Duration::from_secs(4)).await.unwrap().unwrap();
    assert_eq!(early.0.status, uploads::Status::Building);
    world.storage(true).await;
    let (record, objects) = world.wait(id).await;
    assert_eq!((record.status, objects.len()), (uploads::Status::Done, 1));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_at_once_are_bounded() {
    let mut world = World::start(0).await;
    let app = std::fs::read(dsym("app")).unwrap();
    let mut uploads = Vec::new();
    for name in ["a", "b", "c", "d"] {
        uploads.push(world.upload(name, &app).await);
    }
    // Every build waits for object storage.
    world.storage(false).await;
    world.config.builder.uploads = 2;
    world.builder();
    let jobs = async |status: &str| {
        let counts = jobs::counts(&world.store).await.unwrap();
        counts.iter().find(|count| count.status == status).map_or(0, |count| count.jobs)
    };
    while jobs("running").await < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((jobs("running").await, jobs("queued").await), (2, 2));
    assert_eq!(world.running("build"), 2, "the metric says so");
    world.storage(true).await;
    for upload in uploads {
        assert_eq!(world.wait(upload).await.0.status, uploads::Status::Done);
    }
    world.stop().await;
}

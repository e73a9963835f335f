//! Tenants share the places of a builder: beside a flood a neighbour's upload or job of a feature is done at once, and
//! nothing of the flood is restarted or lost.

use crate::builder_fixture::{BUILDER_TIMEOUT, World, acme};
use crate::child::{hold, release, waiting};
use crate::feature;
use std::time::Duration;
use unslide_model::{Owner, TenantId};
use unslide_store::uploads::UploadStatus;
use unslide_testkit::fixtures::dsym;

/// A flood has all places, and its children wait for as long as this is held.
const FLOOD: [&str; 2] = ["slow-a", "slow-b"];
const QUICK: &str = "quick";

fn umbrella() -> TenantId {
    TenantId::new("umbrella").unwrap()
}

/// Servers, two tenants, and no builder.
async fn start() -> World {
    let mut world = World::start(0).await;
    world.make_tenant(&umbrella()).await;
    world.config.builder.uploads = 2;
    world.config.builder.lease_seconds = 15;
    world
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(BUILDER_TIMEOUT, reached).await.is_ok(), "{what}");
}

/// Waits until these children wait, and returns their process ids.
async fn children(world: &World, held: &[&str]) -> Vec<i32> {
    let find = || held.iter().filter_map(|line| waiting(world, line).pop()).collect::<Vec<_>>();
    until(&format!("{held:?} wait"), async || find().len() == held.len()).await;
    find()
}

/// The letter of a process's state; `None` once it is gone.
fn state(process: i32) -> Option<char> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("State:"))?;
    line.trim().chars().next().filter(|state| !['Z', 'X'].contains(state))
}

fn stopped(processes: &[i32]) -> Vec<i32> {
    processes.iter().copied().filter(|process| state(*process) == Some('T')).collect()
}

async fn jobs(world: &World, condition: &str) -> i64 {
    world.number(&format!("SELECT count(*) FROM jobs WHERE kind IN ('build', 'count') AND {condition}")).await
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn a_neighbours_upload_is_built_while_a_flood_has_all_places() {
    let mut world = start().await;
    let [app, kit] = ["app", "kit"].map(|name| std::fs::read(dsym(name)).unwrap());
    hold(&world, &[&FLOOD[..], &[QUICK]].concat());
    let mut flood = Vec::new();
    for name in [FLOOD[0], FLOOD[1], "third"] {
        flood.push(world.upload(name, &app).await);
    }
    world.builder();
    let flooding = children(&world, &FLOOD).await;
    let owner = Owner::Tenant(umbrella());
    let quick = world.receive_upload(&owner, QUICK, &kit).await;
    children(&world, &[QUICK]).await;
    until("one child is stopped", async || stopped(&flooding).len() == 1).await;
    // The parent keeps the lease of a job with a stopped child.
    let leases =
        "SELECT (extract(epoch FROM min(lease_until)) * 1000)::bigint FROM jobs WHERE status = 'running'";
    let first = world.number(leases).await;
    until("leases are kept", async || world.number(leases).await > first).await;
    hold(&world, &FLOOD);
    assert_eq!(world.wait_for_upload(&owner, quick).await.0.status, UploadStatus::Done);
    until("the stopped child continues", async || stopped(&flooding).is_empty()).await;
    // The next one has its turn, too. The flood is where it was.
    let again = world.receive_upload(&owner, "again", &app).await;
    assert_eq!(world.wait_for_upload(&owner, again).await.0.status, UploadStatus::Done);
    assert_eq!(jobs(&world, "tenant = 'acme' AND status = 'running' AND attempts = 1").await, 2);
    assert_eq!(jobs(&world, "tenant = 'acme' AND status = 'queued' AND attempts = 0").await, 1);
    assert!(flooding.iter().all(|process| state(*process).is_some()));
    release(&world);
    for upload in flood {
        assert_eq!(world.wait(upload).await.0.status, UploadStatus::Done);
    }
    world.wait_until_idle().await;
    assert_eq!(jobs(&world, "attempts <> 1").await, 0, "nothing was restarted");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extra_job_takes_a_place_that_becomes_free_and_the_stopped_one_continues() {
    let mut world = start().await;
    let [app, kit] = ["app", "kit"].map(|name| std::fs::read(dsym(name)).unwrap());
    hold(&world, &[&FLOOD[..], &[QUICK]].concat());
    let flood = [world.upload(FLOOD[0], &app).await, world.upload(FLOOD[1], &kit).await];
    world.builder();
    let flooding = children(&world, &FLOOD).await;
    let owner = Owner::Tenant(umbrella());
    let quick = world.receive_upload(&owner, QUICK, &kit).await;
    until("one child is stopped", async || stopped(&flooding).len() == 1).await;
    let runs = usize::from(stopped(&flooding) == [flooding[0]]);
    hold(&world, &[FLOOD[1 - runs], QUICK]);
    assert_eq!(world.wait(flood[runs]).await.0.status, UploadStatus::Done);
    until("the stopped child continues", async || stopped(&flooding).is_empty()).await;
    assert_eq!(jobs(&world, "status = 'running'").await, 2, "the others are under way");
    release(&world);
    assert_eq!(world.wait(flood[1 - runs]).await.0.status, UploadStatus::Done);
    assert_eq!(world.wait_for_upload(&owner, quick).await.0.status, UploadStatus::Done);
    world.stop().await;
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn a_neighbours_job_of_a_feature_runs_beside_a_flood_and_a_dead_builder_leaves_no_stopped_child() {
    let mut world = start().await;
    hold(&world, &FLOOD);
    for _ in 0..3 {
        feature::add(&world, &umbrella(), FLOOD[0]).await;
    }
    world.builder();
    until("two jobs wait", async || waiting(&world, FLOOD[0]).len() == 2).await;
    let flooding = waiting(&world, FLOOD[0]);
    feature::add(&world, &acme(), "two words").await;
    until("it is done", async || jobs(&world, "tenant = 'acme' AND status = 'done'").await == 1).await;
    assert_eq!(jobs(&world, "tenant = 'umbrella' AND status = 'running' AND attempts = 1").await, 2);
    assert_eq!(jobs(&world, "tenant = 'umbrella' AND status = 'queued' AND attempts = 0").await, 1);

    hold(&world, &[&FLOOD[..], &[QUICK]].concat());
    feature::add(&world, &acme(), QUICK).await;
    until("one child is stopped", async || stopped(&flooding).len() == 1).await;
    world.kill_builders().await;
    until("all children end", async || flooding.iter().all(|process| state(*process).is_none())).await;
    release(&world);
    until("the folder is cleared", async || {
        std::fs::read_dir(&world.config.builder.work_dir).unwrap().next().is_none()
    })
    .await;
    world.stop().await;
}

//! Dying after each step, failing in the middle, and two at once.
//! Proves: replay

use super::world::{World, start, tenant};
use crate::segments::{MoveError, MoveStep};
use time::Duration;
use unslide_artifacts::keys::ObjectKey;
use unslide_artifacts::{Fault, Operation, Put};
use unslide_store::reports::ArrivalOutcome;
use unslide_store::segments::{self, ReportBody};

const OLD: Duration = Duration::hours(2);

async fn dies(world: &World, step: MoveStep) {
    let died = world.mover(Some(step)).run_round().await;
    assert!(matches!(died, Err(MoveError::Stopped(at)) if at == step), "{died:?}");
}

#[tokio::test]
async fn a_writer_may_die_after_each_step_of_a_move() {
    for step in [MoveStep::Intended, MoveStep::Put, MoveStep::Pointed, MoveStep::Live] {
        let mut world = World::new().await;
        world.fill(20).await;
        world.wait(OLD);
        dies(&world, step).await;
        world.all_is_well().await;
        // Before the intent is old nobody else writes this day; after that somebody does.
        world.rounds().await;
        world.all_is_well().await;
        let moved = if step == MoveStep::Live { 20 } else { 0 };
        assert_eq!(world.number("SELECT count(*) FROM report_frames").await, moved, "{step:?}");
        world.nothing_is_left().await;
        world.all_is_well().await;
        assert_eq!(world.number("SELECT count(*) FROM report_bodies").await, 0, "{step:?}");
        assert_eq!(world.frames("acme").await, 20, "nothing twice: {step:?}");
        world.end().await;
    }
}

#[tokio::test]
async fn a_segment_whose_reports_were_all_revised_goes_whenever_its_indexer_dies() {
    for step in [MoveStep::Intended, MoveStep::Put, MoveStep::Pointed, MoveStep::Live, MoveStep::Deleted] {
        let mut world = World::new().await;
        world.fill(20).await;
        world.wait(OLD);
        world.rounds().await;
        for n in 1..=20 {
            assert_eq!(world.store("acme", n, 2, start()).await, ArrivalOutcome::Revised);
        }
        world.wait(OLD);
        dies(&world, step).await;
        world.all_is_well().await;
        world.nothing_is_left().await;
        world.all_is_well().await;
        assert_eq!(world.frames("acme").await, 20, "nothing twice: {step:?}");
        assert_eq!(world.keys().await.len(), 1, "{step:?}");
        world.end().await;
    }
}

#[tokio::test]
async fn what_changes_while_a_segment_is_written_is_not_lost() {
    let mut world = World::new().await;
    world.fill(10).await;
    world.wait(OLD);
    let hold = world.memory.hold(Operation::Put, "segments");
    let mover = world.mover(None);
    let round = tokio::spawn(async move { mover.run_round().await.unwrap() });
    while world.memory.call_count(Operation::Put) == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // The object is there, the transaction is not: a revision, a deletion, and a new report.
    world.store("acme", 1, 2, start()).await;
    world.store("acme", 11, 1, start()).await;
    let mut tx = world.store.tenant(&tenant("acme")).await.unwrap();
    let id = unslide_model::ReportId([2; 16]);
    assert!(unslide_store::reports::delete_report(&mut tx, id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    world.bodies.remove(&(tenant("acme"), 2));
    drop(hold);
    round.await.unwrap();
    world.all_is_well().await;
    assert!(matches!(world.read(&tenant("acme"), 1).await.0, ReportBody::Inline(_)));
    assert!(matches!(world.read(&tenant("acme"), 3).await.0, ReportBody::Segment(_)));
    world.wait(Duration::days(2));
    world.nothing_is_left().await;
    world.all_is_well().await;
    assert_eq!(world.frames("acme").await, 10, "the deleted report has none");
    world.end().await;
}

#[tokio::test]
async fn failures_of_object_storage_cost_nothing_and_leave_nothing() {
    let mut world = World::new().await;
    world.fill(20).await;
    world.wait(OLD);
    for (operation, fault) in [(Operation::Put, Fault::Transient), (Operation::Put, Fault::Refused)] {
        world.memory.fail(operation, "segments", fault, None);
        assert!(matches!(world.mover(None).run_round().await, Err(MoveError::Objects(_))));
        world.all_is_well().await;
        world.memory.heal();
    }
    // What failed was given up at once: nobody waits for it to be old.
    world.rounds().await;
    assert_eq!(world.number("SELECT count(*) FROM report_bodies").await, 0);
    world.all_is_well().await;
    world.wait(OLD);
    world.memory.fail(Operation::Delete, "segments", Fault::Transient, None);
    // What was given up above is condemned too: whether that number of failures ends the round does not
    // matter here.
    drop(world.mover(None).run_round().await);
    assert!(segments::count_undeleted(&world.store).await.unwrap() > 0);
    world.memory.heal();
    world.nothing_is_left().await;
    world.all_is_well().await;
    world.end().await;
}

/// Proves: deletion
#[tokio::test]
async fn an_object_that_can_not_be_deleted_is_passed_over_and_tried_again_later() {
    let world = World::new().await;
    let condemn = async |of: &str, names: &[&str]| {
        let mut tx = world.store.tenant(&tenant(of)).await.unwrap();
        let all: Vec<String> = names.iter().map(|name| format!("t/{of}/segments/{name}")).collect();
        for key in &all {
            let key = ObjectKey::parse_for_tenant(&tenant(of), key).unwrap();
            world.objects.put(&key, "bytes".into(), &Put::default()).await.unwrap();
        }
        segments::condemn_objects(&mut tx, &all).await.unwrap();
        tx.commit().await.unwrap();
    };
    condemn("acme", &["a", "locked", "z"]).await;
    world.wait(Duration::SECOND);
    condemn("umbrella", &["b"]).await;
    world.wait(OLD);
    world.memory.fail(Operation::Delete, "locked", Fault::Refused, None);
    let mover = world.mover(None);
    mover.run_round().await.unwrap();
    assert_eq!(world.keys().await, ["t/acme/segments/locked".to_owned()].into(), "the others go");
    assert_eq!(segments::count_undeleted(&world.store).await.unwrap(), 1);
    // It rests, and is tried again.
    let tries = world.memory.call_count(Operation::Delete);
    mover.run_round().await.unwrap();
    assert_eq!(world.memory.call_count(Operation::Delete), tries);
    world.wait(Duration::HOUR);
    mover.run_round().await.unwrap();
    assert_eq!(world.memory.call_count(Operation::Delete), tries + 1);
    world.memory.heal();
    world.wait(Duration::HOUR);
    world.rounds().await;
    assert_eq!(world.keys().await, [].into());
    assert_eq!(segments::count_undeleted(&world.store).await.unwrap(), 0);
    // Where all fail, object storage is away: it is not asked for each.
    condemn("acme", &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]).await;
    world.wait(OLD);
    let tries = world.memory.call_count(Operation::Delete);
    world.memory.fail(Operation::Delete, "segments", Fault::Transient, None);
    assert!(matches!(mover.run_round().await, Err(MoveError::Objects(_))));
    assert_eq!(world.memory.call_count(Operation::Delete), tries + 5);
    world.memory.heal();
    world.nothing_is_left().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_indexers_at_once_move_each_body_once() {
    let mut world = World::new().await;
    world.settings.segment_bytes = 2 << 10;
    world.fill(40).await;
    for n in 1..=40 {
        world.store("umbrella", n, 1, start()).await;
    }
    world.wait(OLD);
    let both = [world.mover(None), world.mover(None), world.mover(None)];
    let running = both.map(|mover| {
        tokio::spawn(async move {
            for _ in 0..4 {
                while mover.run_round().await.unwrap() {}
            }
        })
    });
    for one in running {
        one.await.unwrap();
    }
    world.all_is_well().await;
    assert_eq!(world.number("SELECT count(*) FROM report_bodies").await, 0);
    world.nothing_is_left().await;
    world.all_is_well().await;
    for of in ["acme", "umbrella"] {
        assert_eq!(world.frames(of).await, 40, "{of}");
    }
    world.end().await;
}

//! When bodies move, when segments are written anew, and when they go.

use super::world::{World, start, tenant};
use sha2::{Digest, Sha256};
use time::Duration;
use unslide_artifacts::keys::Key;
use unslide_artifacts::{Operation, Put};
use unslide_model::ReportId;
use unslide_store::reports::{self, Outcome};
use unslide_store::segments::Body;
use unslide_store::tenants::{self, Limits, State};

const OLD: Duration = Duration::hours(2);

async fn moved(world: &World) -> i64 {
    world.rounds().await;
    world.number("SELECT count(*) FROM report_frames").await
}

#[tokio::test]
async fn bodies_move_when_they_are_old_many_or_large_and_only_where_that_is_switched_on() {
    let mut world = World::new().await;
    world.fill(3).await;
    assert_eq!(moved(&world).await, 0, "too young");
    world.wait(OLD);
    world.settings.segments = false;
    assert_eq!(moved(&world).await, 0, "switched off");
    world.settings.segments = true;
    assert_eq!(moved(&world).await, 3);
    // Each is young; together they fill a segment.
    world.settings.segment_bytes = 1 << 10;
    for n in 10..40 {
        world.store("acme", n, 1, start()).await;
    }
    assert_eq!(moved(&world).await, 33);
    // One that no message should carry.
    world.settings.segment_bytes = 1 << 20;
    world.settings.segment_large_bytes = 4 << 10;
    let noise: Vec<u8> = (0..300_u32).flat_map(|n| Sha256::digest(n.to_le_bytes())).collect();
    world.store_body("umbrella", 1, 1, start(), noise).await;
    world.store("acme", 50, 1, start()).await;
    assert_eq!(moved(&world).await, 34);
    assert!(matches!(world.read(&tenant("umbrella"), 1).await.0, Body::Segment(_)));
    assert!(matches!(world.read(&tenant("acme"), 50).await.0, Body::Inline(_)));
    world.all_is_well().await;
    world.end().await;
}

#[tokio::test]
async fn a_deleted_reports_bytes_leave_object_storage_in_time() {
    let mut world = World::new().await;
    world.fill(30).await;
    world.wait(OLD);
    world.rounds().await;
    let id = ReportId([7; 16]);
    let mut tx = world.store.tenant(&tenant("acme")).await.unwrap();
    assert!(reports::delete(&mut tx, id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    world.bodies.remove(&(tenant("acme"), 7));
    world.rounds().await;
    let there = async |world: &World| world.frames("acme").await.iter().any(|(_, f)| f.report_id == id);
    assert!(there(&world).await, "one dead frame of thirty is no reason to hurry");
    world.wait(Duration::seconds(world.settings.erase_seconds.try_into().unwrap()));
    world.rounds().await;
    world.wait(OLD);
    world.rounds().await;
    assert!(!there(&world).await);
    world.all_is_well().await;
    assert_eq!(world.frames("acme").await.len(), 29);
    // A copy of it is not taken for a new one.
    assert_eq!(world.store("acme", 7, 1, start()).await, Outcome::Deleted);
    world.end().await;
}

#[tokio::test]
async fn many_small_segments_become_one() {
    let mut world = World::new().await;
    for n in 1..=20 {
        world.store("acme", n, 1, start()).await;
        world.wait(OLD);
        world.rounds().await;
    }
    let segments = world.number("SELECT count(*) FROM segments").await;
    assert!(segments < 8, "{segments} segments of twenty");
    world.nothing_is_left().await;
    world.all_is_well().await;
    assert_eq!(world.frames("acme").await.len(), 20);
    world.end().await;
}

#[tokio::test]
async fn a_damaged_frame_costs_no_other_and_is_not_tried_all_the_time() {
    let mut world = World::new().await;
    world.fill(20).await;
    world.wait(OLD);
    world.rounds().await;
    let key = world.keys().await.into_iter().next().unwrap();
    let key = Key::of_tenant(&tenant("acme"), &key).unwrap();
    let (Body::Segment(place), _) = world.read(&tenant("acme"), 20).await else { panic!("not moved") };
    let mut bytes = world.objects.get(&key, u64::MAX).await.unwrap().unwrap().bytes.to_vec();
    let at = usize::try_from(place.offset).unwrap() + 100;
    bytes[at] ^= 1;
    world.objects.put(&key, bytes.into(), &Put::default()).await.unwrap();
    for n in 1..=15 {
        world.store("acme", n, 2, start()).await;
    }
    world.rounds().await;
    let old = world.bodies.remove(&(tenant("acme"), 20)).unwrap();
    assert_eq!(world.read(&tenant("acme"), 20).await, (Body::Segment(place), None), "never a wrong body");
    for n in 16..=19 {
        let (Body::Segment(now), body) = world.read(&tenant("acme"), n).await else { panic!("{n}") };
        assert_ne!(now.segment, place.segment, "{n}");
        assert_eq!(body.as_ref(), world.bodies.get(&(tenant("acme"), n)));
    }
    let before = world.memory.calls(Operation::Put);
    world.wait(Duration::MINUTE);
    world.rounds().await;
    assert_eq!(world.memory.calls(Operation::Put), before, "left alone for a while");
    // Another copy of the object mends it: nothing was thrown away.
    let mut bytes = world.objects.get(&key, u64::MAX).await.unwrap().unwrap().bytes.to_vec();
    bytes[at] ^= 1;
    world.objects.put(&key, bytes.into(), &Put::default()).await.unwrap();
    assert_eq!(world.read(&tenant("acme"), 20).await.1, Some(old.clone()));
    world.bodies.insert((tenant("acme"), 20), old);
    world.wait(Duration::days(2));
    world.nothing_is_left().await;
    world.all_is_well().await;
    world.end().await;
}

#[tokio::test]
async fn each_tenants_reports_go_with_everything_when_its_own_time_is_over() {
    let mut world = World::new().await;
    let days_ago = |days: i64| start() - Duration::days(days);
    for (of, n, days) in
        [("acme", 1, 9), ("acme", 2, 8), ("acme", 3, 3), ("umbrella", 1, 9), ("umbrella", 2, 3)]
    {
        world.store(of, n, 1, days_ago(days)).await;
    }
    world.wait(OLD);
    world.rounds().await;
    // One more body of an old day that has not moved.
    world.store("acme", 4, 1, days_ago(9)).await;
    let limits = Limits { retention_days: 7, ..Limits::default() };
    let mut tx = world.store.tenant(&tenant("acme")).await.unwrap();
    tenants::change(&mut tx, "Acme", State::Active, &limits).await.unwrap();
    tx.commit().await.unwrap();
    world.compactor(None).expire().await.unwrap();
    for n in [1, 2, 4] {
        world.bodies.remove(&(tenant("acme"), n));
    }
    world.all_is_well().await;
    world.nothing_is_left().await;
    world.all_is_well().await;
    assert_eq!((world.frames("acme").await.len(), world.frames("umbrella").await.len()), (1, 2));
    assert_eq!(world.number("SELECT count(*) FROM report_keys").await, 6, "all are remembered");
    // Once nobody keeps a day, its tables go.
    let tables = "SELECT count(*) FROM pg_class WHERE relname ~ '^report_frames_2026' AND relispartition AND relkind = 'r'";
    let before = world.number(tables).await;
    world.settings.keep_days = 5;
    world.compactor(None).expire().await.unwrap();
    assert_eq!(world.number(tables).await, before - 3, "the longest limit is seven days");
    world.bodies.remove(&(tenant("umbrella"), 1));
    world.nothing_is_left().await;
    world.all_is_well().await;
    world.end().await;
}

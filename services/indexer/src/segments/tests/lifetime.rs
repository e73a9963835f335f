//! When bodies move, and when segments go.

use super::world::{World, start, tenant};
use sha2::{Digest, Sha256};
use time::Duration;
use unslide_artifacts::keys;
use unslide_artifacts::segment::{self, BodyId, SegmentError};
use unslide_model::ReportId;
use unslide_store::reports::{self, ArrivalOutcome};
use unslide_store::segments::ReportBody;
use unslide_store::tenants::{self, QuotaLimits, TenantStanding};

const OLD: Duration = Duration::hours(2);

async fn moved(world: &World) -> i64 {
    world.rounds().await;
    world.number("SELECT count(*) FROM report_frames").await
}

#[tokio::test]
async fn bodies_move_when_they_are_old_many_or_large() {
    let mut world = World::new().await;
    world.fill(3).await;
    assert_eq!(moved(&world).await, 0, "too young");
    world.wait(OLD);
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
    assert!(matches!(world.read(&tenant("umbrella"), 1).await.0, ReportBody::Segment(_)));
    assert!(matches!(world.read(&tenant("acme"), 50).await.0, ReportBody::Inline(_)));
    world.all_is_well().await;
    world.end().await;
}

/// Proves: deletion
#[tokio::test]
async fn nothing_opens_a_deleted_reports_body_and_the_segment_goes_with_its_last_report() {
    let mut world = World::new().await;
    world.fill(2).await;
    world.wait(OLD);
    world.rounds().await;
    let (ReportBody::Segment(place), Some(body)) = world.read(&tenant("acme"), 1).await else {
        panic!("not moved")
    };
    let key = keys::for_segment(&tenant("acme"), place.day, place.segment);
    let frame =
        segment::fetch_frame(&world.objects, &key, place.offset, place.length).await.unwrap().unwrap();
    let id = BodyId { tenant: tenant("acme"), report_id: ReportId([1; 16]), variant: 0, revision: 1 };
    assert_eq!(
        segment::open_frame(&id, &place.key, frame.clone(), 1 << 20).unwrap(),
        body,
        "while the row is there"
    );
    let delete = async |world: &mut World, n: u8| {
        let mut tx = world.store.tenant(&tenant("acme")).await.unwrap();
        assert!(reports::delete_report(&mut tx, ReportId([n; 16]), 0, None).await.unwrap());
        tx.commit().await.unwrap();
        world.bodies.remove(&(tenant("acme"), n));
    };
    delete(&mut world, 1).await;
    let there = format!("SELECT count(*) FROM report_frames WHERE body_key = '\\x{}'", hex(&place.key.0));
    assert_eq!(world.number(&there).await, 0, "its key is gone at once");
    let (ReportBody::Segment(other), _) = world.read(&tenant("acme"), 2).await else { panic!("not moved") };
    assert_eq!(segment::open_frame(&id, &other.key, frame, 1 << 20), Err(SegmentError::Damaged));
    world.wait(OLD);
    world.rounds().await;
    world.all_is_well().await;
    assert_eq!(world.keys().await.len(), 1, "the other report is in it");
    delete(&mut world, 2).await;
    world.wait(OLD);
    world.rounds().await;
    assert!(world.keys().await.is_empty());
    // A copy of it is not taken for a new one.
    assert_eq!(world.store("acme", 1, 1, start()).await, ArrivalOutcome::Deleted);
    world.end().await;
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_tenant_whose_reports_cannot_be_deleted_keeps_no_others() {
    let mut world = World::new().await;
    let days_ago = |days: i64| start() - Duration::days(days);
    for of in ["acme", "umbrella"] {
        world.store(of, 1, 1, days_ago(9)).await;
        let limits = QuotaLimits { retention_days: 7, ..QuotaLimits::default() };
        let mut tx = world.store.tenant(&tenant(of)).await.unwrap();
        tenants::change_tenant(&mut tx, of, TenantStanding::Active, &limits).await.unwrap();
        tx.commit().await.unwrap();
    }
    world
        .execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
             CREATE TRIGGER refuse BEFORE DELETE ON reports FOR EACH ROW WHEN (OLD.tenant = 'acme')
             EXECUTE FUNCTION refuse()",
        )
        .await;
    world.mover(None).expire_all().await.unwrap_err();
    let left = "SELECT count(*) FROM reports WHERE tenant = 'umbrella'";
    assert_eq!((world.number("SELECT count(*) FROM reports").await, world.number(left).await), (1, 0));
    world.execute("DROP TRIGGER refuse ON reports").await;
    world.mover(None).expire_all().await.unwrap();
    assert_eq!(world.number("SELECT count(*) FROM reports").await, 0);
    world.end().await;
}

/// Proves: deletion
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
    let limits = QuotaLimits { retention_days: 7, ..QuotaLimits::default() };
    let mut tx = world.store.tenant(&tenant("acme")).await.unwrap();
    tenants::change_tenant(&mut tx, "Acme", TenantStanding::Active, &limits).await.unwrap();
    tx.commit().await.unwrap();
    world.mover(None).expire_all().await.unwrap();
    for n in [1, 2, 4] {
        world.bodies.remove(&(tenant("acme"), n));
    }
    world.all_is_well().await;
    world.nothing_is_left().await;
    world.all_is_well().await;
    assert_eq!((world.frames("acme").await, world.frames("umbrella").await), (1, 2));
    assert_eq!(world.number("SELECT count(*) FROM report_keys").await, 6, "all are remembered");
    // Once nobody keeps a day, its tables go.
    let tables = "SELECT count(*) FROM pg_class WHERE relname ~ '^report_frames_2026' AND relispartition AND relkind = 'r'";
    let before = world.number(tables).await;
    world.settings.keep_days = 5;
    world.mover(None).expire_all().await.unwrap();
    assert_eq!(world.number(tables).await, before - 3, "the longest limit is seven days");
    world.bodies.remove(&(tenant("umbrella"), 1));
    world.nothing_is_left().await;
    world.all_is_well().await;
    world.end().await;
}

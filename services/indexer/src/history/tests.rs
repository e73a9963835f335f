//! Rounds of the mover, on the real engine.

use super::HistoryMover;
use crate::metrics::Metrics;
use crate::segments::KeptDays;
use crate::segments::tests::stored_bodies::{World, start, tenant};
use time::Duration;
use unslide_history::{History, HistoryFilter, HistoryOrder, HistoryRow, HistorySettings};
use unslide_model::{ReportId, Secret};
use unslide_store::reports::ArrivalOutcome;
use unslide_store::{Store, Uuid};
use unslide_testkit::servers;

async fn create_history() -> History {
    let variable = |name: &str| std::env::var(format!("UNSLIDE_TEST_CLICKHOUSE_{name}")).ok();
    let settings = HistorySettings {
        url: Some(servers::clickhouse()),
        user: variable("USER").unwrap_or_else(|| "default".into()),
        password: Secret::new(variable("PASSWORD").unwrap_or_default()),
        database: servers::unique("mover").replace('-', "_"),
        cluster: variable("CLUSTER"),
        ..HistorySettings::default()
    };
    let history = History::new(&settings).unwrap();
    history.create_schema().await.unwrap();
    history
}

fn mover(world: &World, store: &Store) -> (HistoryMover, Metrics) {
    let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
    (HistoryMover::new(store.clone(), 7 * 86_400, metrics.clone(), &world.host).unwrap(), metrics)
}

/// A world with 20 reports of 40 days ago.
async fn old_world() -> World {
    let mut world = World::new().await;
    world.fill(20).await;
    world.wait(Duration::hours(2));
    world.rounds().await;
    world.wait(Duration::days(40));
    world
}

#[tokio::test]
async fn old_rows_move_come_back_for_a_revision_and_end_with_their_day() {
    let mut world = old_world().await;
    let history = create_history().await;
    let store = world.store.clone().with_history(Some(history.clone()));
    // ClickHouse has rows of a later moment than that to which PostgreSQL was restored.
    let stray = HistoryRow {
        received_at: start(),
        report_id: ReportId([1; 16]),
        variant: 0,
        version: 1_000,
        row: "{}".into(),
    };
    history.insert(&tenant("umbrella"), Uuid::nil(), &[stray]).await.unwrap();
    let (mut own, metrics) = mover(&world, &store);
    let tables =
        "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^(reports|report_bodies)_[0-9]+$'";
    assert!(world.number(tables).await > 0);
    assert!(!own.run_round().await.unwrap());
    let moved = "SELECT count(*) FROM report_keys WHERE history_version IS NOT NULL";
    assert_eq!((world.number("SELECT count(*) FROM reports").await, world.number(moved).await), (0, 20));
    assert_eq!((metrics.history_moved_rows.get(), metrics.history_failing_seconds.get()), (20, 0));
    assert!(world.number("SELECT min(history_version)::bigint FROM report_keys").await > 1_000);
    mover(&world, &store).0.run_round().await.unwrap();
    assert_eq!(world.number(tables).await, 0, "empty tables of old days are dropped");
    world.use_store(store.clone());
    assert_eq!(world.store("acme", 1, 2, start()).await, ArrivalOutcome::Revised);
    assert_eq!((world.number("SELECT count(*) FROM reports").await, world.number(moved).await), (1, 19));
    // What came back is deleted at ClickHouse, in a round that moves nothing.
    assert!(!own.run_round().await.unwrap());
    assert_eq!(world.number("SELECT count(*) FROM history_deletions").await, 0);
    let left = async || {
        let every = HistoryFilter::default();
        history
            .find_versions(&tenant("acme"), &every, None, HistoryOrder::OldestFirst, 100)
            .await
            .unwrap()
            .len()
    };
    assert_eq!(left().await, 19);
    let kept = KeptDays { tenant: tenant("acme"), reports: start().date() + Duration::DAY, bodies: None };
    own.expire_days(&[kept]).await.unwrap();
    assert_eq!((world.number(moved).await, left().await), (0, 0));
}

#[tokio::test]
async fn a_clickhouse_that_is_away_is_heard_and_changes_nothing() {
    let world = old_world().await;
    let settings = HistorySettings { url: Some("http://127.0.0.1:9".into()), ..HistorySettings::default() };
    let away = world.store.clone().with_history(Some(History::new(&settings).unwrap()));
    let (mut own, metrics) = mover(&world, &away);
    own.run_round().await.unwrap_err();
    assert!(metrics.history_failing_seconds.get() > 0);
    world.wait(Duration::MINUTE);
    assert!(!own.run_round().await.unwrap(), "it is not asked in each round");
    assert!(metrics.history_failing_seconds.get() >= 60);
    assert_eq!(world.number("SELECT count(*) FROM reports").await, 20);
    let (mut other, metrics) = mover(&world, &world.store.clone().with_history(Some(create_history().await)));
    other.run_round().await.unwrap();
    assert_eq!(metrics.history_moved_rows.get(), 20, "no intent of before is in the way");
    assert_eq!(world.number("SELECT count(*) FROM history_deletions").await, 0);
}

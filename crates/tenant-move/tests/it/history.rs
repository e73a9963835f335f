//! A tenant with rows in ClickHouse moves with all of them.

use crate::world::{Watcher, World, in_pieces, rows_of};
use futures::FutureExt;
use std::time::Duration;
use time::Date;
use tokio::time::sleep;
use unslide_harness::database::{acme, start};
use unslide_history::{History, HistorySettings};
use unslide_model::Secret;
use unslide_store::Store;
use unslide_store::history::{self, BegunMove};
use unslide_tenant_move::{Step, examine_move, find_obstacles};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

async fn create_history() -> History {
    let variable = |name: &str| std::env::var(format!("UNSLIDE_TEST_CLICKHOUSE_{name}")).ok();
    let settings = HistorySettings {
        url: Some(unslide_testkit::servers::clickhouse()),
        user: variable("USER").unwrap_or_else(|| "default".into()),
        password: Secret::new(variable("PASSWORD").unwrap_or_default()),
        database: unslide_testkit::servers::unique("moving").replace('-', "_"),
        cluster: variable("CLUSTER"),
        ..HistorySettings::default()
    };
    let history = History::new(&settings).unwrap();
    history.create_schema().await.unwrap();
    history
}

/// A world in which the old cell has a history, and the five reports of the tenant may move there.
async fn old_world(history: &History) -> World {
    let mut world = Box::pin(World::with_reports()).await;
    world.west.store = world.west.store.clone().with_history(Some(history.clone()));
    // Bodies have to be in segments first.
    world.from.execute("DELETE FROM report_bodies WHERE tenant = 'acme'").await;
    world
}

fn today() -> Date {
    start().date()
}

/// Begins a move of rows to ClickHouse as an indexer does, and inserts them there.
async fn begin_move(store: &Store, history: &History) -> Option<BegunMove> {
    let mut tx = store.tenant(&acme()).await.unwrap();
    let changed_before = start() + time::Duration::HOUR;
    let begun = history::begin_move(&mut tx, today(), changed_before, 100, 1 << 20).await.unwrap();
    tx.commit().await.unwrap();
    if let Some(begun) = &begun {
        history.insert(&acme(), begun.token, &begun.to_history_rows()).await.unwrap();
    }
    begun
}

async fn finish_move(store: &Store, begun: &BegunMove) -> Option<u64> {
    let mut tx = store.tenant(&acme()).await.unwrap();
    let moved = history::finish_move(&mut tx, begun).await.unwrap();
    tx.commit().await.unwrap();
    moved
}

/// Checks that the new cell has the reports, and the old one nothing of the history.
async fn assert_moved(world: &World, reports: &[String]) {
    assert_eq!(rows_of(&world.to, "acme").await["reports"], reports);
    let moved = "SELECT count(*) FROM report_keys WHERE history_version IS NOT NULL";
    assert_eq!(world.to.number(moved).await, 0);
    let left =
        "SELECT (SELECT count(*) FROM reports WHERE tenant = 'acme') + (SELECT count(*) FROM history_tenants)
                     + (SELECT count(*) FROM history_moves) + (SELECT count(*) FROM history_deletions)";
    assert_eq!(world.from.number(left).await, 0);
}

#[tokio::test]
async fn rows_in_clickhouse_come_back_first_and_stay_until_the_move_ends() {
    let history = create_history().await;
    let world = Box::pin(old_world(&history)).await;
    let reports = rows_of(&world.from, "acme").await["reports"].clone();
    assert_eq!(reports.len(), 5);
    let store = &world.west.store;
    let begun = begin_move(store, &history).await.unwrap();
    assert_eq!(finish_move(store, &begun).await, Some(5));
    assert_eq!(rows_of(&world.from, "acme").await["reports"], [""; 0]);
    let watcher = Watcher::default();
    let obstacles = find_obstacles(&world.job(&watcher, in_pieces())).await.unwrap();
    assert_eq!(obstacles.refusals, [""; 0]);
    assert_eq!(examine_move(&world.job(&watcher, in_pieces())).await.unwrap().history_rows, 5);
    // An indexer finds none of them, and one that had found them before begins nothing.
    let history = &history;
    let look = move |step: Step| {
        let looked = async move {
            if matches!(step, Step::Arriving | Step::TablesCopied) {
                let changed_before = start() + time::Duration::HOUR;
                let due = history::list_due(store, changed_before, 10).await.unwrap();
                assert!(due.iter().all(|due| due.tenant != acme()), "{step:?}: {due:?}");
                assert_eq!(begin_move(store, history).await, None, "{step:?}");
            }
        };
        looked.boxed()
    };
    let watcher = Watcher { act: Some(Box::new(look)), ..Watcher::default() };
    Box::pin(world.move_tenant(&watcher, in_pieces())).await.unwrap();
    assert!(watcher.text().contains("history: 5 rows brought back"), "{}", watcher.text());
    assert_moved(&world, &reports).await;
}

#[tokio::test]
async fn a_move_to_clickhouse_that_had_begun_is_waited_for() {
    let history = create_history().await;
    let world = Box::pin(old_world(&history)).await;
    let reports = rows_of(&world.from, "acme").await["reports"].clone();
    let store = &world.west.store;
    let begun = begin_move(store, &history).await.unwrap();
    let watcher = Watcher::default();
    let moved = Box::pin(world.move_tenant(&watcher, in_pieces()));
    let ended = async {
        while world.from.number("SELECT count(*) FROM moving_rows").await == 0 {
            sleep(POLL_INTERVAL).await;
        }
        finish_move(store, &begun).await
    };
    let (moved, ended) = tokio::join!(moved, ended);
    moved.unwrap();
    assert_eq!(ended, Some(5));
    assert_moved(&world, &reports).await;
}

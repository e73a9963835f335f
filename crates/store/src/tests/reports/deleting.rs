//! What the counts say once reports are deleted, or over.
//! Proves: deletion

use crate::queries::versions::VersionSummary;
use crate::queries::{apps, missing, versions};
use crate::reports::{self, Arrival, Effects};
use crate::retention;
use crate::tests::database::{Database, acme, arrival, debug_id, image, publish, revised, start};
use time::Duration;
use unslide_model::{DebugId, Quality};

const APP: &str = "com.acme.shop";

async fn delete(database: &Database, n: u8) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(reports::delete_report(&mut tx, arrival(n).report_id, 0, None).await.unwrap(), "{n}");
    tx.commit().await.unwrap();
}

/// The version's row; `None` where the app has none.
async fn version(database: &Database) -> Option<VersionSummary> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    versions::list_versions(&mut tx, APP, None, 10).await.unwrap().pop()
}

/// The missing images, each with the reports that want it.
async fn wanted(database: &Database) -> Vec<(DebugId, i64)> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = missing::list_missing(
        &mut tx,
        &missing::MissingFilter { system: true, ..Default::default() },
        None,
        10,
    )
    .await
    .unwrap();
    let mut found: Vec<_> = found.into_iter().map(|m| (m.image.debug_id, m.image.reports)).collect();
    found.sort_unstable();
    found
}

fn on_day(n: u8, days: i64) -> Arrival {
    let mut arrival = arrival(n);
    arrival.received_at -= Duration::days(days);
    arrival
}

#[tokio::test]
async fn a_deleted_report_is_taken_out_of_every_count() {
    let database = Database::new().await;
    // The first two are of one device.
    database.store(&[on_day(1, 2), arrival(5), arrival(2)]).await;
    let counts = async || version(&database).await.map(|v| (v.reports, v.devices));
    assert_eq!(counts().await, Some((3, 2)));
    assert_eq!(wanted(&database).await, [(debug_id(1), 3), (debug_id(200), 3)]);
    assert_eq!(version(&database).await.unwrap().first_day, start().date() - Duration::days(2));
    delete(&database, 1).await;
    assert_eq!(counts().await, Some((2, 2)), "its device has another report");
    assert_eq!(version(&database).await.unwrap().first_day, start().date());
    delete(&database, 5).await;
    assert_eq!(counts().await, Some((1, 1)));
    assert_eq!(wanted(&database).await, [(debug_id(1), 1), (debug_id(200), 1)]);
    delete(&database, 2).await;
    assert_eq!((counts().await, wanted(&database).await), (None, vec![]));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(apps::list_apps(&mut tx, None, None, 10).await.unwrap().is_empty());
    drop(tx);
    for table in ["app_devices", "wanted_images"] {
        assert_eq!(database.number(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
    // A device that crashes again is counted again, and what was deleted is not.
    database.store(&[on_day(1, 2), arrival(9)]).await;
    assert_eq!(counts().await, Some((1, 1)));
}

#[tokio::test]
async fn a_report_takes_back_what_it_came_without_whatever_it_has_now() {
    let database = Database::new().await;
    database.store(&[arrival(1), arrival(2)]).await;
    let generation = publish(&database, 1, Quality::DwarfSymtab).await;
    database.store(&[revised(&arrival(1), 2, image(1, false, Some(generation)))]).await;
    delete(&database, 1).await;
    assert_eq!(database.number("SELECT reports FROM wanted_images WHERE NOT system").await, 1);
    assert_eq!(database.number("SELECT sum(devices)::bigint FROM app_days").await, 1);
}

#[tokio::test]
async fn retention_ends_what_is_wanted_and_not_what_was_counted() {
    let database = Database::new().await;
    let mut old = on_day(1, 3);
    old.images[0] = image(3, false, None);
    database.store(&[old, arrival(2)]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let before = start().date() - Duration::DAY;
    assert_eq!(retention::expire_reports(&mut tx, before, 10).await.unwrap(), 1);
    assert_eq!(retention::forget_wanted(&mut tx, before, 10).await.unwrap(), 1);
    assert_eq!(retention::forget_wanted(&mut tx, before, 10).await.unwrap(), 0);
    assert_eq!(retention::forget_hours(&mut tx, 10).await.unwrap(), 0);
    tx.commit().await.unwrap();
    // Hours are counted for 14 days.
    database.wait(Duration::days(12));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(retention::forget_hours(&mut tx, 10).await.unwrap(), 1);
    tx.commit().await.unwrap();
    let wanted: Vec<DebugId> = wanted(&database).await.into_iter().map(|(id, _)| id).collect();
    assert_eq!(wanted, [debug_id(1), debug_id(200)], "by the report that is left");
    let counted = version(&database).await.unwrap();
    assert_eq!((counted.reports, counted.devices), (2, 2), "what happened has happened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_and_storing_at_the_same_time_neither_deadlock_nor_miscount() {
    let database = Database::new().await;
    let first: Vec<Arrival> = (1..=40).map(arrival).collect();
    database.store(&first).await;
    let mut tasks = Vec::new();
    for half in [1..=20_u8, 21..=40] {
        let store = database.store.clone();
        tasks.push(tokio::spawn(async move {
            for n in half {
                let mut tx = store.tenant(&acme()).await.unwrap();
                assert!(reports::delete_report(&mut tx, arrival(n).report_id, 0, None).await.unwrap());
                tx.commit().await.unwrap();
            }
        }));
    }
    for part in [41..=60_u8, 61..=80] {
        let store = database.store.clone();
        tasks.push(tokio::spawn(async move {
            let arrivals: Vec<Arrival> = part.rev().map(arrival).collect();
            for arrivals in arrivals.chunks(5) {
                let mut tx = store.tenant(&acme()).await.unwrap();
                reports::store_arrivals(&mut tx, arrivals, Effects::Now, None).await.unwrap();
                tx.commit().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let counted = version(&database).await.unwrap();
    assert_eq!((counted.reports, counted.devices), (40, 4));
    assert_eq!(wanted(&database).await, [(debug_id(1), 40), (debug_id(200), 40)]);
    assert_eq!(database.number("SELECT sum(reports)::bigint FROM app_devices").await, 40);
}

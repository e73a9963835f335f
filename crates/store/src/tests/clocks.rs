//! Hosts with wrong wall clocks.

use crate::jobs::{self, JobKind, Work};
use crate::tests::database::{Database, acme};
use crate::{JobId, Settings, Store};
use std::sync::Arc;
use time::{Duration, OffsetDateTime};
use unslide_model::{Clock, FixedClock, SystemClock};

const HOUR_MICROS: i64 = 3_600_000_000;

/// A process with a wall clock that is wrong by `micros`. No time passes in it by itself.
async fn process(database: &Database, micros: i64) -> (Store, Arc<FixedClock>) {
    let clock = Arc::new(FixedClock::at_micros(SystemClock.now_micros() + micros));
    let settings = Settings { max_connections: 1, ..Settings::with_url(database.url.clone()) };
    (Store::connect(&settings, clock.clone()).await.unwrap(), clock)
}

async fn add(store: &Store) -> JobId {
    let mut tx = store.tenant(&acme()).await.unwrap();
    let id = jobs::add_job(&mut tx, &Work::Build { upload: crate::UploadId::default() }).await.unwrap();
    tx.commit().await.unwrap();
    id
}

async fn take(store: &Store) -> Vec<JobId> {
    let leased = jobs::lease_jobs(store, &[JobKind::Build], "worker", Duration::MINUTE, 10).await.unwrap();
    leased.iter().map(|job| job.id).collect()
}

/// Proves: outages
#[tokio::test]
async fn a_job_of_a_process_whose_clock_is_an_hour_ahead_is_taken_at_once() {
    let database = Database::new().await;
    let (ahead, _) = process(&database, HOUR_MICROS).await;
    let id = add(&ahead).await;
    let (right, _) = process(&database, 0).await;
    assert_eq!(take(&right).await, [id]);
    let id = add(&right).await;
    let (behind, _) = process(&database, -HOUR_MICROS).await;
    assert_eq!(take(&behind).await, [id]);
    // The lease has not run out for the one that is ahead.
    assert!(take(&ahead).await.is_empty());
    for store in [ahead, right, behind] {
        store.close().await;
    }
}

/// The database's time.
async fn time_of(database: &Database) -> OffsetDateTime {
    sqlx::Row::get(&database.rows("SELECT clock_timestamp()").await[0], 0)
}

#[tokio::test]
async fn the_time_is_counted_on_without_the_wall_clock_and_the_database_is_asked_again() {
    let database = Database::new().await;
    let begun = time_of(&database).await;
    let (store, clock) = process(&database, HOUR_MICROS).await;
    let first = store.clock().now();
    assert!(begun <= first && first <= time_of(&database).await);
    clock.step_wall_micros(HOUR_MICROS);
    assert_eq!(store.clock().now(), first);
    clock.advance_micros(59_000_000);
    store.ping().await.unwrap();
    assert_eq!(store.clock().now(), first + Duration::seconds(59));
    // The database knows of no such minute.
    clock.advance_micros(HOUR_MICROS);
    store.ping().await.unwrap();
    assert!(first < store.clock().now() && store.clock().now() <= time_of(&database).await);
    store.close().await;
}

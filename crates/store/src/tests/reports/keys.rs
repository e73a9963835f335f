//! The keys of reports: one claims an id, in one tuple, and months of them are dropped as a whole.

use crate::partitions;
use crate::reports::{self, Arrival, ArrivalOutcome, Effects};
use crate::tests::database::{Database, acme, arrival, image, start};
use time::{Date, Duration, OffsetDateTime};
use unslide_model::ContentHash;

fn at(received_at: OffsetDateTime, n: u8) -> Arrival {
    Arrival { received_at, ..arrival(n) }
}

fn other(arrival: Arrival, hash: u8) -> Arrival {
    Arrival { content_hash: ContentHash([hash; 32]), ..arrival }
}

/// Makes the days of a later moment, and begins its month.
async fn begin_month_of(database: &Database, later: OffsetDateTime) -> bool {
    database.wait(later - database.clock_now());
    let days = |day: Date| partitions::ensure_partitions(&database.store, day, day);
    days(later.date()).await.unwrap();
    partitions::begin_key_month(&database.store).await.unwrap()
}

async fn store_one(database: &Database, arrival: Arrival) -> (ArrivalOutcome, u32) {
    let stored = database.store(&[arrival]).await[0];
    (stored.outcome, stored.variant)
}

#[tokio::test]
async fn a_new_report_writes_its_key_once() {
    let database = Database::new().await;
    let failed = image(9, false, None);
    let failed = crate::reports::ImageUse { failed: true, ..failed };
    let reports =
        [arrival(1), Arrival { images: vec![failed], ..arrival(2) }, other(arrival(1), 99), arrival(3)];
    database.store_as(&reports[1..], Effects::Now).await;
    // A tuple that is updated leaves a number unused.
    let tuples = "SELECT max((ctid::text::point)[1])::bigint FROM report_keys";
    assert_eq!(
        (database.number(tuples).await, database.number("SELECT count(*) FROM report_keys").await),
        (3, 3)
    );
    let values = "SELECT count(*) FROM report_keys WHERE latest_revision = 1 AND (retry_at IS NULL) = (retry_needs IS NULL)";
    assert_eq!(database.number(values).await, 3);
    assert_eq!(database.number("SELECT count(*) FROM report_keys WHERE retry_at IS NOT NULL").await, 1);
}

/// Proves: replay
#[tokio::test]
async fn of_two_transactions_that_bring_one_report_one_stores_it() {
    let database = Database::new().await;
    let later = start() + Duration::days(40);
    partitions::ensure_partitions(&database.store, later.date(), later.date()).await.unwrap();
    let mut first = database.store.tenant(&acme()).await.unwrap();
    reports::store_arrivals(&mut first, &[at(start(), 1)], Effects::Now, None).await.unwrap();
    // It arrived in another month; both are stored at the same time.
    let mut second = database.store.tenant(&acme()).await.unwrap();
    let again = tokio::spawn(async move {
        let stored = reports::store_arrivals(&mut second, &[at(later, 1)], Effects::Now, None).await.unwrap();
        second.commit().await.unwrap();
        stored[0].outcome
    });
    database.wait_for_lock().await;
    first.commit().await.unwrap();
    assert_eq!(again.await.unwrap(), ArrivalOutcome::Duplicate);
    assert_eq!(database.number("SELECT count(*) FROM report_keys").await, 1);
}

/// Proves: replay
#[tokio::test]
async fn a_month_begins_when_no_report_is_being_stored_and_later_ones_see_the_keys_before() {
    let database = Database::new().await;
    let mut storing = database.store.tenant(&acme()).await.unwrap();
    reports::store_arrivals(&mut storing, &[arrival(1)], Effects::Now, None).await.unwrap();
    let later = start() + Duration::days(40);
    database.wait(Duration::days(40));
    let store = database.store.clone();
    let begins = tokio::spawn(async move { partitions::begin_key_month(&store).await.unwrap() });
    database.wait_for_lock().await;
    storing.commit().await.unwrap();
    assert!(begins.await.unwrap());
    assert!(!begin_month_of(&database, later).await, "it has begun");
    assert_eq!(store_one(&database, at(later, 1)).await, (ArrivalOutcome::Duplicate, 0));
    assert_eq!(store_one(&database, at(later, 2)).await, (ArrivalOutcome::New, 0));
    // An old report is stored under the month of its storing.
    assert_eq!(store_one(&database, at(start(), 3)).await, (ArrivalOutcome::New, 0));
    let by_month = "SELECT count(*) FROM report_keys GROUP BY stored_month ORDER BY stored_month";
    let counts: Vec<i64> = database.rows(by_month).await.iter().map(|row| sqlx::Row::get(row, 0)).collect();
    assert_eq!(counts, [1, 2]);
}

/// Proves: replay
#[tokio::test]
async fn keys_are_forgotten_with_their_month_and_no_other_is() {
    let database = Database::new().await;
    database.store(&[arrival(1), arrival(2)]).await;
    let later = start() + Duration::days(40);
    assert!(begin_month_of(&database, later).await);
    assert_eq!(store_one(&database, other(at(later, 1), 99)).await, (ArrivalOutcome::New, 1));
    assert_eq!(partitions::drop_keys(&database.store, later).await.unwrap(), 0, "it ended at this moment");
    assert_eq!(store_one(&database, at(later, 2)).await, (ArrivalOutcome::Duplicate, 0));
    assert_eq!(partitions::drop_keys(&database.store, later + Duration::SECOND).await.unwrap(), 1);
    assert_eq!(database.number("SELECT count(*) FROM report_keys").await, 1);
    // The present month stays, whatever its age, and other bytes under an id are still known.
    assert_eq!(partitions::drop_keys(&database.store, later + Duration::days(4_000)).await.unwrap(), 0);
    assert_eq!(store_one(&database, other(at(later, 1), 99)).await, (ArrivalOutcome::Duplicate, 1));
    assert_eq!(store_one(&database, at(later, 2)).await, (ArrivalOutcome::New, 0));
    assert_eq!(store_one(&database, at(later, 1)).await, (ArrivalOutcome::New, 0));
}

//! Bodies of reports that wait for symbols.

use crate::body_cap::fixture::{
    capped_database, complete_report, id, kept, store_for, sweep, wait_until_no_symbols_are_waited_for,
    waiting_report,
};
use std::ops::Range;
use unslide_harness::database::{TestDatabase, acme, start};
use unslide_model::{BodyKey, ReportId};
use unslide_store::reports::Arrival;
use unslide_store::segments::{MovedBody, begin_segment, finish_segment, list_pending_bodies, new_id};

/// Moves the bodies of these reports into a segment, as the indexer does an hour later.
async fn move_to_segment(database: &TestDatabase, numbers: Range<u16>) {
    let ids: Vec<ReportId> = numbers.map(id).collect();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let waiting = list_pending_bodies(&mut tx, start().date(), None, 1 << 20).await.unwrap();
    let moved: Vec<MovedBody> = (0..)
        .zip(waiting.into_iter().filter(|body| ids.contains(&body.report_id)))
        .map(|(offset, body)| MovedBody {
            received_at: body.received_at,
            report_id: body.report_id,
            variant: body.variant,
            revision: body.revision,
            stored_at: body.stored_at,
            offset,
            length: 1,
            key: BodyKey([1; 32]),
        })
        .collect();
    let segment = new_id(&mut tx).await.unwrap();
    let begun = begin_segment(&mut tx, segment, start().date(), "a segment").await.unwrap().unwrap();
    assert_eq!(finish_segment(&mut tx, &begun, &moved).await.unwrap(), Some(moved.len() as u64));
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_body_waits_for_symbols_until_they_come_or_thirty_days_are_over() {
    let database = capped_database(5).await;
    let waiting: Vec<Arrival> = (0..30).map(waiting_report).collect();
    store_for(&database, &acme(), &waiting).await;
    assert_eq!(sweep(&database).await, 0);
    move_to_segment(&database, 0..30).await;
    // Symbols come for the first twenty.
    let complete: Vec<Arrival> = (0..20).map(|n| complete_report(n, 2)).collect();
    store_for(&database, &acme(), &complete).await;
    assert_eq!(sweep(&database).await, 15);
    let expected: Vec<u16> = [0, 1, 2, 3, 19].into_iter().chain(20..30).collect();
    assert_eq!(kept(&database).await, expected);
    wait_until_no_symbols_are_waited_for(&database).await;
    assert_eq!(sweep(&database).await, 10);
    // The newest of all is kept in place of the newest before.
    assert_eq!(kept(&database).await, [0, 1, 2, 3, 29]);
    assert_eq!(sweep(&database).await, 0);
    let waits = "SELECT count(DISTINCT report_id) FROM waits WHERE seen_generation < 9223372036854775807";
    assert_eq!(database.number(waits).await, 5);
}

#[tokio::test]
async fn a_segment_goes_with_the_last_body_in_it() {
    let database = capped_database(2).await;
    let waiting: Vec<Arrival> = (0..10).map(waiting_report).collect();
    store_for(&database, &acme(), &waiting).await;
    move_to_segment(&database, 3..7).await;
    wait_until_no_symbols_are_waited_for(&database).await;
    assert_eq!(sweep(&database).await, 8);
    assert_eq!(kept(&database).await, [0, 9]);
    let left = "SELECT (SELECT count(*) FROM segments) * 10 + (SELECT count(*) FROM condemned_objects)";
    assert_eq!(database.number(left).await, 1);
}

#[tokio::test]
async fn symbols_that_come_later_ask_for_no_report_without_a_body() {
    let database = capped_database(2).await;
    let reports: Vec<Arrival> = (0..10).map(|n| complete_report(n, 1)).collect();
    store_for(&database, &acme(), &reports).await;
    assert_eq!(sweep(&database).await, 8);
    // The reports have seen generation 1 of the app's image.
    let slot = "UPDATE symbol_slots SET generation = 2, quality = 2 WHERE tenant = 'acme'";
    database.execute(slot).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let app_image = &reports[0].images[0].debug_id;
    let page = unslide_store::wakes::request_page(&mut tx, app_image, 2, None, 100).await.unwrap();
    assert_eq!((page.waiting, page.requested), (2, 2));
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM report_keys WHERE requested_at IS NOT NULL").await, 2);
}

#[tokio::test]
async fn a_body_stays_while_a_request_for_a_better_revision_is_under_way() {
    let database = capped_database(2).await;
    let reports: Vec<Arrival> = (0..10).map(|n| complete_report(n, 1)).collect();
    store_for(&database, &acme(), &reports).await;
    let request = format!(
        "UPDATE report_keys SET requested_at = now(), requested_revision = 2 WHERE report_id = '{}'",
        id(5).uuid()
    );
    database.execute(&request).await;
    assert_eq!(sweep(&database).await, 7);
    assert_eq!(kept(&database).await, [0, 5, 9]);
}

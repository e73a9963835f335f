//! Reports symbolicated again on demand.
//! Proves: late-symbols

use crate::reprocess::{self, ReprocessFilter, ReprocessPage, ReprocessStatus};
use crate::requests::{self, RequestOutcome};
use crate::tests::database::{Database, acme, arrival, image, revised};
use crate::{ReprocessId, partitions, retention};
use time::Duration;

async fn create(database: &Database, wanted: &ReprocessFilter) -> (ReprocessId, u64) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let made = reprocess::create_reprocess(&mut tx, "key", wanted).await.unwrap();
    tx.commit().await.unwrap();
    (made.id, made.matched)
}

async fn page(database: &Database, id: ReprocessId) -> ReprocessPage {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let page = reprocess::request_page(&mut tx, id, 2).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    page
}

async fn requests_made(database: &Database) -> i64 {
    database.number("SELECT count(*) FROM outbox WHERE kind = 'resymbolicate'").await
}

#[tokio::test]
async fn every_report_that_fits_is_asked_for_once_and_what_came_of_it_is_counted() {
    let database = Database::new().await;
    let mut other = arrival(9);
    other.facts.version = "2.0".into();
    let all: Vec<_> = (1..=5).map(arrival).chain([other]).collect();
    database.store(&all).await;
    database.wait(Duration::MINUTE);
    let wanted = ReprocessFilter { version: Some("1.0".into()), ..ReprocessFilter::default() };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    for (wanted, count) in [
        (wanted.clone(), 5),
        (ReprocessFilter::default(), 6),
        (ReprocessFilter { app: Some("com.other".into()), ..wanted.clone() }, 0),
        (
            ReprocessFilter {
                debug_id: Some(crate::tests::database::debug_id(1)),
                ..ReprocessFilter::default()
            },
            6,
        ),
        (ReprocessFilter { to: Some(arrival(3).received_at), ..ReprocessFilter::default() }, 2),
        (ReprocessFilter { from: Some(arrival(3).received_at), ..wanted.clone() }, 3),
    ] {
        assert_eq!(reprocess::count_matching(&mut tx, &wanted).await.unwrap(), count, "{wanted:?}");
    }
    drop(tx);
    let (id, matched) = create(&database, &wanted).await;
    assert_eq!(matched, 5);
    // What comes later is not asked for, and the second worker goes on where the first has died.
    let mut late = arrival(8);
    late.received_at = crate::tests::database::start() + Duration::HOUR;
    database.store(&[late]).await;
    assert_eq!(page(&database, id).await, ReprocessPage { asked: 2, more: true });
    let mut dies = database.store.tenant(&acme()).await.unwrap();
    reprocess::request_page(&mut dies, id, 2).await.unwrap();
    drop(dies);
    assert_eq!(page(&database, id).await, ReprocessPage { asked: 2, more: true });
    assert_eq!(page(&database, id).await, ReprocessPage { asked: 1, more: false });
    assert_eq!(requests_made(&database).await, 5);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(reprocess::request_page(&mut tx, id, 2).await.unwrap(), None, "it is over");
    drop(tx);
    // A second demand asks nobody who has an answer on its way.
    let (second, _) = create(&database, &wanted).await;
    while page(&database, second).await.more {}
    assert_eq!(requests_made(&database).await, 5);
    // Two got better, one did not, one is gone, and one does not answer yet.
    let better = |n: u8| revised(&arrival(n), 2, image(1, false, Some(1)));
    database.store(&[better(1), better(2)]).await;
    database.store(&[better(1)]).await;
    for (n, answer) in [(3, RequestOutcome::Unchanged), (4, RequestOutcome::Gone)] {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        if answer == RequestOutcome::Gone {
            let gone = "DELETE FROM reports WHERE report_id = '04040404-0404-0404-0404-040404040404'";
            database.rows(gone).await;
        }
        let report = (arrival(n).report_id, 0);
        let now = database.sent(report).await;
        assert!(requests::close_request(&mut tx, report, 2, answer, now).await.unwrap().is_some());
        let again = requests::close_request(&mut tx, report, 2, answer, now).await.unwrap();
        assert_eq!(again, None, "answers come twice");
        tx.commit().await.unwrap();
    }
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = reprocess::get(&mut tx, id).await.unwrap().unwrap();
    assert_eq!((found.status, found.looked, found.asked, found.under_way), (ReprocessStatus::Done, 5, 5, 0));
    assert_eq!((found.better, found.unchanged, found.gone), (2, 1, 1));
    let second = reprocess::get(&mut tx, second).await.unwrap().unwrap();
    assert_eq!((second.asked, second.under_way, second.better), (0, 5, 0));
    drop(tx);
    // The last one's report goes before anybody answers: that is an end too.
    let day = crate::tests::database::start().date().next_day().unwrap();
    partitions::drop_before(&database.store, day).await.unwrap();
    database.wait(Duration::minutes(11));
    requests::resend_overdue(&database.store, 10).await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(reprocess::get(&mut tx, id).await.unwrap().unwrap().gone, 2);
}

/// Two reports, and a reprocess that has asked for both.
async fn two_asked_for() -> (Database, ReprocessId) {
    let database = Database::new().await;
    database.store(&[arrival(1), arrival(2)]).await;
    database.wait(Duration::MINUTE);
    let (id, _) = create(&database, &ReprocessFilter::default()).await;
    while page(&database, id).await.more {}
    (database, id)
}

#[tokio::test]
async fn a_report_that_is_deleted_ends_the_request_for_it() {
    let (database, id) = two_asked_for().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(crate::reports::delete_report(&mut tx, arrival(1).report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    // An answer that was on its way counts no second time.
    database.store(&[revised(&arrival(1), 2, image(1, false, Some(1)))]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let seen = reprocess::get(&mut tx, id).await.unwrap().unwrap();
    assert_eq!((seen.asked, seen.better, seen.unchanged, seen.gone), (2, 0, 0, 1));
}

/// The first waits for its answers whatever a second one does meanwhile, and neither waits for ever.
#[tokio::test]
async fn a_request_that_is_sent_again_for_a_second_reprocess_still_counts_for_the_first() {
    let (database, first) = two_asked_for().await;
    database.wait(requests::ANSWER_TIMEOUT + Duration::MINUTE);
    let (second, _) = create(&database, &ReprocessFilter::default()).await;
    while page(&database, second).await.more {}
    database.store(&[revised(&arrival(1), 2, image(1, false, Some(1)))]).await;
    database.store(&[revised(&arrival(2), 2, image(1, false, Some(1)))]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let seen = reprocess::get(&mut tx, first).await.unwrap().unwrap();
    assert_eq!((seen.asked, seen.better), (2, 2));
    let seen = reprocess::get(&mut tx, second).await.unwrap().unwrap();
    assert_eq!((seen.asked, seen.under_way, seen.better), (0, 2, 0));
}

#[tokio::test]
async fn a_report_whose_time_is_over_ends_the_request_for_it() {
    let (database, id) = two_asked_for().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let tomorrow = arrival(1).received_at.date().next_day().unwrap();
    assert_eq!(retention::expire_reports(&mut tx, tomorrow, 10).await.unwrap(), 2);
    let seen = reprocess::get(&mut tx, id).await.unwrap().unwrap();
    assert_eq!((seen.asked, seen.gone), (2, 2));
}

#[tokio::test]
async fn of_two_workers_that_believe_to_have_it_one_goes_on() {
    let database = Database::new().await;
    database.store(&[arrival(1), arrival(2), arrival(3)]).await;
    database.wait(Duration::MINUTE);
    database.wait(Duration::MINUTE);
    let (id, _) = create(&database, &ReprocessFilter::default()).await;
    let mut first = database.store.tenant(&acme()).await.unwrap();
    let mut second = database.store.tenant(&acme()).await.unwrap();
    assert!(reprocess::request_page(&mut first, id, 2).await.unwrap().is_some());
    let (late, ()) = tokio::join!(reprocess::request_page(&mut second, id, 2), async {
        database.wait_for_lock().await;
        first.commit().await.unwrap();
    });
    assert_eq!(late.unwrap(), None);
    second.rollback().await.unwrap();
    assert_eq!(requests_made(&database).await, 2);
}

//! Requests that end without a new revision.

use crate::requests::{self, RequestAnswer, RequestOutcome};
use crate::slots;
use crate::tests::database::{Database, acme, arrival, debug_id, publish, start, symbols};
use crate::tests::reports::segments::move_all;
use crate::wakes::{self, system};
use sqlx::Row;
use time::{Duration, OffsetDateTime};
use unslide_model::{Owner, Quality};
use unslide_testkit::statements;

async fn wake(database: &Database, generation: u64) -> u64 {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let page = wakes::request_page(&mut tx, &debug_id(1), generation, None, 10).await.unwrap();
    tx.commit().await.unwrap();
    page.requested
}

/// Whether an answer to the request that was sent last closes it.
async fn answered(database: &Database, answer: RequestOutcome) -> bool {
    answered_to(database, answer, database.sent((arrival(1).report_id, 0)).await).await
}

/// The same for an answer to the request that was sent at this time.
async fn answered_to(database: &Database, answer: RequestOutcome, sent: OffsetDateTime) -> bool {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let closed =
        requests::close_request(&mut tx, (arrival(1).report_id, 0), 2, answer, sent).await.unwrap().is_some();
    tx.commit().await.unwrap();
    closed
}

async fn outbox(database: &Database) -> i64 {
    database.number("SELECT count(*) FROM outbox WHERE kind = 'resymbolicate'").await
}

#[tokio::test]
async fn unchanged_closes_the_request_and_the_same_symbols_are_not_asked_for_again() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    let generation = publish(&database, 1, Quality::Symtab).await;
    database.wait(Duration::MINUTE);
    assert_eq!(wake(&database, generation).await, 1);
    assert!(
        !answered_to(&database, RequestOutcome::Unchanged, start()).await,
        "an answer to an earlier request"
    );
    assert!(answered(&database, RequestOutcome::Unchanged).await);
    assert!(!answered(&database, RequestOutcome::Unchanged).await, "answers come twice");
    assert_eq!(wake(&database, generation).await, 0);
    database.wait(Duration::HOUR);
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 0);
    // Newer ones are, under the same number: it was never used.
    let generation = publish(&database, 1, Quality::Dwarf).await;
    assert_eq!(wake(&database, generation).await, 1);
    let asked = "SELECT (message ->> 'revision')::bigint FROM outbox ORDER BY id DESC LIMIT 1";
    assert_eq!(database.number(asked).await, 2);
}

/// Proves: late-symbols
#[tokio::test]
async fn symbols_that_came_during_a_fruitless_request_are_asked_for_at_its_end() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    let first = publish(&database, 1, Quality::Symtab).await;
    assert_eq!(wake(&database, first).await, 1);
    let second = publish(&database, 1, Quality::Dwarf).await;
    assert_eq!(wake(&database, second).await, 0, "one is on its way");
    assert_eq!(outbox(&database).await, 1);
    assert!(answered(&database, RequestOutcome::Unchanged).await);
    assert_eq!(outbox(&database).await, 2, "asked anew at once");
}

/// What the last request was made for: debug id, generation, and whether it is the system's.
async fn asked_last(database: &Database) -> Vec<(u8, i64, bool)> {
    let needs = "SELECT left(n ->> 'debug_id', 2) AS id, (n ->> 'generation')::bigint AS generation,
                        (n ->> 'system')::boolean AS system
                 FROM jsonb_array_elements((SELECT message -> 'needs' FROM outbox WHERE kind = 'resymbolicate'
                                            ORDER BY id DESC LIMIT 1)) AS n ORDER BY 1, 3";
    let rows = database.rows(needs).await;
    let read = |row: &sqlx::postgres::PgRow| {
        (u8::from_str_radix(&row.get::<String, _>(0), 16).unwrap(), row.get(1), row.get(2))
    };
    rows.iter().map(read).collect()
}

/// A day counts as having seen what came, although the report was left out for the request that it has.
/// Proves: late-symbols
#[tokio::test]
async fn system_images_that_came_during_a_fruitless_request_are_asked_for_at_its_end() {
    for answer in [RequestOutcome::Unchanged, RequestOutcome::FetchingFailed] {
        let database = Database::new().await;
        database.store(&[arrival(1)]).await;
        let first = publish(&database, 1, Quality::Symtab).await;
        assert_eq!(wake(&database, first).await, 1);
        database.wait(Duration::MINUTE);
        // The tenant's own symbols of a system image, and the system's.
        let own = publish(&database, 200, Quality::Symtab).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let mut from = None;
        loop {
            let page = wakes::request_page(&mut tx, &debug_id(200), own, from, 10).await.unwrap();
            assert_eq!(page.requested, 0, "one is on its way");
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        tx.commit().await.unwrap();
        let mut tx = database.store.owner(&Owner::System).await.unwrap();
        for _ in 0..2 {
            slots::publish_symbols(&mut tx, &symbols(200, Quality::Symtab)).await.unwrap();
        }
        tx.commit().await.unwrap();
        let arrived =
            system::list_arrived(&mut database.store.owner(&Owner::System).await.unwrap()).await.unwrap();
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        assert_eq!(system::request_page(&mut tx, &arrived, None, 10).await.unwrap().requested, 0);
        tx.commit().await.unwrap();
        let seen = database.number("SELECT min(seen_generation) FROM system_waits").await;
        assert_eq!((seen, outbox(&database).await), (2, 1));

        assert!(answered(&database, answer).await);
        assert_eq!(outbox(&database).await, 2, "asked anew at once");
        let both = [(1, 1, false), (200, 1, false), (200, 2, true)];
        assert_eq!(asked_last(&database).await, both);
        // What was asked for is not asked for once more by its end.
        assert!(answered(&database, answer).await);
        assert_eq!(outbox(&database).await, 2);
    }
}

#[tokio::test]
async fn system_images_that_were_there_long_before_are_not_asked_for_by_a_fruitless_end() {
    let database = Database::new().await;
    publish(&database, 200, Quality::Symtab).await;
    let mut report = arrival(1);
    report.images[1].seen_generation = 1;
    database.store(&[report]).await;
    database.wait(Duration::HOUR);
    let first = publish(&database, 1, Quality::Symtab).await;
    assert_eq!(wake(&database, first).await, 1);
    assert!(answered(&database, RequestOutcome::Unchanged).await);
    assert_eq!(outbox(&database).await, 1);
}

/// Proves: late-symbols
#[tokio::test]
async fn an_answer_ends_the_request_that_it_names_whatever_the_clocks_say() {
    let database = Database::new().await;
    let at = |minutes| start() + Duration::minutes(minutes);
    let end = async |sent| answered_to(&database, RequestOutcome::Unchanged, sent).await;
    database.store(&[arrival(1)]).await;
    let first = publish(&database, 1, Quality::Exports).await;
    assert_eq!(wake(&database, first).await, 1);
    // A worker's clock that is far ahead makes no answer to an earlier one fit.
    assert!(!end(at(-1)).await && !end(at(1)).await);
    // Sent again it is the same one: the answer to the first sending will do.
    database.wait(Duration::minutes(11));
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 1);
    assert!(end(at(0)).await);
    // The answer to the second one comes when there is another request under that number.
    database.wait(Duration::minutes(1));
    let second = publish(&database, 1, Quality::Symtab).await;
    assert_eq!(wake(&database, second).await, 1);
    assert!(!end(at(0)).await && !end(at(11)).await);
    // Nobody answers, and it is asked about something else: of that the answer to the first says nothing.
    database.wait(Duration::minutes(10));
    let third = publish(&database, 1, Quality::Dwarf).await;
    assert_eq!(wake(&database, third).await, 1);
    assert!(!end(at(12)).await && end(at(22)).await);
    let seen = database.number("SELECT max(seen_generation) FROM waits").await;
    assert_eq!(u64::try_from(seen).unwrap(), third);
}

/// Workers that are only behind do not get the same request again every ten minutes.
#[tokio::test]
async fn a_request_without_an_answer_is_sent_again_after_longer_and_longer_pauses() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    let generation = publish(&database, 1, Quality::Symtab).await;
    assert_eq!(wake(&database, generation).await, 1);
    let mut sent = Vec::new();
    for minutes in (10..=5_500).step_by(10) {
        database.wait(Duration::minutes(10));
        if requests::resend_overdue(&database.store, 10).await.unwrap() == 1 {
            sent.push(minutes);
        }
    }
    assert_eq!(sent, [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 4_000, 5_440], "a day at most");
    assert!(answered_to(&database, RequestOutcome::Unchanged, start()).await, "it is still the same one");
}

#[tokio::test]
async fn requests_are_sent_again_no_more_than_asked_for_the_oldest_first() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    let generation = publish(&database, 1, Quality::Symtab).await;
    assert_eq!(wake(&database, generation).await, 1);
    database.wait(Duration::MINUTE);
    assert_eq!(database.store(&[arrival(2), arrival(3)]).await[0].requested, Some(2));
    database.wait(Duration::HOUR);
    for (resent, open) in [(2, 1), (1, 0), (0, 0)] {
        assert_eq!(requests::resend_overdue(&database.store, 2).await.unwrap(), resent);
        let before = "SELECT count(*) FROM report_keys WHERE requested_at < '2026-11-20 09:00:00Z'";
        assert_eq!(database.number(before).await, open);
    }
}

#[tokio::test]
async fn a_report_that_is_gone_is_not_asked_for_again() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    let generation = publish(&database, 1, Quality::Symtab).await;
    assert_eq!(wake(&database, generation).await, 1);
    crate::partitions::drop_before(&database.store, start().date().next_day().unwrap()).await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(requests::find_sources(&mut tx, &[(arrival(1).report_id, 0)]).await.unwrap().is_empty());
    tx.rollback().await.unwrap();
    database.wait(Duration::HOUR);
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 0);
    let open = database.number("SELECT count(*) FROM report_keys WHERE requested_at IS NOT NULL").await;
    assert_eq!((open, outbox(&database).await), (0, 1));
    assert!(!answered(&database, RequestOutcome::Gone).await);
}

/// Proves: late-symbols
#[tokio::test]
async fn a_body_that_is_lost_where_it_still_is_ends_the_request_and_one_that_has_moved_does_not() {
    let database = Database::new().await;
    let first = publish(&database, 1, Quality::Symtab).await;
    assert_eq!(database.store(&[arrival(1)]).await[0].requested, Some(2));
    let old = crate::SegmentId::from_uuid(crate::Uuid::from_u128(1));
    assert!(!answered(&database, RequestOutcome::Lost(old)).await, "the body is in the database");
    let moved = move_all(&database, "a").await;
    assert!(!answered(&database, RequestOutcome::Lost(old)).await, "it has moved");
    database.wait(Duration::HOUR);
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 1, "to where it is now");
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (report, lost) = ((arrival(1).report_id, 0), RequestOutcome::Lost(moved.id));
    let sent = database.sent(report).await;
    assert_eq!(requests::close_request(&mut tx, report, 2, lost, sent).await.unwrap(), Some(lost));
    tx.commit().await.unwrap();
    database.wait(Duration::DAY);
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 0, "permanently");
    assert_eq!(wake(&database, first).await, 0, "nor for the same symbols");
    let newer = publish(&database, 1, Quality::Dwarf).await;
    assert_eq!(wake(&database, newer).await, 1);
    // A report that is gone has lost nothing.
    crate::partitions::drop_before(&database.store, start().date().next_day().unwrap()).await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let sent = database.sent(report).await;
    assert_eq!(
        requests::close_request(&mut tx, report, 2, lost, sent).await.unwrap(),
        Some(RequestOutcome::Gone)
    );
}

#[tokio::test]
async fn a_request_that_is_a_dead_letter_is_not_sent_again_for_the_same_symbols() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    let generation = publish(&database, 1, Quality::Symtab).await;
    assert_eq!(wake(&database, generation).await, 1);
    assert!(
        !answered_to(&database, RequestOutcome::Dead, start() - Duration::SECOND).await,
        "of a request before it"
    );
    assert!(answered(&database, RequestOutcome::Dead).await);
    database.wait(Duration::HOUR);
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 0);
    assert_eq!((wake(&database, generation).await, outbox(&database).await), (0, 1));
    let newer = publish(&database, 1, Quality::Dwarf).await;
    assert_eq!(wake(&database, newer).await, 1);
}

/// Proves: late-symbols
#[tokio::test]
async fn an_answer_closes_the_request_of_its_own_variant() {
    let database = Database::new().await;
    let mut other = arrival(1);
    other.content_hash = unslide_model::ContentHash([99; 32]);
    database.store(&[arrival(1), other.clone()]).await;
    let generation = publish(&database, 1, Quality::Symtab).await;
    assert_eq!(wake(&database, generation).await, 2);
    let open = async || {
        database.number("SELECT coalesce(sum(variant + 1), 0)::bigint FROM report_keys WHERE requested_at IS NOT NULL").await
    };
    assert_eq!(open().await, 3, "both have the number 2 on its way");
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let second = (other.report_id, 1);
    let now = database.sent(second).await;
    assert!(
        requests::close_request(&mut tx, second, 2, RequestOutcome::Unchanged, now).await.unwrap().is_some()
    );
    assert!(
        requests::close_request(&mut tx, second, 2, RequestOutcome::Unchanged, now).await.unwrap().is_none()
    );
    assert!(
        requests::close_request(&mut tx, (other.report_id, 2), 2, RequestOutcome::Unchanged, now)
            .await
            .unwrap()
            .is_none()
    );
    tx.commit().await.unwrap();
    assert_eq!(open().await, 1, "the first one's is still open");
    // A revision of the first closes the first, by its bytes.
    let better =
        crate::tests::database::revised(&arrival(1), 2, crate::tests::database::image(1, false, Some(1)));
    assert_eq!(database.store(&[better]).await[0].variant, 0);
    assert_eq!(open().await, 0);
}

/// Each is closed as if it came alone, and the statements are those of one.
/// Proves: late-symbols
#[tokio::test]
async fn answers_that_come_at_once_cost_the_same_statements_however_many_they_are() {
    let database = Database::new().await;
    database.store(&(1..=30).map(arrival).collect::<Vec<_>>()).await;
    let first = publish(&database, 1, Quality::Symtab).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(wakes::request_page(&mut tx, &debug_id(1), first, None, 50).await.unwrap().requested, 30);
    tx.commit().await.unwrap();
    // They are asked for again at the end of each request.
    publish(&database, 1, Quality::Dwarf).await;
    let answer = |n: u8| RequestAnswer {
        report: (arrival(n).report_id, 0),
        revision: 2,
        outcome: match n % 3 {
            0 => RequestOutcome::Unchanged,
            1 => RequestOutcome::FetchingFailed,
            _ => RequestOutcome::Gone,
        },
        sent: start(),
    };
    let cost = async |numbers: std::ops::RangeInclusive<u8>| {
        // A second answer to the first request is skipped.
        let mut answers: Vec<RequestAnswer> = numbers.map(answer).collect();
        answers.push(RequestAnswer { outcome: RequestOutcome::Dead, ..answers[0] });
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let (closed, statements) = statements::counted(requests::close_requests(&mut tx, &answers)).await;
        tx.commit().await.unwrap();
        (closed.unwrap(), statements)
    };
    let (few, many) = (cost(1..=3).await, cost(4..=30).await);
    // The bodies of those that were gone are in the database, so that their requests stay open.
    let kinds = [Some(RequestOutcome::FetchingFailed), None, Some(RequestOutcome::Unchanged)];
    assert_eq!(few.0, [&kinds[..], &[None]].concat());
    assert_eq!(many.0, [&kinds.repeat(9)[..], &[None]].concat());
    assert!(few.1 > 1, "statements are counted");
    assert_eq!(few.1, many.1);
    assert_eq!(outbox(&database).await, 50, "20 are asked anew at once");
    let again = "SELECT count(*) FROM report_keys WHERE retry_needs IS NOT NULL";
    assert_eq!(database.number(again).await, 10);
}

//! Symbols that are there and could not be fetched: asked for again by the clock.
//! Proves: late-symbols

use crate::reports::Effects;
use crate::requests::{self, RequestOutcome};
use crate::retries::{self, RETRY_BACKOFFS};
use crate::tests::database::{Database, acme, arrival, image, publish, revised};
use time::Duration;
use unslide_model::Quality;

/// Report 1, where the symbols of the app's image could not be fetched.
fn unfetched() -> crate::reports::Arrival {
    let mut report = arrival(1);
    report.images[0].failed = true;
    report
}

async fn requests_made(database: &Database) -> i64 {
    database.number("SELECT count(*) FROM outbox WHERE kind = 'resymbolicate'").await
}

async fn ask_due(database: &Database) -> u64 {
    retries::ask_due(&database.store, 10).await.unwrap()
}

async fn answer(database: &Database, answer: RequestOutcome) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let id = (arrival(1).report_id, 0);
    let now = database.sent(id).await;
    assert!(requests::close_request(&mut tx, id, 2, answer, now).await.unwrap().is_some());
    tx.commit().await.unwrap();
}

async fn wake(database: &Database, generation: u64) -> u64 {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let id = crate::tests::database::debug_id(1);
    let page = crate::wakes::request_page(&mut tx, &id, generation, None, 10).await.unwrap();
    tx.commit().await.unwrap();
    page.requested
}

/// A request that could not fetch what it was made for leaves the wake-up where it was, and the clock
/// makes it again.
/// Proves: outages
#[tokio::test]
async fn what_a_request_could_not_fetch_is_asked_for_by_the_clock_until_an_event_asks_anew() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    for quality in [Quality::Dwarf, Quality::DwarfSymtab] {
        let before = requests_made(&database).await;
        let generation = publish(&database, 1, quality).await;
        assert_eq!(wake(&database, generation).await, 1);
        answer(&database, RequestOutcome::FetchingFailed).await;
        assert_eq!(database.number("SELECT max(seen_generation) FROM waits").await, 0, "nobody has seen it");
        for (tries, pause) in (1..).zip(RETRY_BACKOFFS) {
            database.wait(pause - Duration::SECOND);
            assert_eq!(ask_due(&database).await, 0, "try {tries} is not yet due");
            database.wait(Duration::SECOND);
            assert_eq!(ask_due(&database).await, 1);
            assert_eq!(requests_made(&database).await, before + 1 + tries);
            answer(&database, RequestOutcome::FetchingFailed).await;
        }
        let asked = format!(
            "SELECT count(*) FROM outbox WHERE message -> 'needs' @> '[{{\"generation\": {generation}}}]'"
        );
        assert_eq!(database.number(&asked).await, 9);
        database.wait(Duration::days(30));
        assert_eq!(ask_due(&database).await, 0);
    }
}

/// Later revisions in the log may have had the symbols.
/// Proves: replay
#[tokio::test]
async fn the_clock_begins_at_the_end_of_a_replay() {
    let database = Database::new().await;
    publish(&database, 1, Quality::Dwarf).await;
    database.store_as(&[unfetched()], Effects::Deferred).await;
    let mut other = unfetched();
    (other.report_id, other.content_hash) = (arrival(2).report_id, arrival(2).content_hash);
    database.store_as(&[other.clone()], Effects::Deferred).await;
    database.wait(Duration::HOUR);
    assert_eq!(ask_due(&database).await, 0);
    database.store_as(&[revised(&other, 2, image(1, false, Some(1)))], Effects::Deferred).await;
    assert_eq!(requests::ask_pending(&database.store, 10).await.unwrap(), 1);
    assert_eq!((ask_due(&database).await, requests_made(&database).await), (0, 0));
    database.wait(RETRY_BACKOFFS[0]);
    assert_eq!((ask_due(&database).await, requests_made(&database).await), (1, 1));
}

#[tokio::test]
async fn what_could_not_be_fetched_is_asked_for_eight_times_and_then_waits_for_an_event() {
    let database = Database::new().await;
    publish(&database, 1, Quality::Dwarf).await;
    let stored = database.store(&[unfetched()]).await;
    assert_eq!(stored[0].requested, None, "not at once: the worker has just tried");
    assert_eq!(
        (RETRY_BACKOFFS[0], RETRY_BACKOFFS[7], RETRY_BACKOFFS.len()),
        (Duration::MINUTE, Duration::hours(6), 8)
    );
    for (tries, pause) in RETRY_BACKOFFS.iter().enumerate() {
        database.wait(*pause - Duration::SECOND);
        assert_eq!(ask_due(&database).await, 0, "try {tries} is not yet due");
        database.wait(Duration::SECOND);
        assert_eq!(ask_due(&database).await, 1);
        assert_eq!(requests_made(&database).await, i64::try_from(tries).unwrap() + 1);
        answer(&database, RequestOutcome::Unchanged).await;
    }
    database.wait(Duration::days(30));
    assert_eq!(ask_due(&database).await, 0);
    let needs = "SELECT count(*) FROM outbox WHERE message -> 'needs' -> 0 ->> 'generation' = '1'";
    assert_eq!(database.number(needs).await, 8, "each for the symbols that there are");
    // An event is another matter: it asks, and where that fails too the clock begins anew.
    let generation = publish(&database, 1, Quality::DwarfSymtab).await;
    assert_eq!(wake(&database, generation).await, 1);
    let mut second = revised(&arrival(1), 2, image(1, false, None));
    second.images[0].failed = true;
    database.store(&[second]).await;
    database.wait(RETRY_BACKOFFS[0]);
    assert_eq!(ask_due(&database).await, 1);
    assert_eq!(requests_made(&database).await, 10);
}

#[tokio::test]
async fn the_clock_stops_when_the_symbols_were_fetched_and_waits_while_an_answer_is_on_its_way() {
    let database = Database::new().await;
    publish(&database, 1, Quality::Dwarf).await;
    database.store(&[unfetched(), arrival(2)]).await;
    let before = requests_made(&database).await;
    assert_eq!(before, 1, "the other report saw no symbols and asks at once");
    database.wait(RETRY_BACKOFFS[0]);
    assert_eq!(ask_due(&database).await, 1);
    // The second try comes due before the first has an answer.
    database.wait(RETRY_BACKOFFS[1]);
    assert_eq!((ask_due(&database).await, requests_made(&database).await), (1, before + 1));
    let tries = "SELECT max(retries)::bigint FROM report_keys";
    assert_eq!(database.number(tries).await, 1, "what was not asked is no try");
    database.store(&[revised(&arrival(1), 2, image(1, false, Some(1)))]).await;
    database.wait(Duration::days(2));
    assert_eq!(ask_due(&database).await, 0);
    assert_eq!(database.number("SELECT count(*) FROM report_keys WHERE retry_at IS NOT NULL").await, 0);
}

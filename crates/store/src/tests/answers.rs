//! Requests that end without a new revision.

use super::database::{Database, acme, arrival, debug_id, publish, start};
use crate::requests::{self, Answer};
use crate::wakes;
use time::Duration;
use unslide_model::Quality;

async fn wake(database: &Database, generation: u64) -> u64 {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let page = wakes::page(&mut tx, &debug_id(1), generation, None, 10).await.unwrap();
    tx.commit().await.unwrap();
    page.requested
}

async fn answered(database: &Database, answer: Answer, at: time::OffsetDateTime) -> bool {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let closed = requests::answered(&mut tx, (arrival(1).report_id, 0), 2, answer, at).await.unwrap();
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
    let now = start() + Duration::minutes(2);
    assert!(!answered(&database, Answer::Unchanged, start()).await, "an answer from before the request");
    assert!(answered(&database, Answer::Unchanged, now).await);
    assert!(!answered(&database, Answer::Unchanged, now).await, "answers come twice");
    assert_eq!(wake(&database, generation).await, 0);
    database.wait(Duration::HOUR);
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 0);
    // Newer ones are, under the same number: it was never used.
    let generation = publish(&database, 1, Quality::Dwarf).await;
    assert_eq!(wake(&database, generation).await, 1);
    let asked = "SELECT (message ->> 'revision')::bigint FROM outbox ORDER BY id DESC LIMIT 1";
    assert_eq!(database.number(asked).await, 2);
}

#[tokio::test]
async fn symbols_that_came_during_a_fruitless_request_are_asked_for_at_its_end() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    let first = publish(&database, 1, Quality::Symtab).await;
    assert_eq!(wake(&database, first).await, 1);
    let second = publish(&database, 1, Quality::Dwarf).await;
    assert_eq!(wake(&database, second).await, 0, "one is on its way");
    assert_eq!(outbox(&database).await, 1);
    assert!(answered(&database, Answer::Unchanged, start() + Duration::SECOND).await);
    assert_eq!(outbox(&database).await, 2, "asked anew at once");
}

#[tokio::test]
async fn a_report_that_is_gone_is_not_asked_for_again() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    let generation = publish(&database, 1, Quality::Symtab).await;
    assert_eq!(wake(&database, generation).await, 1);
    crate::partitions::drop_before(&database.store, start().date().next_day().unwrap()).await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(requests::source(&mut tx, arrival(1).report_id, 0).await.unwrap().is_none());
    tx.rollback().await.unwrap();
    database.wait(Duration::HOUR);
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 0);
    let open = database.number("SELECT count(*) FROM report_keys WHERE requested_at IS NOT NULL").await;
    assert_eq!((open, outbox(&database).await), (0, 1));
    assert!(!answered(&database, Answer::Gone, start() + Duration::HOUR).await);
}

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
    let now = start() + Duration::SECOND;
    assert!(requests::answered(&mut tx, second, 2, Answer::Unchanged, now).await.unwrap());
    assert!(!requests::answered(&mut tx, second, 2, Answer::Unchanged, now).await.unwrap());
    assert!(!requests::answered(&mut tx, (other.report_id, 2), 2, Answer::Unchanged, now).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(open().await, 1, "the first one's is still open");
    // A revision of the first closes the first, by its bytes.
    let better = super::database::revised(&arrival(1), 2, super::database::image(1, false, Some(1)));
    assert_eq!(database.store(&[better]).await[0].variant, 0);
    assert_eq!(open().await, 0);
}

//! The number of statements does not depend on the number of events.

use crate::health::database::{database, event, measured, oldest_day, payload};
use serde_json::json;
use unslide_harness::database::acme;
use unslide_health::store::metrics;
use unslide_health::store::sessions::{self, EndReason};
use unslide_store::Result;
use unslide_testkit::statements;

async fn cost<T>(work: impl Future<Output = Result<T>>) -> usize {
    let (done, statements) = statements::counted(work).await;
    done.unwrap();
    statements
}

#[tokio::test]
async fn events_are_stored_in_the_same_statements_however_many_come_at_once() {
    let database = database().await;
    let keep_from = oldest_day();
    let mut costs = Vec::new();
    // The first makes the version and the day.
    for (batch, events) in [("first", 1), ("few", 2), ("many", 40)] {
        let session = |n: i32, end| event(&format!("{batch}{n}"), "i1", 0, end);
        let begun: Vec<_> = (0..events).map(|n| session(n, None)).collect();
        // As many that complete them, and new ones.
        let mut ended: Vec<_> = (0..2 * events).map(|n| session(n, Some(EndReason::Exited))).collect();
        // Ends that ask for a learned limit, each of another app.
        ended.extend((0..events).map(|n| {
            let mut asking = measured(&format!("{batch}{n}"), 10, None);
            asking.event.app = format!("com.acme.{batch}{n}");
            asking
        }));
        let numbered = |n| payload(&format!("{batch}{n}"), 0, &json!({}));
        let payloads: Vec<_> = (0..events).map(numbered).collect();
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let begun: Vec<_> = begun.iter().collect();
        sessions::store(&mut tx, &begun, keep_from).await.unwrap();
        let (ended, payloads): (Vec<_>, Vec<_>) = (ended.iter().collect(), payloads.iter().collect());
        let sessions = cost(sessions::store(&mut tx, &ended, keep_from)).await;
        costs.push((sessions, cost(metrics::store(&mut tx, &payloads, keep_from)).await));
        tx.commit().await.unwrap();
    }
    assert!(costs[1].0 > 0, "statements are counted");
    assert_eq!(costs[1], costs[2]);
    assert_eq!(database.number("SELECT count(*) FROM sessions").await, 3 * 43);
    assert_eq!(database.number("SELECT count(*) FROM metric_payloads").await, 43);
}

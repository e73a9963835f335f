//! Flags of sessions: what is stored of them, and which event's flags count.

use crate::health::database::{database, dump, event, store_sessions, store_sessions_for};
use serde_json::{Value, json};
use sqlx::Row;
use unslide_harness::database::{TestDatabase, umbrella};
use unslide_health::store::sessions::{EndReason, SessionArrival};
use unslide_store::gateway_events::EventOutcome;

fn flagged(id: &str, end: Option<EndReason>, flags: &Value) -> SessionArrival {
    let mut flagged = event(id, "i1", 0, end);
    flagged.event.flags = flags.as_object().cloned();
    flagged
}

/// Returns the flags of each session, in the order of their ids.
async fn list_flags(database: &TestDatabase) -> Vec<Option<Value>> {
    let rows = database.rows("SELECT flags FROM sessions ORDER BY tenant, session_id").await;
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn the_flags_of_the_first_event_that_has_some_stay() {
    use EventOutcome::{Completed, Duplicate, New};
    let database = database().await;
    let on = json!({"checkout_v2": true, "step": 1});
    let off = json!({"checkout_v2": false});
    let begun = flagged("s1", None, &on);
    let ended = flagged("s1", Some(EndReason::Exited), &off);
    assert_eq!(store_sessions(&database, std::slice::from_ref(&begun)).await, [New]);
    assert_eq!(store_sessions(&database, std::slice::from_ref(&ended)).await, [Completed]);
    let stored = Some(json!({"checkout_v2": "true", "step": "1"}));
    assert_eq!(list_flags(&database).await, std::slice::from_ref(&stored));
    // An end brings the flags of a session that began without, in one batch or in two. Nothing replaces an empty object.
    store_sessions(&database, &[flagged("s2", None, &Value::Null)]).await;
    let late = [
        flagged("s2", Some(EndReason::Exited), &off),
        flagged("s3", None, &Value::Null),
        flagged("s3", Some(EndReason::Exited), &off),
        flagged("s4", None, &json!({})),
        flagged("s4", Some(EndReason::Exited), &off),
        flagged("s5", Some(EndReason::Exited), &Value::Null),
    ];
    store_sessions(&database, &late).await;
    let brought = Some(json!({"checkout_v2": "false"}));
    let expected = [stored, brought.clone(), brought.clone(), Some(json!({})), None];
    assert_eq!(list_flags(&database).await, expected);
    let before = dump(&database).await;
    assert_eq!(store_sessions(&database, &[begun, ended]).await, [Duplicate; 2]);
    assert_eq!(dump(&database).await, before);
    // The same id of another tenant is another session.
    store_sessions_for(&database, &umbrella(), &[flagged("s1", None, &off)]).await;
    let all = [expected.as_slice(), &[brought]].concat();
    assert_eq!(list_flags(&database).await, all);
}

#[tokio::test]
async fn sessions_that_were_counted_before_have_no_flags() {
    let database = database().await;
    let mut counted = flagged("s1", None, &json!({"checkout_v2": true}));
    (counted.event.installation, counted.event.sessions, counted.event.user) = (None, Some(9), None);
    assert_eq!(store_sessions(&database, &[counted]).await, [EventOutcome::New]);
    assert_eq!(list_flags(&database).await, [None]);
}

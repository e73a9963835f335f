//! Live events: in order, none skipped, each app's own.

use crate::live_events::{self, EventPosition, LiveEvent, LiveEventKind, NewLiveEvent};
use crate::tests::database::{Database, acme, arrival, image, publish, revised, tenant_id};
use serde_json::json;
use std::time::Duration;
use unslide_model::Quality;

/// The events after a position, once there are `many`: a transaction of another test may hold them up.
async fn wait(
    database: &Database,
    tenant: &str,
    app: Option<&str>,
    after: EventPosition,
    many: usize,
) -> Vec<LiveEvent> {
    for _ in 0..3_000 {
        let mut tx = database.store.tenant(&tenant_id(tenant)).await.unwrap();
        let found = live_events::after(&mut tx, after, app, 100).await.unwrap();
        if found.events.len() >= many {
            return found.events;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("there are not {many} events");
}

fn kinds(events: &[LiveEvent]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

#[tokio::test]
async fn an_event_that_is_committed_late_is_not_skipped() {
    let database = Database::new().await;
    let new = |n: u8| NewLiveEvent { kind: LiveEventKind::AlertRaised, app: None, data: json!(n) };
    let mut slow = database.store.tenant(&acme()).await.unwrap();
    live_events::note(&mut slow, &[new(1)]).await.unwrap();
    let mut fast = database.store.tenant(&acme()).await.unwrap();
    live_events::note(&mut fast, &[new(2), new(3)]).await.unwrap();
    fast.commit().await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let before = live_events::after(&mut tx, EventPosition::default(), None, 100).await.unwrap();
    assert!(before.events.is_empty(), "one that runs may come before: {before:?}");
    tx.rollback().await.unwrap();
    slow.commit().await.unwrap();
    let events = wait(&database, "acme", None, before.reached, 3).await;
    assert_eq!(
        events.iter().map(|event| event.data.clone()).collect::<Vec<_>>(),
        [1, 2, 3].map(|n| json!(n))
    );
    // A page goes on where the one before has ended.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let page = live_events::after(&mut tx, before.reached, None, 2).await.unwrap();
    assert_eq!(page.reached, events[1].position);
    let rest = live_events::after(&mut tx, page.reached, None, 2).await.unwrap();
    assert_eq!(rest.events, events[2..]);
    assert!(rest.reached >= events[2].position);
    // Of a database that was restored, a position may lie ahead.
    let ahead: EventPosition = format!("{}-1", i64::MAX).parse().unwrap();
    let found = live_events::after(&mut tx, ahead, None, 2).await.unwrap();
    assert!(found.events.is_empty() && found.reached < ahead);
}

#[tokio::test]
async fn reports_groups_and_symbols_tell_of_themselves_once() {
    let database = Database::new().await;
    database.store(&[arrival(3), arrival(6)]).await;
    database.store(&[arrival(3)]).await;
    publish(&database, 1, Quality::Dwarf).await;
    database.store(&[revised(&arrival(3), 2, image(1, false, Some(1)))]).await;
    let all = wait(&database, "acme", None, EventPosition::default(), 5).await;
    let expected = ["reports_stored", "group_created", "symbols_ready", "reports_stored", "group_created"];
    assert_eq!(kinds(&all), expected);
    assert_eq!(all[0].data, json!({"app": "com.acme.shop", "new": 2, "revised": 0}));
    assert_eq!((&all[1].data["title"], &all[1].data["provisional"]), (&json!("bug 0"), &json!(true)));
    assert_eq!(all[3].data, json!({"app": "com.acme.shop", "new": 0, "revised": 1}));
    let of_app = wait(&database, "acme", Some("com.acme.shop"), EventPosition::default(), 4).await;
    assert!(!kinds(&of_app).contains(&"symbols_ready"), "they are of no app");
    for (tenant, app) in [("umbrella", None), ("acme", Some("com.acme.bank"))] {
        assert!(wait(&database, tenant, app, EventPosition::default(), 0).await.is_empty());
    }
    database.clock.advance_micros(25 * 3_600_000_000);
    assert_eq!(live_events::purge(&database.store).await.unwrap(), 5);
}

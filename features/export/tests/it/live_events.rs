//! Live events: in order, none skipped, each app's own.

use crate::live_events::{self, LiveEvent, LiveEventKind, NewLiveEvent};
use crate::tests::database::{Database, acme, arrival, image, publish, revised, tenant_id};
use serde_json::json;
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use unslide_model::Quality;
use unslide_testkit::servers;

/// All events of a tenant that are kept.
async fn kept(database: &Database, tenant: &str, app: Option<&str>) -> Vec<LiveEvent> {
    let mut tx = database.store.tenant(&tenant_id(tenant)).await.unwrap();
    live_events::after(&mut tx, 0, app, 100).await.unwrap().events
}

fn kinds(events: &[LiveEvent]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

fn new(n: u8) -> NewLiveEvent {
    NewLiveEvent { kind: LiveEventKind::GroupCreated, app: None, data: json!(n) }
}

#[tokio::test]
async fn events_are_committed_in_the_order_of_their_numbers() {
    let database = Database::new().await;
    let mut slow = database.store.tenant(&acme()).await.unwrap();
    live_events::note(&mut slow, &[new(1)]).await.unwrap();
    let store = database.store.clone();
    let next = tokio::spawn(async move {
        let mut fast = store.tenant(&acme()).await.unwrap();
        live_events::note(&mut fast, &[new(2), new(3)]).await.unwrap();
        fast.commit().await.unwrap();
    });
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let before = live_events::after(&mut tx, 0, None, 100).await.unwrap();
    assert!(before.events.is_empty(), "{before:?}");
    tx.rollback().await.unwrap();
    slow.commit().await.unwrap();
    next.await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let all = live_events::after(&mut tx, before.reached, None, 100).await.unwrap();
    let found: Vec<_> = all.events.iter().map(|event| (event.number, event.data.clone())).collect();
    assert_eq!(found, [(1, json!(1)), (2, json!(2)), (3, json!(3))]);
    // A page goes on where the one before has ended.
    let page = live_events::after(&mut tx, 0, None, 2).await.unwrap();
    assert_eq!((page.events.len(), page.reached), (2, 2));
    let rest = live_events::after(&mut tx, page.reached, None, 2).await.unwrap();
    assert_eq!((rest.events.len(), rest.reached), (1, 3));
    // Of a database that was restored, a number may lie ahead.
    let found = live_events::after(&mut tx, i64::MAX, None, 2).await.unwrap();
    assert_eq!((found.events.len(), found.reached), (0, 3));
}

#[tokio::test]
async fn numbers_and_the_time_until_an_event_is_read_tell_nothing_of_others() {
    let database = Database::new().await;
    // Another tenant writes, and so does somebody in another database of the server.
    let mut other = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    live_events::note(&mut other, &[new(1), new(2)]).await.unwrap();
    let mut elsewhere = PgConnection::connect(&servers::postgres()).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT pg_current_xact_id()").execute(&mut elsewhere).await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    live_events::note(&mut tx, &[new(3)]).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = live_events::after(&mut tx, 0, None, 100).await.unwrap();
    assert_eq!(found.events.iter().map(|event| event.number).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn reports_groups_and_symbols_tell_of_themselves_once() {
    let database = Database::new().await;
    database.store(&[arrival(3), arrival(6)]).await;
    database.store(&[arrival(3)]).await;
    publish(&database, 1, Quality::Dwarf).await;
    database.store(&[revised(&arrival(3), 2, image(1, false, Some(1)))]).await;
    let all = kept(&database, "acme", None).await;
    let expected = ["reports_stored", "group_created", "symbols_ready", "reports_stored", "group_created"];
    assert_eq!(kinds(&all), expected);
    assert_eq!(all[0].data, json!({"app": "com.acme.shop", "new": 2, "revised": 0}));
    assert_eq!((&all[1].data["title"], &all[1].data["provisional"]), (&json!("bug 0"), &json!(true)));
    assert_eq!(all[3].data, json!({"app": "com.acme.shop", "new": 0, "revised": 1}));
    let of_app = kept(&database, "acme", Some("com.acme.shop")).await;
    assert!(!kinds(&of_app).contains(&"symbols_ready"), "they are of no app");
    for (tenant, app) in [("umbrella", None), ("acme", Some("com.acme.bank"))] {
        assert!(kept(&database, tenant, app).await.is_empty());
    }
    database.clock.advance_micros(25 * 3_600_000_000);
    assert_eq!(live_events::purge(&database.store).await.unwrap(), 5);
}

//! Live events: in order, none skipped, each app's own.

use serde_json::json;
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use time::Duration;
use unslide_export::live_events::{self, EVENT_HOOK, LiveEvent, NewLiveEvent};
use unslide_harness::database::{TestDatabase, acme, arrival, grouping, umbrella};
use unslide_model::{ContentHash, DebugId, Quality, TenantId};
use unslide_store::slots::{self, PublishedSymbols};
use unslide_store::{Announcement, StoreHook, announce_to_features};
use unslide_testkit::servers;

/// All events of a tenant that are kept.
async fn kept(database: &TestDatabase, tenant: &TenantId, app: Option<&str>) -> Vec<LiveEvent> {
    let mut tx = database.store.tenant(tenant).await.unwrap();
    live_events::events_after(&mut tx, 0, app, 100).await.unwrap().events
}

fn kinds(events: &[LiveEvent]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

fn new(n: u8) -> NewLiveEvent {
    NewLiveEvent { kind: "group_created", app: None, data: json!(n) }
}

#[tokio::test]
async fn events_are_committed_in_the_order_of_their_numbers() {
    let database = TestDatabase::new(&[]).await;
    let mut slow = database.store.tenant(&acme()).await.unwrap();
    live_events::append_events(&mut slow, &[new(1)]).await.unwrap();
    let store = database.store.clone();
    let next = tokio::spawn(async move {
        let mut fast = store.tenant(&acme()).await.unwrap();
        live_events::append_events(&mut fast, &[new(2), new(3)]).await.unwrap();
        fast.commit().await.unwrap();
    });
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let before = live_events::events_after(&mut tx, 0, None, 100).await.unwrap();
    assert!(before.events.is_empty(), "{before:?}");
    tx.rollback().await.unwrap();
    slow.commit().await.unwrap();
    next.await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let all = live_events::events_after(&mut tx, before.reached, None, 100).await.unwrap();
    let found: Vec<_> = all.events.iter().map(|event| (event.number, event.data.clone())).collect();
    assert_eq!(found, [(1, json!(1)), (2, json!(2)), (3, json!(3))]);
    // A page goes on where the one before has ended.
    let page = live_events::events_after(&mut tx, 0, None, 2).await.unwrap();
    assert_eq!((page.events.len(), page.reached), (2, 2));
    let rest = live_events::events_after(&mut tx, page.reached, None, 2).await.unwrap();
    assert_eq!((rest.events.len(), rest.reached), (1, 3));
    // Of a database that was restored, a number may lie ahead.
    let found = live_events::events_after(&mut tx, i64::MAX, None, 2).await.unwrap();
    assert_eq!((found.events.len(), found.reached), (0, 3));
}

#[tokio::test]
async fn numbers_and_the_time_until_an_event_is_read_tell_nothing_of_others() {
    let database = TestDatabase::new(&[]).await;
    // Another tenant writes, and so does a client of another database of the server.
    let mut other = database.store.tenant(&umbrella()).await.unwrap();
    live_events::append_events(&mut other, &[new(1), new(2)]).await.unwrap();
    let mut elsewhere = PgConnection::connect(&servers::postgres()).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT pg_current_xact_id()").execute(&mut elsewhere).await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    live_events::append_events(&mut tx, &[new(3)]).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = live_events::events_after(&mut tx, 0, None, 100).await.unwrap();
    assert_eq!(found.events.iter().map(|event| event.number).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn reports_groups_and_symbols_tell_of_themselves_once() {
    let database = TestDatabase::new(&[EVENT_HOOK]).await;
    database.store(&[arrival(3), arrival(6)]).await;
    database.store(&[arrival(3)]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let symbols = PublishedSymbols {
        debug_id: DebugId([1; 16]),
        quality: Quality::Dwarf,
        content_hash: ContentHash([1; 32]),
        symcache_version: 1,
        generation: 0,
    };
    slots::publish_symbols(&mut tx, &symbols).await.unwrap();
    tx.commit().await.unwrap();
    let mut revised = arrival(3);
    revised.revision = 2;
    revised.facts.grouping = Some(grouping(1, false));
    database.store(&[revised]).await;
    let all = kept(&database, &acme(), None).await;
    let expected = ["reports_stored", "group_created", "symbols_ready", "reports_stored", "group_created"];
    assert_eq!(kinds(&all), expected);
    assert_eq!(all[0].data, json!({"app": "com.acme.shop", "new": 2, "revised": 0}));
    assert_eq!((&all[1].data["title"], &all[1].data["provisional"]), (&json!("bug 0"), &json!(true)));
    assert_eq!((&all[2].data["debug_id"], &all[2].data["generation"]), (&json!(DebugId([1; 16])), &json!(1)));
    assert_eq!(all[3].data, json!({"app": "com.acme.shop", "new": 0, "revised": 1}));
    let of_app = kept(&database, &acme(), Some("com.acme.shop")).await;
    assert!(!kinds(&of_app).contains(&"symbols_ready"), "they belong to no app");
    for (tenant, app) in [(umbrella(), None), (acme(), Some("com.acme.bank"))] {
        assert!(kept(&database, &tenant, app).await.is_empty());
    }
    database.wait(Duration::hours(25));
    assert_eq!(unslide_store::tables::purge_old_rows(&database.store).await.unwrap(), 5);
}

#[tokio::test]
async fn events_lose_titles_that_were_removed() {
    let database = TestDatabase::new(&[EVENT_HOOK]).await;
    database.store(&[arrival(1)]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    announce_to_features(&mut tx, &[Announcement::texts_removed()]).await.unwrap();
    tx.commit().await.unwrap();
    let events = kept(&database, &acme(), None).await;
    assert_eq!(kinds(&events), ["reports_stored", "group_created", "texts_removed"]);
    assert_eq!((&events[1].data["title"], &events[1].data["app"]), (&json!(null), &json!("com.acme.shop")));
}

#[tokio::test]
async fn announcements_of_features_are_events() {
    let other = StoreHook::new("other");
    let database = TestDatabase::new(&[other, EVENT_HOOK]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let app = Some("com.acme.shop".to_owned());
    announce_to_features(&mut tx, &[Announcement { kind: "it_happened", app, data: json!({"n": 1}) }])
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let events = kept(&database, &acme(), Some("com.acme.shop")).await;
    assert_eq!((kinds(&events), &events[0].data), (vec!["it_happened"], &json!({"n": 1})));
}

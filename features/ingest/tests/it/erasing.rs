//! The erasure of what came with a key: what goes, what stays, and what is kept away.

use crate::ingest::ingest_api::{APP, public_key, start as start_api};
use serde_json::{Value, json};
use sqlx::Row;
use std::time::Duration as StdDuration;
use time::{Duration, OffsetDateTime};
use unslide_harness::database::{TestDatabase, acme, arrival, start};
use unslide_health::store::HEALTH_HOOK;
use unslide_health::store::sessions::{self, SessionArrival, SessionEvent};
use unslide_ingest::erasure::{begin_erasure, count_removal, end_search, search_for_erasure};
use unslide_model::{SenderKeyId, TenantId};
use unslide_proto::event::GatewayEvent;
use unslide_store::Uuid;
use unslide_store::erasure_requests::ErasureState;
use unslide_store::gateway_events::EventOutcome;
use unslide_store::key_erasures::{self, KeyErasure, KeyRange};
use unslide_store::reports::Arrival;
use unslide_world::{Browser, encode_form, redirect_location};

fn key(id: &str) -> SenderKeyId {
    SenderKeyId::parse(id).unwrap()
}

/// A report that came with a key.
fn keyed(n: u8, id: &str, version: &str) -> Arrival {
    let mut arrival = arrival(n);
    arrival.facts.sender_key = Some(key(id));
    arrival.facts.version = version.to_owned();
    arrival
}

fn session(id: &str, came_with: Option<SenderKeyId>) -> SessionArrival {
    let json = json!({"id": id, "installation": "phone", "app": "com.acme.shop", "version": "1.0",
        "started_at": "2026-11-20T07:00:00Z"});
    let event = SessionEvent::from_json(json.to_string().as_bytes()).unwrap();
    SessionArrival { event, received_at: start(), sender_key: came_with }
}

async fn store_sessions(database: &TestDatabase, arrivals: &[SessionArrival]) -> Vec<EventOutcome> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let arrivals: Vec<&SessionArrival> = arrivals.iter().collect();
    let outcomes = sessions::store(&mut tx, &arrivals, (start() - Duration::days(90)).date()).await.unwrap();
    tx.commit().await.unwrap();
    outcomes
}

/// Three reports of a key in two versions, one of another key, and one of a gateway.
fn arrivals() -> [Arrival; 5] {
    [
        keyed(1, "0a1b2c3d", "1.0"),
        keyed(2, "0a1b2c3d", "1.0"),
        keyed(3, "0a1b2c3d", "2.0"),
        keyed(4, "ffffffff", "1.0"),
        arrival(5),
    ]
}

async fn database() -> TestDatabase {
    let database = TestDatabase::new(&[HEALTH_HOOK]).await;
    database.store(&arrivals()).await;
    let sent = [session("a", Some(key("0a1b2c3d"))), session("b", Some(key("ffffffff"))), session("c", None)];
    assert_eq!(store_sessions(&database, &sent).await, [EventOutcome::New; 3]);
    database.wait(Duration::HOUR);
    database
}

/// The range from the start of the test to now.
fn range(database: &TestDatabase, version: Option<&str>) -> KeyRange {
    let (begin, end) = (start(), database.now());
    KeyRange { key: key("0a1b2c3d"), begin, end, version: version.map(str::to_owned) }
}

async fn request(database: &TestDatabase, range: &KeyRange) -> KeyErasure {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let erasure = begin_erasure(&mut tx, range, "test").await.unwrap().unwrap();
    tx.commit().await.unwrap();
    erasure
}

/// Runs both searches, and returns the erasure as it is then.
async fn finish(database: &TestDatabase, id: Uuid) -> KeyErasure {
    let tenant: TenantId = acme();
    loop {
        let mut tx = database.store.tenant(&tenant).await.unwrap();
        let erasure = key_erasures::get_erasure(&mut tx, id).await.unwrap().unwrap();
        tx.rollback().await.unwrap();
        if !erasure.is_open() {
            return erasure;
        }
        assert!(search_for_erasure(&database.store, &tenant, &erasure).await.unwrap());
        let mut tx = database.store.tenant(&tenant).await.unwrap();
        end_search(&mut tx, &erasure).await.unwrap();
        tx.commit().await.unwrap();
    }
}

async fn count_reports(database: &TestDatabase) -> i64 {
    let rows = database.number("SELECT count(*) FROM reports").await;
    let grouped = "SELECT coalesce(sum(reports), 0)::bigint FROM groups";
    assert_eq!(database.number(grouped).await, rows, "the groups count the reports that are stored");
    let of_days = "SELECT coalesce(sum(reports), 0)::bigint FROM app_days";
    assert_eq!(database.number(of_days).await, rows, "so do the days of versions");
    rows
}

/// Proves: deletion
#[tokio::test]
async fn everything_of_a_key_is_erased_and_nothing_of_others() {
    let database = database().await;
    assert_eq!(count_reports(&database).await, 5);
    let range = range(&database, None);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let counted = count_removal(&mut tx, &range).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((counted.would_remove, counted.complete), ([("reports", 3), ("sessions", 1)].into(), true));
    assert_eq!(count_reports(&database).await, 5, "a dry run removes nothing");
    let requested = request(&database, &range).await;
    let ended = finish(&database, requested.id).await;
    assert_eq!(ended.state, ErasureState::Done);
    assert_eq!(ended.removed, [("reports".to_owned(), 3), ("sessions".to_owned(), 1)].into());
    assert_eq!(count_reports(&database).await, 2);
    let left = database.rows("SELECT session_id FROM sessions ORDER BY 1").await;
    assert_eq!(left.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>(), ["b", "c"]);
    let audited = database
        .rows("SELECT action, detail::text FROM audit_log WHERE subject = '0a1b2c3d' ORDER BY action")
        .await;
    let actions: Vec<String> = audited.iter().map(|row| row.get(0)).collect();
    assert_eq!(actions, ["public_key.erase", "public_key.erased"]);
    assert!(audited[1].get::<String, _>(1).contains("\"reports\": 3"));
}

#[tokio::test]
async fn one_version_of_a_part_of_the_time_is_erased_alone() {
    let database = database().await;
    let mut part = range(&database, Some("1.0"));
    part.begin = start() + Duration::seconds(2);
    let requested = request(&database, &part).await;
    let ended = finish(&database, requested.id).await;
    assert_eq!(ended.removed, [("reports".to_owned(), 1)].into());
    assert_eq!(count_reports(&database).await, 4);
}

/// Proves: deletion
#[tokio::test]
async fn what_arrived_in_the_range_and_is_stored_later_is_kept_away() {
    let database = database().await;
    let requested = request(&database, &range(&database, Some("1.0"))).await;
    // Not yet erased: the symbolizer is late with one report, and a summary is late, too.
    database.store(&[keyed(11, "0a1b2c3d", "1.0")]).await;
    assert_eq!(
        store_sessions(&database, &[session("d", Some(key("0a1b2c3d")))]).await,
        [EventOutcome::Deleted]
    );
    finish(&database, requested.id).await;
    assert_eq!(count_reports(&database).await, 3);
    // As after a rebuild of the store: nothing knows the reports that were erased.
    database.execute("DELETE FROM report_keys WHERE deleted_at IS NOT NULL").await;
    database.store(&arrivals()).await;
    assert_eq!(count_reports(&database).await, 3);
    let later: OffsetDateTime = database.now() + Duration::MINUTE;
    let later = Arrival { received_at: later, ..keyed(12, "0a1b2c3d", "1.0") };
    database.store(&[keyed(13, "0a1b2c3d", "3.0"), keyed(14, "ffffffff", "1.0"), arrival(15), later]).await;
    assert_eq!(count_reports(&database).await, 7);
}

/// Proves: deletion
#[tokio::test]
async fn an_erasure_that_was_cut_off_goes_on_and_counts_each_row_once() {
    let database = TestDatabase::new(&[HEALTH_HOOK]).await;
    let many: Vec<Arrival> = (1..=120).map(|n| keyed(n, "0a1b2c3d", "1.0")).collect();
    database.store(&many).await;
    database.wait(Duration::HOUR);
    let requested = request(&database, &range(&database, None)).await;
    let tenant = acme();
    let mut cut = 0;
    // The process ends in the middle of any statement.
    while tokio::time::timeout(
        StdDuration::from_millis(40 + cut),
        search_for_erasure(&database.store, &tenant, &requested),
    )
    .await
    .is_err()
    {
        cut += 7;
    }
    let ended = finish(&database, requested.id).await;
    assert_eq!(ended.removed, [("reports".to_owned(), 120)].into());
    assert_eq!(count_reports(&database).await, 0);
}

/// Proves: isolation
#[tokio::test]
async fn an_administrator_erases_by_the_api_and_on_the_page() {
    let world = start_api().await;
    let admin = world.create_master_key("acme").await;
    let id = public_key(&world, "acme", &[APP]).await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/public-keys/{id}");
    let wanted = json!({"from": "2026-11-01T00:00:00Z", "to": "2099-01-01T00:00:00Z", "version": "1.0"});
    let erasures = format!("{path}/erasures");
    let erasure = world.post_json(&erasures, &admin, &wanted).await.expect_status(202);
    assert_eq!((&erasure["state"], &erasure["version"]), (&json!("searching"), &json!("1.0")));
    let time = |member: &str| erasure[member].as_str().unwrap();
    assert!(time("to") <= time("requested_at"), "the range ends now at the latest: {erasure}");
    let mut dry_run = wanted.clone();
    dry_run["dry_run"] = true.into();
    let counted = world.post_json(&erasures, &admin, &dry_run).await.expect_status(200);
    assert_eq!(counted, json!({"would_remove": {}, "complete": true}));
    let shown = world.get(&path, &admin).await.expect_status(200);
    assert_eq!(shown["erasures"], json!([erasure]));
    let wrong = json!({"from": "2099-01-01T00:00:00Z"});
    world.post_json(&erasures, &admin, &wrong).await.expect_problem(400, "invalid-body");
    let foreign = world.create_master_key("umbrella").await;
    world.post_json(&erasures, &foreign, &wanted).await.expect_problem(404, "not-found");
    let other_app = world.key_for("acme", &unslide_model::Scope::ALL, Some("com.example.other")).await;
    world.post_json(&erasures, &other_app, &wanted).await.expect_problem(404, "not-found");
    let browser = Browser::signed_in(&world, &admin).await;
    let form = |sure: &str| {
        encode_form(&[("from", "2026-11-02T09:00"), ("to", ""), ("version", ""), (sure, "true")])
    };
    let action = format!("/console/public-keys/{id}/erase");
    assert_eq!(browser.post(&action, form("no")).await.status.as_u16(), 400);
    assert_eq!(redirect_location(&browser.post(&action, form("sure")).await), "/console/public-keys");
    let page = browser.fetch_page("/console/public-keys").await;
    assert!(page.contains("2026-11-02 09:00 UTC to "), "{page}");
    assert!(page.contains(", version 1.0: searching, removed 0 reports and 0 sessions"), "{page}");
    let audited = world.number("SELECT count(*) FROM audit_log WHERE action = 'public_key.erase'").await;
    assert_eq!(audited, 2);
    let queued: Value = json!(world.number("SELECT count(*) FROM jobs WHERE kind = 'erase_key'").await);
    assert_eq!(queued, json!(2));
    for _ in 0..18 {
        world.post_json(&erasures, &admin, &wanted).await.expect_status(202);
    }
    world.post_json(&erasures, &admin, &wanted).await.expect_problem(409, "limit-reached");
    world.stop().await;
}

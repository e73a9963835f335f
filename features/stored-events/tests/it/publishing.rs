//! What readers of the topic get, from a running api and a real Kafka.

use crate::stored_events::reports::{report_of_run, revise_report};
use std::collections::BTreeMap;
use unslide_harness::database::arrival;
use unslide_proto::Message;
use unslide_proto::stored::StoredEvent;
use unslide_store::reports::{self, Arrival, Effects};
use unslide_store::{erasure, partitions};
use unslide_stored_events::Config;
use unslide_stream::{Record, scan};
use unslide_world::{World, start_gate, tenant_id, wait_until};

/// Starts an api with this feature alone.
pub async fn start_api(enabled: bool, change: impl FnOnce(&mut unslide_api::Config)) -> World {
    let mut config = Config::default();
    config.stored_events.enabled = enabled;
    config.stored_events.look_millis = 30;
    let feature = unslide_stored_events::feature(&config);
    World::start(unslide_feature::for_api(&[feature]), change).await
}

/// Stores reports of a tenant as the indexer does.
pub async fn store_for_tenant(world: &World, tenant: &str, arrivals: &[Arrival]) {
    let day = arrivals[0].received_at.date();
    partitions::ensure_partitions(&world.store, day, day).await.unwrap();
    let mut tx = world.store.tenant(&tenant_id(tenant)).await.unwrap();
    reports::store_arrivals(&mut tx, arrivals, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
}

/// A report that arrives now.
fn arrive_now(world: &World, report: Arrival) -> Arrival {
    Arrival { received_at: world.store.now(), ..report }
}

async fn read_topic(world: &World) -> Vec<Record> {
    let kafka = &world.config.kafka;
    scan::whole_topic(kafka, &kafka.topic_names().stored).await.unwrap()
}

fn decode_event(record: &Record) -> StoredEvent {
    StoredEvent::decode(record.value.clone().unwrap()).unwrap()
}

/// Waits for a number of events, and returns them by their versions, with their records.
pub async fn wait_for_events(world: &World, at_least: usize) -> Vec<(StoredEvent, Record)> {
    assert!(wait_until(async || read_topic(world).await.len() >= at_least).await);
    let mut events: Vec<_> =
        read_topic(world).await.into_iter().map(|record| (decode_event(&record), record)).collect();
    events.sort_by_key(|(event, _)| event.version);
    events
}

async fn wait_until_sent(world: &World) {
    assert!(wait_until(async || world.number("SELECT count(*) FROM stored_events").await == 0).await);
}

/// Returns the last event of each report that is not deleted: what a table of a reader has.
fn fold_events(events: &[(StoredEvent, Record)]) -> Vec<StoredEvent> {
    let mut rows = BTreeMap::new();
    for (event, _) in events {
        rows.insert((event.tenant.clone(), event.report_id.clone(), event.variant), event.clone());
    }
    rows.into_values().filter(|event| !event.deleted).collect()
}

#[tokio::test]
async fn a_table_made_of_the_events_counts_what_the_api_counts() {
    let world = start_api(true, |_| {}).await;
    let admin = world.create_master_key("acme").await;
    let new: Vec<Arrival> = [arrival(1), arrival(2), report_of_run(3, 9, false), report_of_run(4, 9, true)]
        .map(|report| arrive_now(&world, report))
        .into();
    store_for_tenant(&world, "acme", &new).await;
    store_for_tenant(&world, "umbrella", &[arrive_now(&world, arrival(1))]).await;
    store_for_tenant(&world, "acme", &[revise_report(&new[0])]).await;
    assert_eq!(reports::count_once(&world.store, 10).await.unwrap(), 1);
    let path = format!("/v1/reports/{}", new[1].report_id);
    world.delete(&path, &admin).await.expect_status(204);
    let events = wait_for_events(&world, 8).await;
    assert_eq!(events.len(), 8);
    for (event, record) in &events {
        let key = format!("{}/{}", event.tenant, event.report_id);
        assert_eq!(record.key.as_deref(), Some(key.as_bytes()));
        assert_eq!(record.headers.get_text("tenant"), Some(event.tenant.as_str()));
        assert_eq!(record.headers.get_number::<i64>("idempotency-key"), Some(event.version));
    }
    let rows = fold_events(&events);
    let app = world.get("/v1/apps", &admin).await.expect_status(200)["items"][0].clone();
    let counted = rows.iter().filter(|row| row.tenant == "acme" && row.same_crash_as.is_empty());
    let (reports, crashes) = counted.fold((0, 0), |(reports, crashes), row| {
        (reports + row.weight, crashes + if row.fatal { row.weight } else { 0 })
    });
    assert_eq!(
        (app["reports"].as_u64(), app["crashes"].as_u64()),
        (Some(reports.into()), Some(crashes.into()))
    );
    assert_eq!((reports, rows.len()), (2, 4), "{rows:?}");
    let listed = world.get("/v1/reports", &admin).await.expect_status(200);
    for row in rows.iter().filter(|row| row.tenant == "acme") {
        let entries = listed["items"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["id"] == row.report_id.as_str());
        assert!(entry.is_some_and(|entry| entry["revision"] == row.revision), "{row:?} {listed}");
    }
    wait_until_sent(&world).await;
    world.wait_for_metric("unslide_api_stored_events_total{outcome=\"sent\"}", 8.0).await;
    world.wait_for_metric("unslide_api_stored_events_lag_seconds", 0.0).await;
    world.stop().await;
}

#[tokio::test]
async fn an_outage_of_kafka_loses_no_event() {
    let (port, kafka) = start_gate().await;
    let world = start_api(true, |config| config.kafka.bootstrap = format!("127.0.0.1:{port}")).await;
    let reports: Vec<Arrival> = (1..=40).map(|n| arrive_now(&world, arrival(n))).collect();
    store_for_tenant(&world, "acme", &reports).await;
    store_for_tenant(&world, "acme", &reports.iter().map(revise_report).collect::<Vec<_>>()).await;
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    assert!(reports::delete_report(&mut tx, reports[0].report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    assert!(
        wait_until(async || world.read_metric("unslide_api_stored_events_lag_seconds") >= 2.0).await,
        "the backlog is seen"
    );
    assert_eq!(world.number("SELECT count(*) FROM stored_events").await, 81);
    kafka.send_replace(Some(world.config.kafka.bootstrap.clone()));
    wait_until_sent(&world).await;
    let events = wait_for_events(&world, 81).await;
    let rows = fold_events(&events);
    assert_eq!(rows.len(), 39);
    assert!(rows.iter().all(|row| row.revision == 2 && row.status == "complete"));
    let revisions = events.iter().filter(|(event, _)| !event.deleted);
    let mut revisions: Vec<_> =
        revisions.map(|(event, _)| (event.report_id.as_str(), event.revision)).collect();
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len(), 80, "each revision has its event");
    world.stop().await;
}

#[tokio::test]
async fn an_event_that_is_sent_twice_has_one_version() {
    let world = start_api(true, |_| {}).await;
    // Kafka has the event, and the database cannot say so.
    world.execute("REVOKE DELETE ON stored_events FROM unslide_service").await;
    store_for_tenant(&world, "acme", &[arrive_now(&world, arrival(1))]).await;
    let events = wait_for_events(&world, 2).await;
    world.execute("GRANT DELETE ON stored_events TO unslide_service").await;
    wait_until_sent(&world).await;
    assert!(events.iter().all(|(event, _)| *event == events[0].0), "{events:?}");
    assert!(world.read_metric("unslide_api_stored_events_total{outcome=\"failed\"}") >= 1.0);
    world.stop().await;
}

/// Proves: deletion
#[tokio::test]
async fn readers_learn_that_a_tenant_is_deleted() {
    let world = start_api(true, |_| {}).await;
    store_for_tenant(&world, "acme", &[arrive_now(&world, arrival(1))]).await;
    wait_until_sent(&world).await;
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    wait_until_sent(&world).await;
    let events = wait_for_events(&world, 2).await;
    let (end, record) = events.last().unwrap();
    assert!(end.deleted && end.report_id.is_empty() && end.tenant == "acme", "{end:?}");
    assert_eq!(record.key.as_deref(), Some(&b"acme"[..]));
    world.stop().await;
}

#[tokio::test]
async fn an_installation_without_events_writes_and_sends_none() {
    let world = start_api(false, |_| {}).await;
    store_for_tenant(&world, "acme", &[arrive_now(&world, arrival(1))]).await;
    assert_eq!(world.number("SELECT count(*) FROM stored_events").await, 0);
    assert!(read_topic(&world).await.is_empty());
    world.stop().await;
}

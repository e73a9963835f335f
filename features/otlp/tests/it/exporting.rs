//! A collector gets each crash with its group and link, again with each revision, and after an outage or a change of its settings.

use crate::otlp::collector::{Collector, Reply, attribute};
use crate::otlp::otlp_api::{start, start_with};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use time::OffsetDateTime;
use unslide_harness::database::arrival;
use unslide_model::{ContentHash, ReportId};
use unslide_store::partitions;
use unslide_store::reports::{self, Arrival, Effects};
use unslide_world::{World, tenant_id, wait_until};

/// A report number `n` of a revision, with a stack that was symbolicated.
fn crash(received_at: OffsetDateTime, n: u8, revision: u32, function: &str) -> Arrival {
    let frame = json!({"instruction_addr": 4_295_000_080_u64, "object_addr": 4_294_967_296_u64, "object_name": "Shop",
        "symbolication": {"status": "symbolicated", "debug_id": "70b89f27-1634-3580-a695-57cdb41d7743", "calls": [{"function": function, "file": "/src/Cart.swift", "line": 12}]}});
    let body = json!({"report": {"id": format!("{n:02x}").repeat(16)},
        "crash": {"error": {"type": "mach", "mach": {"exception_name": "EXC_BAD_ACCESS"}, "signal": {"name": "SIGSEGV"}},
            "threads": [{"index": 0, "crashed": true, "backtrace": {"contents": [frame]}}]},
        "binary_images": [{"image_addr": 4_294_967_296_u64, "image_size": 65_536, "name": "/var/Shop.app/Shop", "uuid": "70B89F27-1634-3580-A695-57CDB41D7743"}],
        "symbolication": {"version": 1, "engine": "unslide/0.1.0", "revision": revision, "status": "complete", "frames": {"total": 1, "symbolicated": 1}}});
    let body = body.to_string();
    let base = arrival(n);
    Arrival {
        revision,
        body: unslide_proto::body::compress_report(body.as_bytes()),
        size: body.len().try_into().unwrap(),
        received_at,
        ..base
    }
}

/// Stores reports as the indexer does.
async fn store(world: &World, arrivals: &[Arrival]) {
    let day = arrivals[0].received_at.date();
    partitions::ensure_partitions(&world.store, day, day).await.unwrap();
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    reports::store_arrivals(&mut tx, arrivals, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
}

async fn set_export(world: &World, admin: &str, collector: &Collector) {
    let headers = json!({"authorization": "Bearer abc"});
    let body = json!({"export": {"url": collector.url(), "headers": headers}});
    world.send(world.request(Method::PUT, "/v1/otlp", admin).json(&body)).await.expect_status(200);
}

/// Waits until a turn has sent all reports, and has ended.
async fn wait_until_empty(world: &World, admin: &str) {
    let is_empty = wait_until(async || {
        let state = read_export(world, admin).await;
        state["waiting"] == 0 && state["problem"].is_null()
    });
    assert!(is_empty.await, "{}", read_export(world, admin).await);
}

async fn wait_for_problem(world: &World, admin: &str, named: &str) {
    let is_named = async || {
        read_export(world, admin).await["problem"].as_str().is_some_and(|problem| problem.contains(named))
    };
    assert!(wait_until(is_named).await, "{}", read_export(world, admin).await);
}

/// Ends the pause after a failure.
async fn send_now(world: &World) {
    world.execute("UPDATE otlp_settings SET next_send_at = now()").await;
}

fn id_text(n: u8) -> String {
    ReportId([n; 16]).to_string()
}

async fn read_export(world: &World, admin: &str) -> Value {
    world.get("/v1/otlp", admin).await.expect_status(200)["export"].clone()
}

#[tokio::test]
async fn a_crash_is_sent_with_its_stack_and_again_with_a_revision() {
    let collector = Collector::start().await;
    let world = start(collector.port).await;
    let (admin, at) = (world.create_master_key("acme").await, world.store.now());
    // What was stored before is not sent.
    store(&world, &[crash(at, 1, 1, "before")]).await;
    set_export(&world, &admin, &collector).await;
    store(&world, &[crash(at, 2, 1, "Cart.total")]).await;
    let first = collector.wait_for_records(1).await.remove(0);
    assert_eq!(first.event_name, "app.crash");
    let id = "02020202-0202-0202-0202-020202020202";
    assert_eq!(attribute(&first, "app.crash.id"), id);
    assert_eq!(attribute(&first, "exception.type"), "EXC_BAD_ACCESS");
    let stack = attribute(&first, "exception.stacktrace");
    assert!(stack.contains("Shop  Cart.total (Cart.swift:12)"), "{stack}");
    assert_eq!(attribute(&first, "unslide.report.revision"), "1");
    assert!(!attribute(&first, "unslide.group.id").is_empty());
    let link = format!("https://crashes.example.com/console/reports/{id}");
    assert_eq!(attribute(&first, "unslide.report.url"), link);
    assert_eq!(collector.authorization().as_deref(), Some("Bearer abc"));
    store(&world, &[crash(at, 2, 2, "Cart.sum")]).await;
    let second = collector.wait_for_records(2).await.remove(1);
    assert_eq!(attribute(&second, "unslide.report.revision"), "2");
    assert!(attribute(&second, "exception.stacktrace").contains("Cart.sum"));
    assert_ne!(attribute(&first, "log.record.uid"), attribute(&second, "log.record.uid"));
    wait_until_empty(&world, &admin).await;
    world.stop().await;
}

#[tokio::test]
async fn an_outage_of_the_collector_loses_nothing() {
    let collector = Collector::start().await;
    let world = start(collector.port).await;
    let (admin, at) = (world.create_master_key("acme").await, world.store.now());
    set_export(&world, &admin, &collector).await;
    for (reply, named) in [(Reply::Status(503), "503"), (Reply::Page, "export.url")] {
        collector.reply_with(reply);
        let before = world.number("SELECT count(*) FROM otlp_outbox").await;
        let n = u8::try_from(before).unwrap();
        store(&world, &[crash(at, 3 + n, 1, "a"), crash(at, 4 + n, 1, "b")]).await;
        wait_for_problem(&world, &admin, named).await;
        let state = read_export(&world, &admin).await;
        assert_eq!((&state["waiting"], &state["sent_at"]), (&json!(before + 2), &Value::Null), "{state}");
    }
    collector.reply_with(Reply::Take);
    send_now(&world).await;
    assert_eq!(collector.wait_for_records(4).await.len(), 4);
    wait_until_empty(&world, &admin).await;
    let state = read_export(&world, &admin).await;
    assert!(state["problem"].is_null() && state["sent_at"].is_string(), "{state}");
    assert_eq!(state["dropped"], 0);
    world.stop().await;
}

#[tokio::test]
async fn a_collector_that_refuses_all_records_empties_no_outbox() {
    let collector = Collector::start().await;
    let world = start(collector.port).await;
    let (admin, at) = (world.create_master_key("acme").await, world.store.now());
    set_export(&world, &admin, &collector).await;
    collector.reply_with(Reply::Status(400));
    let crashes: Vec<Arrival> = (1..=30).map(|n| crash(at, n, 1, "a")).collect();
    store(&world, &crashes).await;
    wait_for_problem(&world, &admin, "400").await;
    let state = read_export(&world, &admin).await;
    assert_eq!((&state["waiting"], &state["dropped"]), (&json!(30), &json!(0)), "{state}");
    // One record among others that the collector takes is given up, and the tenant reads why.
    collector.reply_with(Reply::Refuse(vec![id_text(7)]));
    send_now(&world).await;
    wait_until_empty(&world, &admin).await;
    let records = collector.wait_for_records(29).await;
    assert!(
        records.len() == 29 && records.iter().all(|record| attribute(record, "app.crash.id") != id_text(7))
    );
    let state = read_export(&world, &admin).await;
    assert_eq!((&state["dropped"], &state["problem"]), (&json!(1), &Value::Null), "{state}");
    assert!(state["drop_reason"].as_str().unwrap().contains("400"), "{state}");
    // The one by itself waits until another is taken.
    store(&world, &[crash(at, 7, 2, "b")]).await;
    wait_for_problem(&world, &admin, "400").await;
    assert_eq!(read_export(&world, &admin).await["waiting"], 1);
    store(&world, &[crash(at, 31, 1, "c")]).await;
    send_now(&world).await;
    wait_until_empty(&world, &admin).await;
    assert_eq!(read_export(&world, &admin).await["dropped"], 2);
    // Those that a partial success rejects are counted.
    collector.reply_with(Reply::Reject(2));
    store(&world, &[crash(at, 32, 1, "d"), crash(at, 33, 1, "e")]).await;
    wait_until_empty(&world, &admin).await;
    let state = read_export(&world, &admin).await;
    assert_eq!(state["dropped"], 4);
    assert!(state["drop_reason"].as_str().unwrap().contains("has rejected 2"), "{state}");
    world.stop().await;
}

#[tokio::test]
async fn a_turn_under_way_ends_with_its_settings() {
    let (old, new) = (Collector::start().await, Collector::start().await);
    let world = start_with(&[old.port, new.port], |_| {}).await;
    let (admin, at) = (world.create_master_key("acme").await, world.store.now());
    old.hold_answers(true);
    set_export(&world, &admin, &old).await;
    let crashes: Vec<Arrival> = (1..=120).map(|n| crash(at, n, 1, "a")).collect();
    store(&world, &crashes).await;
    assert!(wait_until(async || old.count_requests() == 1).await);
    set_export(&world, &admin, &new).await;
    old.hold_answers(false);
    let ids: BTreeSet<String> =
        new.wait_for_records(120).await.iter().map(|record| attribute(record, "app.crash.id")).collect();
    assert_eq!(ids, (1..=120).map(id_text).collect(), "the new collector gets all that waited");
    assert_eq!(old.count_requests(), 1, "the old collector gets nothing more");
    wait_until_empty(&world, &admin).await;
    world.stop().await;
}

#[tokio::test]
async fn reports_that_cannot_be_read_hold_no_others() {
    let collector = Collector::start().await;
    let world = start(collector.port).await;
    let (admin, at) = (world.create_master_key("acme").await, world.store.now());
    set_export(&world, &admin, &collector).await;
    collector.reply_with(Reply::Status(503));
    store(&world, &[crash(at, 1, 1, "a"), crash(at, 2, 1, "b"), crash(at, 3, 1, "c")]).await;
    wait_for_problem(&world, &admin, "503").await;
    let (damaged, erased) = (id_text(1), id_text(2));
    world.execute(&format!("UPDATE report_bodies SET body = '\\x00' WHERE report_id = '{damaged}'")).await;
    world.execute(&format!("DELETE FROM report_bodies WHERE report_id = '{erased}'")).await;
    collector.reply_with(Reply::Take);
    send_now(&world).await;
    wait_until_empty(&world, &admin).await;
    let records = collector.wait_for_records(1).await;
    assert_eq!(
        records.iter().map(|record| attribute(record, "app.crash.id")).collect::<Vec<_>>(),
        [id_text(3)]
    );
    let state = read_export(&world, &admin).await;
    // An erased report is not counted.
    assert_eq!((&state["dropped"], &state["problem"]), (&json!(1), &Value::Null), "{state}");
    assert_eq!(state["drop_reason"], "The stored report cannot be read");
    assert_eq!(world.read_metric("unslide_api_otlp_records_total{outcome=\"export_refused\"}"), 1.0);
    world.stop().await;
}

#[tokio::test]
async fn a_deleted_variant_leaves_what_waits_of_the_others_with_its_id() {
    let collector = Collector::start().await;
    let world = start(collector.port).await;
    let (admin, at) = (world.create_master_key("acme").await, world.store.now());
    set_export(&world, &admin, &collector).await;
    collector.reply_with(Reply::Status(503));
    let other = Arrival { content_hash: ContentHash([99; 32]), ..crash(at, 2, 1, "other") };
    store(&world, &[crash(at, 2, 1, "first"), other]).await;
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    assert!(reports::delete_report(&mut tx, ReportId([2; 16]), 0, None).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(read_export(&world, &admin).await["waiting"], 1);
    world.stop().await;
}

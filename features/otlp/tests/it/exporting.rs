//! A collector gets each crash with its group and link, again with each revision, and after an outage.

use crate::collector::{Collector, attribute};
use crate::otlp_api::start;
use reqwest::Method;
use serde_json::{Value, json};
use time::OffsetDateTime;
use unslide_harness::database::arrival;
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
    assert!(wait_until(async || read_export(&world, &admin).await["waiting"] == 0).await);
    world.stop().await;
}

#[tokio::test]
async fn an_outage_of_the_collector_loses_nothing() {
    let collector = Collector::start().await;
    let world = start(collector.port).await;
    let (admin, at) = (world.create_master_key("acme").await, world.store.now());
    set_export(&world, &admin, &collector).await;
    collector.answer_with(503);
    store(&world, &[crash(at, 3, 1, "a"), crash(at, 4, 1, "b")]).await;
    let failed = async || {
        read_export(&world, &admin).await["problem"].as_str().is_some_and(|text| text.contains("503"))
    };
    assert!(wait_until(failed).await);
    let state = read_export(&world, &admin).await;
    assert_eq!((&state["waiting"], &state["sent_at"]), (&json!(2), &Value::Null), "{state}");
    collector.answer_with(200);
    world.execute("UPDATE otlp_settings SET next_send_at = now()").await;
    assert_eq!(collector.wait_for_records(2).await.len(), 2);
    assert!(wait_until(async || read_export(&world, &admin).await["waiting"] == 0).await);
    let state = read_export(&world, &admin).await;
    assert!(state["problem"].is_null() && state["sent_at"].is_string(), "{state}");
    // Records that are refused for good are given up one by one, and the tenant reads why.
    collector.answer_with(400);
    let before = collector.count_requests();
    store(&world, &[crash(at, 5, 1, "c"), crash(at, 6, 1, "d")]).await;
    assert!(wait_until(async || read_export(&world, &admin).await["waiting"] == 0).await);
    assert_eq!(collector.count_requests() - before, 3);
    let refused = async || {
        read_export(&world, &admin).await["problem"].as_str().is_some_and(|text| text.contains("400"))
    };
    assert!(wait_until(refused).await);
    world.stop().await;
}

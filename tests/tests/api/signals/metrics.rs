//! `POST /v1/metrics`, and what versions are compared by.

use crate::world::{World, tenant_id};
use reqwest::Method;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use unslide_health::store::metrics::{self, MetricArrival};
use unslide_health_formats::MetricPayload;
use unslide_model::Scope;
use unslide_proto::event::GatewayEvent;
use unslide_proto::headers;
use unslide_store::partitions;
use unslide_stream::scan;

/// How long version 1.0 takes to launch, by device model.
pub const LAUNCHES_BY_MODEL: &str =
    "/v1/apps/com.example.shop/health/breakdown?version=1.0&metric=launch_time&by=model";

/// A payload of a period that ended then.
pub fn payload(id: &str, measured_at: &str) -> Value {
    json!({"id": id, "app": "com.example.shop", "version": "1.0", "device": "iPhone16,1", "os": "iOS 26.1",
        "measured_at": measured_at,
        "measurements": [{"name": "launch_time", "unit": "ms", "value": 800}],
        "requests": [{"host": "api.example.com", "path": "/orders/17?key=s3", "method": "get", "dns": 12,
            "total": 140}], "other": {"kept": true}})
}

/// A payload of a period that ends now.
pub fn now(world: &World, id: &str) -> Value {
    payload(id, &world.host.clock.now().format(&Rfc3339).unwrap())
}

/// Counts payloads as an indexer does.
pub async fn store(world: &World, of: &str, payloads: &[Value]) {
    let received_at = world.host.clock.now();
    let read = |payload: &Value| MetricPayload::from_json(payload.to_string().as_bytes()).unwrap();
    let arrivals: Vec<_> = payloads
        .iter()
        .map(|payload| MetricArrival { event: read(payload), received_at, sender_key: None })
        .collect();
    for arrival in &arrivals {
        partitions::ensure_partitions(&world.store, arrival.event.event_day(), arrival.event.event_day())
            .await
            .unwrap();
    }
    let mut tx = world.store.tenant(&tenant_id(of)).await.unwrap();
    let all: Vec<_> = arrivals.iter().collect();
    metrics::store(&mut tx, &all, time::Date::MIN).await.unwrap();
    tx.commit().await.unwrap();
}

/// Counts 200 payloads of each of two versions: the newer one launches slower.
pub async fn store_two_versions(world: &World, of: &str) {
    let mut payloads = Vec::new();
    for (version, launch) in [("1.0", 800), ("1.1", 1_600)] {
        for n in 0..200 {
            let mut payload = now(world, &format!("{version}-{n}"));
            payload["version"] = version.into();
            payload["measurements"][0]["value"] = (launch + n).into();
            payloads.push(payload);
        }
    }
    store(world, of, &payloads).await;
}

#[tokio::test]
async fn payloads_reach_the_topic_byte_for_byte_and_what_was_not_understood_is_named() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsWrite]).await;
    let mut apple = now(&world, "m1");
    apple["metric_kit"] = json!({"timeStampEnd": "2026-11-20 08:00:00 +0000", "metaData": {},
        "cpuMetrics": {"cumulativeCPUTime": "3 jiffies"}});
    apple["battery"] =
        json!({"start": {"level": -1, "state": "unknown"}, "end": {"level": 0.8, "state": "full"}});
    apple["requests"][0]["path"] = "https://api.example.com/orders/17".into();
    let body = apple.to_string();
    let unread = ["battery.start.level", "cpuMetrics.cumulativeCPUTime", "requests.path"];
    let expected = json!({"accepted": 1, "too_old": 0, "switched_off": 0, "refused": [], "unread": unread});
    assert_eq!(world.post("/v1/metrics", &key, body.clone()).await.expect_status(202), expected);
    let topic = world.config.kafka.topic_names().metrics;
    let records = scan::whole_topic(&world.config.kafka, &topic).await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].value.as_deref(), Some(body.as_bytes()));
    assert_eq!(records[0].headers.get_text(headers::TENANT), Some("acme"));
    assert_eq!(records[0].key.as_deref(), Some(&b"acme/m1"[..]));
    let bad = json!([now(&world, "m2"), {"id": "m3", "app": "com.example.shop"}]);
    let strict = world.request(Method::POST, "/v1/metrics", &key).header("prefer", "handling=strict");
    let detail = world.send(strict.body(bad.to_string())).await.expect_problem(400, "invalid-body");
    assert!(detail.starts_with("event 1: `measured_at` must be"), "{detail}");
    let answer = world.post("/v1/metrics", &key, bad.to_string()).await.expect_status(202);
    let refused = &answer["refused"][0];
    assert_eq!((&answer["accepted"], &refused["index"]), (&1.into(), &1.into()));
    assert_eq!((&refused["id"], &refused["type"]), (&"m3".into(), &"bad_metrics".into()));
    let schema: Value =
        serde_json::from_str(include_str!("../../../../docs/schema/metrics-v1.json")).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    assert!(!schema.is_valid(&apple) && schema.is_valid(&apple["metric_kit"]), "a level of -1 is odd");
    apple.as_object_mut().unwrap().remove("battery");
    assert!(schema.is_valid(&apple));
    let mut whole = now(&world, "m9");
    whole["requests"][0].as_object_mut().unwrap().extend(
        json!({"template": "/orders/{id}", "error": {"domain": "com.example.Cart", "code": 7}, "network": "cellular",
            "expensive": true, "constrained": false, "reused": true, "proxy": false, "tls_version": 772})
        .as_object()
        .unwrap()
        .clone(),
    );
    let read = MetricPayload::from_json(whole.to_string().as_bytes()).unwrap();
    assert!(schema.is_valid(&whole) && read.unread.is_empty(), "{:?}", read.unread);
    assert!(!schema.is_valid(&json!({"id": "m1", "sampled": 2})));
    let example = super::sent_example(include_str!("../../../../docs/metrics.md"), "2026-11-20T08:00:00Z");
    assert!(schema.is_valid(&example) && MetricPayload::from_json(example.to_string().as_bytes()).is_ok());
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn versions_and_hosts_are_told_for_their_tenant_alone() {
    let world = World::start().await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    store_two_versions(&world, "acme").await;
    let path = "/v1/apps/com.example.shop/health/versions";
    let found = world.get(path, &acme).await.expect_status(200);
    let newest = &found["versions"][0];
    assert_eq!((&newest["version"], &newest["version_before"]), (&"1.1".into(), &"1.0".into()));
    let launch: Vec<&Value> =
        newest["signals"].as_array().unwrap().iter().filter(|one| one["signal"] == "launch_time").collect();
    assert_eq!(launch.len(), 2);
    assert!(launch.iter().all(|one| one["change"] == "worse" && one["unit"] == "ms"), "{launch:?}");
    let network = world.get("/v1/apps/com.example.shop/network?version=1.0", &acme).await.expect_status(200);
    let host = &network["hosts"][0];
    assert_eq!((&host["host"], &host["requests"]), (&"api.example.com".into(), &200.0.into()));
    assert_eq!(network["endpoints"][0]["value"], "GET api.example.com/orders/#");
    let csv = world.get("/v1/apps/com.example.shop/network?version=1.0&format=csv", &acme).await;
    let rows: Vec<Vec<&str>> =
        csv.text.split_terminator("\r\n").map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), 2, "{}", csv.text);
    let cell = |column: &str| rows[1][rows[0].iter().position(|name| *name == column).unwrap()];
    let found = ["endpoint", "total_p95", "dns_p50", "tls_p50"].map(cell);
    assert_eq!(found, ["GET api.example.com/orders/#", "140.0", "12.0", ""]);
    let list = "/v1/apps/com.example.shop/network";
    for (by, value) in [("host", "api.example.com"), ("endpoint", "GET api.example.com/orders/#")] {
        let listed = world.get(&format!("{list}/{by}?by_version=true"), &acme).await.expect_status(200);
        let versions: Vec<_> =
            listed["items"].as_array().unwrap().iter().map(|row| &row["version"]).collect();
        assert_eq!((&listed["by"], versions), (&by.into(), vec![&Value::from("1.0"), &"1.1".into()]));
        let csv = world.get(&format!("{list}/{by}?format=csv"), &acme).await;
        let row = csv.text.split_terminator("\r\n").nth(1).unwrap();
        assert!(row.starts_with(&format!("{value},,,400.0,false,0.0,140.0,140.0,")), "{}", csv.text);
    }
    world.get(&format!("{list}/model"), &acme).await.expect_problem(404, "not-found");
    world.get(&format!("{list}/protocol"), &acme).await.expect_problem(404, "not-found");
    for path in [path, "/v1/apps/com.example.shop/network"] {
        world.get(path, &umbrella).await.expect_problem(404, "not-found");
        let other = world.key_for("acme", &[Scope::ReportsRead], Some("com.example.bank")).await;
        world.get(path, &other).await.expect_problem(404, "not-found");
        world.get(&format!("{path}?days=91"), &acme).await.expect_problem(400, "invalid-parameter");
    }
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn a_metric_is_broken_down_for_its_tenant_alone() {
    let world = World::start().await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    store_two_versions(&world, "acme").await;
    let found = world.get(LAUNCHES_BY_MODEL, &acme).await.expect_status(200);
    assert_eq!((&found["unit"], &found["by"]), (&"ms".into(), &"model".into()));
    assert_eq!(found["values"].as_array().unwrap().len(), 1);
    let values = &found["values"][0];
    assert_eq!((&values["value"], &values["observations"]), (&"iPhone16,1".into(), &200.0.into()));
    assert!((values["p50"].as_f64().unwrap() / 900.0 - 1.0).abs() < 0.02, "{values}");
    let by = |metric: &str, by: &str| {
        LAUNCHES_BY_MODEL.replace("launch_time", metric).replace("by=model", &format!("by={by}"))
    };
    let systems = world.get(&by("requests", "os_version"), &acme).await.expect_status(200);
    let system = &systems["values"][0];
    assert_eq!((&system["value"], &system["failed"]), (&"iOS 26.1".into(), &0.0.into()));
    assert!(system["p50"].is_null(), "requests have no values");
    let hosts = world.get(&by("request_total", "host"), &acme).await.expect_status(200);
    assert_eq!(hosts["values"][0]["value"], "api.example.com");
    world.get(&by("launch_time", "host"), &acme).await.expect_problem(404, "not-found");
    for wrong in [by("weight", "model"), by("requests", "colour"), format!("{LAUNCHES_BY_MODEL}&days=91")] {
        world.get(&wrong, &acme).await.expect_problem(400, "invalid-parameter");
    }
    world.get(LAUNCHES_BY_MODEL, &umbrella).await.expect_problem(404, "not-found");
    let other = world.key_for("acme", &[Scope::ReportsRead], Some("com.example.bank")).await;
    world.get(LAUNCHES_BY_MODEL, &other).await.expect_problem(404, "not-found");
    world.stop().await;
}

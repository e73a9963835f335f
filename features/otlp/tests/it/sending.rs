//! What senders write becomes reports on the topic of reports.

use crate::otlp::otlp_api::{
    APP, PROTOBUF, apple_text, embrace, post, post_logs, public_key, record, request, start, text,
};
use prost::Message;
use serde_json::{Value, json};
use std::io::Write;
use unslide_model::Scope;
use unslide_proto::headers;
use unslide_stream::Record;
use unslide_world::{report_json, wait_until};

const A: &str = "11111111-1111-1111-1111-111111111111";
const B: &str = "22222222-2222-2222-2222-222222222222";
const C: &str = "33333333-3333-4333-8333-333333333333";

fn value(record: &Record) -> Value {
    serde_json::from_slice(record.value.as_ref().unwrap()).unwrap()
}

fn find<'v>(sent: &'v [Value], id: &str) -> &'v Value {
    sent.iter().find(|report| report["report"]["id"] == id).unwrap_or_else(|| panic!("{id}: {sent:?}"))
}

#[tokio::test]
async fn crashes_of_a_batch_become_reports_and_other_records_are_counted() {
    let world = start(443).await;
    let key = public_key(&world, APP).await;
    let ordinary = record("page.view", vec![text("page", "cart")]);
    let records = vec![ordinary.clone(), embrace(&report_json(A)), ordinary, apple_text(C)];
    let answer = post_logs(&world, &key, records).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, ""), "all was taken");
    assert_eq!(answer.headers["content-type"], PROTOBUF);
    let sent = world.read_sent_records(2).await;
    assert!(sent.iter().all(|record| record.headers.get_text(headers::TENANT) == Some("acme")));
    assert!(sent.iter().all(|record| record.headers.get_text(headers::SENDER_KEY).is_some()));
    let sent: Vec<Value> = sent.iter().map(value).collect();
    assert_eq!(sent.len(), 2);
    let kscrash = find(&sent, A);
    assert_eq!(kscrash["user"]["session_id"], "s-1");
    assert_eq!(kscrash["system"]["device_app_hash"], "i-1");
    let apple = find(&sent, C);
    assert_eq!(apple["system"]["CFBundleIdentifier"], APP);
    assert_eq!(apple["crash"]["error"]["mach"]["exception_name"], "EXC_BAD_ACCESS");
    assert_eq!(world.read_metric("unslide_api_otlp_records_total{outcome=\"other\"}"), 2.0);
    assert_eq!(world.read_metric("unslide_api_otlp_records_total{outcome=\"report\"}"), 2.0);
    world.stop().await;
}

#[tokio::test]
async fn json_and_packed_requests_are_read_and_an_api_key_is_enough() {
    let world = start(443).await;
    let key = world.create_key("acme", &[Scope::ReportsWrite]).await;
    let attributes = json!([{"key": "emb.type", "value": {"stringValue": "sys.ios.crash"}},
        {"key": "emb.payload", "value": {"stringValue": report_json(A).to_string()}}]);
    let json =
        json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"attributes": attributes}]}]}]}).to_string();
    let answer = post(&world, "/otlp/v1/logs", &key, "application/json; charset=utf-8", json).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "{}"));
    assert_eq!(answer.headers["content-type"], "application/json");
    let packed = request(vec![embrace(&report_json(B))]).encode_to_vec();
    let zstd = zstd::encode_all(packed.as_slice(), 3).unwrap();
    assert_eq!(post(&world, "/otlp/v1/logs", &key, PROTOBUF, zstd).await.status, 200);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&request(vec![apple_text(C)]).encode_to_vec()).unwrap();
    let public = public_key(&world, APP).await;
    let sent = world.request(reqwest::Method::POST, &format!("/i/{public}/v1/logs"), "");
    let sent = sent.header("content-type", PROTOBUF).header("content-encoding", "gzip");
    assert_eq!(world.send(sent.body(gzip.finish().unwrap())).await.status, 200);
    let sent: Vec<Value> = world.read_sent_records(3).await.iter().map(value).collect();
    for id in [A, B, C] {
        find(&sent, id);
    }
    world.stop().await;
}

#[tokio::test]
async fn a_span_of_a_crash_becomes_a_report_of_the_app_that_the_key_is_for() {
    let world = start(443).await;
    let key = public_key(&world, APP).await;
    let threads = json!([{"threadNumber": 0, "crashed": true, "stackFrames": [{"instructionPointer": 4_295_000_064_u64, "imageName": "Shop"}]}]);
    let attributes = json!([{"key": "exception.threads", "value": {"stringValue": threads.to_string()}},
        {"key": "exception.type", "value": {"stringValue": "SIGABRT"}}]);
    let span =
        json!({"name": "SIGABRT", "startTimeUnixNano": "1795773598000000000", "attributes": attributes});
    let json = json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).to_string();
    let answer = post(&world, &format!("/i/{key}/v1/traces"), "", "application/json", json).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "{}"));
    let sent: Vec<Value> = world.read_sent_records(1).await.iter().map(value).collect();
    assert_eq!(sent[0]["system"]["CFBundleIdentifier"], APP);
    assert_eq!(sent[0]["crash"]["error"]["signal"]["name"], "SIGABRT");
    world.stop().await;
}

/// A body of a few bytes may become many reports.
#[tokio::test]
async fn records_are_translated_on_the_cpu_pool() {
    let world = start(443).await;
    let (public, key) =
        (public_key(&world, APP).await, world.create_key("acme", &[Scope::ReportsWrite]).await);
    let jobs = || world.read_metric("unslide_cpu_job_seconds_count");
    let ids: Vec<String> = (10..30).map(|n| format!("{n}333333-3333-4333-8333-333333333333")).collect();
    let records: Vec<_> = ids.iter().map(|id| apple_text(id)).collect();
    let before = jobs();
    assert_eq!(post_logs(&world, &public, records.clone()).await.status, 200);
    // They are read, and their records are built.
    assert!(wait_until(async || jobs() - before >= 2.0).await);
    let answer = post(&world, "/otlp/v1/logs", &key, PROTOBUF, request(records).encode_to_vec()).await;
    assert_eq!(answer.status, 200);
    assert!(wait_until(async || jobs() - before >= 3.0).await);
    world.stop().await;
}

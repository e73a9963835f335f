//! What senders are answered: partial successes with sentences, and statuses that clients of OTLP know.

use crate::otlp::otlp_api::{
    APP, PROTOBUF, apple_text, embrace, post, post_logs, public_key, read_text, record, request,
    request_json, start, start_with, text,
};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use prost::Message;
use reqwest::Method;
use serde_json::json;
use unslide_model::Scope;
use unslide_world::{Answer, World, report_json};

const A: &str = "11111111-1111-1111-1111-111111111111";

/// Returns the number of rejected records and the message of an answer in JSON.
async fn post_json(world: &World, path: &str, body: &str) -> Answer {
    post(world, path, "", "application/json", body.to_owned()).await
}

#[tokio::test]
async fn crashes_that_cannot_be_read_are_a_partial_success_and_cut_ones_a_warning() {
    let world = start(443).await;
    let key = public_key(&world, APP).await;
    let unreadable = record("app.crash", vec![text("exception.type", "SIGSEGV")]);
    let mut other = report_json(A);
    other["system"]["CFBundleIdentifier"] = "com.example.other".into();
    let mut cut = apple_text("44444444-4444-4444-8444-444444444444");
    if let Some(stack) = cut.attributes.first_mut() {
        let whole = read_text(stack);
        *stack = text("exception.stacktrace", whole.split_once("Binary Images").unwrap().0);
    }
    let body = request_json(&[record("x", vec![]), unreadable, embrace(&other), cut]);
    let answer = post_json(&world, &format!("/i/{key}/v1/logs"), &body).await;
    let answer = answer.expect_status(200);
    let partial = &answer["partialSuccess"];
    assert_eq!(partial["rejectedLogRecords"], "2", "{answer}");
    let message = partial["errorMessage"].as_str().unwrap();
    for sentence in [
        "record 1: the crash has no exception.stacktrace",
        "record 2: the report is of com.example.other",
        "record 3: exception.stacktrace has",
    ] {
        assert!(message.contains(sentence), "{sentence}: {message}");
    }
    // The cut one is a report, and that of another app a refused record.
    assert_eq!(world.read_sent_records(2).await.len(), 2);
    world.stop().await;
}

#[tokio::test]
async fn crashes_that_grow_past_the_limits_are_rejected_alone() {
    let limit = 64 << 10;
    let world = start_with(&[443], |config| {
        config.api.limits.ingest_unpacked_bytes = limit;
        config.api.limits.ingest_reports = 3;
    })
    .await;
    let key = world.create_key("acme", &[Scope::ReportsWrite]).await;
    // Each text fits, and so do all of them. Their reports do not.
    let frames: String =
        (1..400).map(|at| format!("{at}   Shop    0x0000000100004010 0x100000000 + 16400\n")).collect();
    let large = |id: &str| {
        let mut record = apple_text(id);
        let first = "0   Shop    0x0000000100004010 0x100000000 + 16400\n";
        let stack = read_text(&record.attributes[0]).replace(first, &format!("{first}{frames}"));
        record.attributes = vec![text("exception.stacktrace", &stack)];
        record
    };
    let ids = [1, 2, 3, 4].map(|n| format!("{n}4444444-4444-4444-8444-444444444444"));
    let [small, other] = [&ids[2], &ids[3]].map(|id| apple_text(id));
    let body = request_json(&[large(&ids[0]), large(&ids[1]), small, other]);
    assert!(body.len() < limit as usize, "{}", body.len());
    let answer = post(&world, "/otlp/v1/logs", &key, "application/json", body).await.expect_status(200);
    let partial = &answer["partialSuccess"];
    assert_eq!(partial["rejectedLogRecords"], "1", "{answer}");
    let message = partial["errorMessage"].as_str().unwrap();
    assert!(message.contains("record 1: the crash has"), "{message}");
    assert_eq!(world.read_sent_records(3).await.len(), 3);
    let body = request_json(&ids.each_ref().map(|id| apple_text(id)));
    let answer = post(&world, "/otlp/v1/logs", &key, "application/json", body).await.expect_status(200);
    let message = answer["partialSuccess"]["errorMessage"].as_str().unwrap();
    assert!(message.contains("record 3: the request has more than 3 crashes"), "{message}");
    assert_eq!(world.read_sent_records(6).await.len(), 6);
    world.stop().await;
}

#[tokio::test]
async fn a_tenant_may_refuse_other_records() {
    let world = start(443).await;
    let key = public_key(&world, APP).await;
    let admin = world.create_master_key("acme").await;
    let set = world.request(Method::PUT, "/v1/otlp", &admin).json(&json!({"other_records": "refuse"}));
    world.send(set).await.expect_status(200);
    let answer = post_logs(&world, &key, vec![record("page.view", vec![]), embrace(&report_json(A))]).await;
    assert_eq!(answer.status, 200);
    let body = ExportLogsServiceResponse::decode(answer.text.as_bytes()).unwrap();
    assert_eq!(body.partial_success.unwrap().rejected_log_records, 1);
    world.send(world.request(Method::DELETE, "/v1/otlp", &admin)).await.expect_status(200);
    let answer = post_logs(&world, &key, vec![record("page.view", vec![])]).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, ""));
    world.stop().await;
}

#[tokio::test]
async fn failures_have_the_status_that_clients_expect_and_name_no_tenant() {
    let world = start(443).await;
    let key = public_key(&world, APP).await;
    let path = format!("/i/{key}/v1/logs");
    let whole = request(vec![embrace(&report_json(A))]).encode_to_vec();
    let status = async |path: &str, media: &str, body: Vec<u8>| {
        let answer = post(&world, path, "", media, body).await;
        assert!(!answer.text.contains("acme"), "{}", answer.text);
        answer.status.as_u16()
    };
    assert_eq!(status(&path, PROTOBUF, whole.get(..20).unwrap().to_vec()).await, 400);
    assert_eq!(status(&path, "text/plain", whole.clone()).await, 415);
    assert_eq!(status(&path, PROTOBUF, vec![0; (5 << 20) + 1]).await, 413);
    assert_eq!(status("/i/usp_x/v1/logs", PROTOBUF, whole.clone()).await, 401);
    assert_eq!(status("/otlp/v1/logs", PROTOBUF, whole.clone()).await, 401);
    assert_eq!(status(&path, PROTOBUF, Vec::new()).await, 200, "nothing in it is fine");
    let brotli = world.request(Method::POST, &path, "").header("content-type", PROTOBUF);
    let brotli = world.send(brotli.header("content-encoding", "br").body(whole.clone())).await;
    assert_eq!(brotli.status, 415);
    let page = world.request(Method::POST, &path, "").header("content-type", PROTOBUF);
    assert_eq!(
        world.send(page.header("origin", "https://example.com").body(whole.clone())).await.status,
        403
    );
    assert_eq!(world.send(world.request(Method::GET, &path, "")).await.status, 405);
    // A key of the API for another app, and one without the scope.
    let limited = world.key_for("acme", &[Scope::ReportsWrite], Some("com.example.other")).await;
    let refused = post(
        &world,
        "/otlp/v1/logs",
        &limited,
        "application/json",
        json!({"resourceLogs": [{"scopeLogs": [{
        "logRecords": [{"attributes": [{"key": "emb.type", "value": {"stringValue": "sys.ios.crash"}},
            {"key": "emb.payload", "value": {"stringValue": report_json(A).to_string()}}]}]}]}]})
        .to_string(),
    )
    .await;
    let refused = refused.expect_status(200);
    assert_eq!(refused["partialSuccess"]["rejectedLogRecords"], "1", "{refused}");
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    assert_eq!(post(&world, "/otlp/v1/logs", &reader, PROTOBUF, whole).await.status, 403);
    world.stop().await;
}

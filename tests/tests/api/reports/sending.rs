//! `POST /v1/reports`.

use crate::world::{World, report_json, signing_settings, tenant_id};
use flate2::{Compression, write::GzEncoder};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use std::io::Write;
use unslide_model::Scope;
use unslide_proto::headers;
use unslide_signatures::SigningKey;

const A: &str = "11111111-1111-1111-1111-111111111111";
const B: &str = "22222222-2222-2222-2222-222222222222";

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn reports_reach_the_topic_byte_for_byte_in_every_packaging() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsWrite]).await;
    let (a, b) = (
        report_json(A).to_string(),
        format!(" {}\n", serde_json::to_string_pretty(&report_json(B)).unwrap()),
    );

    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let one = world.request(Method::POST, "/v1/reports", &key).header("traceparent", trace).body(a.clone());
    let one = world.send(one).await.expect_status(202);
    assert_eq!((&one["accepted"], &one["reports"][0]["id"]), (&1.into(), &A.into()));

    let many = world.post("/v1/reports", &key, format!("[{a},{b}]")).await.expect_status(202);
    assert_eq!((&many["accepted"], &many["reports"][1]["id"]), (&2.into(), &B.into()));
    world.post("/v1/reports", &key, format!("{a}\n{a}\n")).await.expect_status(202);
    let packed =
        world.request(Method::POST, "/v1/reports", &key).header("content-encoding", "gzip").body(gzip(&a));
    world.send(packed).await.expect_status(202);
    let part = Part::bytes(format!("[{a}]").into_bytes())
        .file_name("reports.json")
        .mime_str("application/json")
        .unwrap();
    let form = Form::new().part("reports", part);
    world.send(world.request(Method::POST, "/v1/reports", &key).multipart(form)).await.expect_status(202);

    let records = world.read_sent_records(7).await;
    assert_eq!(records.len(), 7);
    for record in &records {
        assert_eq!(record.headers.get_text(headers::TENANT), Some("acme"));
        let value = std::str::from_utf8(record.value.as_deref().unwrap()).unwrap();
        assert!(value == a || value == b.trim(), "{value}");
        let key = SigningKey::parse(&signing_settings().key).unwrap().verifying_key();
        let (at, signature) =
            (record.headers.get_number(headers::SIGNED_AT), record.headers.get_text(headers::SIGNATURE));
        assert!(key.verify_record(&tenant_id("acme"), at.unwrap(), value.as_bytes(), signature.unwrap()));
        assert_eq!(record.key.as_deref(), Some(&b"acme/com.example.shop/0"[..]));
    }
    let traced = records.iter().filter(|r| {
        r.headers.get_text(headers::TRACEPARENT).unwrap().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-")
    });
    assert_eq!(traced.count(), 1);
    let mut nameless = report_json(A);
    nameless["system"] = json!({});
    world.post("/v1/reports", &key, nameless.to_string()).await.expect_status(202);
    let own = format!("acme/{A}");
    let sent = world.read_sent_records(8).await;
    assert_eq!(sent.iter().filter(|record| record.key.as_deref() == Some(own.as_bytes())).count(), 1);
    world.stop().await;
}

#[tokio::test]
async fn what_is_no_report_is_refused_by_name_and_place_and_nothing_is_sent() {
    let world = World::with(|limits| {
        limits.ingest_bytes = 10_000;
        limits.ingest_unpacked_bytes = 20_000;
        limits.report_bytes = 8_000;
        limits.ingest_reports = 3;
    })
    .await;
    let key = world.create_master_key("acme").await;
    let good = report_json(A).to_string();
    let refused = |body: Vec<u8>| {
        let request = world.request(Method::POST, "/v1/reports", &key).header("prefer", "handling=strict");
        world.send(request.body(body))
    };
    let detail = refused(format!("[{good}, {{\"a\" 1}}]").into()).await.expect_problem(400, "invalid-report");
    assert!(detail.contains("at byte"), "{detail}");
    let detail = refused(format!("[{good}, 7]").into()).await.expect_problem(400, "not-a-report");
    assert!(detail.starts_with("report 1: "), "{detail}");
    refused(Vec::new()).await.expect_problem(400, "invalid-report");
    refused(format!("[{good},{good},{good},{good}]").into()).await.expect_problem(413, "too-large");
    refused(vec![b' '; 10_001]).await.expect_problem(413, "too-large");
    refused(gzip(&" ".repeat(20_001))).await.expect_problem(413, "too-large");
    refused(format!("{{\"a\":\"{}\"}}", "x".repeat(8_000)).into()).await.expect_problem(413, "too-large");
    refused(b"\x1f\x8b damaged".to_vec()).await.expect_problem(400, "invalid-body");
    let coded =
        world.request(Method::POST, "/v1/reports", &key).header("content-encoding", "br").body(good.clone());
    world.send(coded).await.expect_problem(415, "unsupported-format");
    let form = world.request(Method::POST, "/v1/reports", &key).header("content-type", "multipart/form-data");
    world.send(form.body("--")).await.expect_problem(400, "invalid-body");
    let detail = refused(b"{}".to_vec()).await.expect_problem(400, "not-a-report");
    assert!(detail.contains("`crash`") && detail.ends_with("(not_a_report)"), "{detail}");
    assert_eq!(world.read_sent_records(0).await.len(), 0);
    world.stop().await;
}

#[tokio::test]
async fn one_bad_report_refuses_no_other_and_becomes_a_dead_letter() {
    let world = World::start().await;
    let key = world.key_for("acme", &[Scope::ReportsWrite], Some("com.example.shop")).await;
    let mut other = report_json(B);
    other["system"]["CFBundleIdentifier"] = "com.example.bank".into();
    let (good, bad) = (report_json(A).to_string(), "{\"a\": }");
    let answer = world.post("/v1/reports", &key, format!("[{good},{bad},{other},{good}]")).await;
    assert!(!answer.headers.contains_key("location"));
    let answer = answer.expect_status(202);
    assert_eq!((&answer["accepted"], &answer["reports"]), (&2.into(), &json!([{"id": A}, {"id": A}])));
    let refused = |index: usize| {
        let refused = &answer["refused"][index];
        (refused["index"].as_u64().unwrap(), refused["type"].as_str().unwrap(), &refused["id"])
    };
    assert_eq!(refused(0), (1, "not_json", &Value::Null));
    assert_eq!(refused(1), (2, "wrong_app", &B.into()));
    let lines = world.post("/v1/reports", &key, format!("{good}\n{bad}\n")).await.expect_status(202);
    assert_eq!((&lines["accepted"], &lines["refused"][0]["index"]), (&1.into(), &1.into()));
    let detail =
        world.post("/v1/reports", &key, format!("[{bad}]")).await.expect_problem(400, "invalid-report");
    assert!(detail.starts_with("report 0: "), "no report is accepted, so the request is refused: {detail}");
    let sent = world.read_sent_records(6).await;
    let reason =
        |record: &unslide_stream::Record| record.headers.get_text(headers::REFUSED_REASON).map(str::to_owned);
    let mut reasons: Vec<String> = sent.iter().filter_map(reason).collect();
    reasons.sort();
    assert_eq!(
        (sent.len(), reasons.as_slice()),
        (6, &["not_json", "not_json", "wrong_app"].map(str::to_owned)[..])
    );
    let verifying = SigningKey::parse(&signing_settings().key).unwrap().verifying_key();
    for record in &sent {
        let (at, signature) =
            (record.headers.get_number(headers::SIGNED_AT), record.headers.get_text(headers::SIGNATURE));
        let value = record.value.as_deref().unwrap();
        assert!(verifying.verify_record(&tenant_id("acme"), at.unwrap(), value, signature.unwrap()));
    }
    world.stop().await;
}

#[tokio::test]
async fn a_flood_of_bad_reports_keeps_few_values_and_all_outcomes() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsWrite]).await;
    let body = format!("[{},{}]", report_json(A), vec!["{\"a\": }"; 30].join(","));
    let answer = world.post("/v1/reports", &key, body).await.expect_status(202);
    assert_eq!(answer["refused"].as_array().unwrap().len(), 30);
    let sent = world.read_sent_records(31).await;
    let kept = sent.iter().filter(|record| record.value.as_ref().is_some_and(|value| !value.is_empty()));
    assert_eq!((sent.len(), kept.count()), (31, 21));
    world.stop().await;
}

/// A key for one app lets in that app's reports only.
#[tokio::test]
async fn a_key_for_one_app_sends_for_that_app() {
    let world = World::start().await;
    let key = world.key_for("acme", &[Scope::ReportsWrite], Some("com.example.shop")).await;
    world.post("/v1/reports", &key, report_json(A).to_string()).await.expect_status(202);
    let mut other = report_json(B);
    other["system"]["CFBundleIdentifier"] = "com.example.bank".into();
    let detail =
        world.post("/v1/reports", &key, other.to_string()).await.expect_problem(403, "insufficient-scope");
    assert!(detail.contains("com.example.shop"), "{detail}");
    world.stop().await;
}

/// A broker that does not answer is no reason to lose a report: the answer has Retry-After.
#[tokio::test]
async fn without_a_broker_the_client_is_told_to_come_again() {
    let world = World::configured(|config| {
        config.kafka.bootstrap = "127.0.0.1:1".to_owned();
        config.api.limits.request_seconds = 2;
    })
    .await;
    let key = world.create_master_key("acme").await;
    let answer = world.post("/v1/reports", &key, report_json(A).to_string()).await;
    assert_eq!(answer.headers["retry-after"], "5");
    answer.expect_problem(503, "unavailable");
    let mut health = world.host.health.ask_now().await;
    for _ in 0..3_000 {
        if health.probes["postgres"].ok {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        health = world.host.health.ask_now().await;
    }
    assert!(health.ready && !health.probes["kafka"].ok && health.probes["postgres"].ok, "{health:?}");
    world.stop().await;
}

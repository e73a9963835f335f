//! Queries over stored reports; how they come and where their bodies lie is beside this file.

mod apple_logs;
mod grouping_rules;
mod groups;
mod markdown;
mod sending;
mod stored_bodies;
mod symbolicating;
mod variables;

use crate::world::{World, report_json, tenant_id};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use time::{Duration, OffsetDateTime};
use unslide_model::{ContentHash, DebugId, ReportGrouping, Scope, TenantId};
use unslide_report::{ReadLimits, Report};
use unslide_store::persons::hash_person;
use unslide_store::{partitions, reports};
use unslide_symbolicate::Context;
use unslide_testkit::reports::sampled_hang;

pub const A: &str = "11111111-1111-1111-1111-111111111111";
pub const B: &str = "22222222-2222-2222-2222-222222222222";
const IMAGE: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

/// A report with one frame in an app image that nobody has symbols for.
pub fn crash(id: &str, version: &str) -> Value {
    let mut crash = report_json(id);
    crash["system"]["CFBundleShortVersionString"] = version.into();
    crash["binary_images"] = json!([{"image_addr": 0x1_0000_0000_u64, "image_size": 0x10000, "image_vmaddr": 0x1_0000_0000_u64,
        "name": "/private/var/containers/Bundle/Application/X/Shop.app/Shop", "uuid": IMAGE.to_uppercase(),
        "cpu_type": 16_777_228, "cpu_subtype": 0}]);
    crash["crash"]["threads"] = json!([{"index": 0, "crashed": true, "current_thread": true,
        "registers": {"basic": {"pc": 0x1_0000_1000_u64}},
        "backtrace": {"skipped": 0, "contents": [{"instruction_addr": 0x1_0000_1000_u64, "object_name": "Shop", "object_addr": 0x1_0000_0000_u64}]}}]);
    crash
}

/// A hang that was sampled: two of ten samples in one function of the app, the others in another.
pub fn hang(id: &str, version: &str, millis: u64) -> Value {
    let mut hang = crash(id, version);
    let frame = |address: u64| {
        json!({"instruction_addr": 0x1_0000_0000 + address, "object_name": "Shop",
        "object_addr": 0x1_0000_0000_u64})
    };
    let samples: Vec<Vec<usize>> = (0..10).map(|at| vec![if at < 2 { 0 } else { 1 }, 2]).collect();
    let frames = json!([frame(0x1000), frame(0x2000), frame(0x3000)]);
    hang["crash"]["error"] = sampled_hang(millis, &frames, &samples);
    hang
}

/// Stores a report as an indexer does, and gives the enriched bytes.
pub async fn store(
    world: &World,
    of: &str,
    crash: &Value,
    revision: u32,
    received_at: OffsetDateTime,
) -> Vec<u8> {
    store_from(world, of, crash, revision, received_at, None).await
}

/// Stores a report with the answers that it has.
pub async fn store_answered(world: &World, of: &str, answered: &str) {
    let crash: Value = serde_json::from_str(answered).unwrap();
    let (mut arrival, _) = arrival(&tenant_id(of), &crash, 1, world.host.clock.now(), None);
    let bytes = answered.as_bytes();
    (arrival.body, arrival.size) = (unslide_proto::body::compress_report(bytes), bytes.len() as u64);
    write(world, &tenant_id(of), arrival).await;
}

/// Stores the second revision of a report, which late symbols put into the group with this fingerprint.
pub async fn store_late(world: &World, of: &str, crash: &Value, fingerprint: u8) {
    let (mut arrival, _) = arrival(&tenant_id(of), crash, 2, world.host.clock.now(), None);
    arrival.facts.grouping = arrival.facts.grouping.map(|grouping| ReportGrouping {
        fingerprint: [fingerprint; 16],
        provisional: false,
        title: "EXC_BAD_ACCESS in Cart.total".to_owned(),
        ..grouping
    });
    write(world, &tenant_id(of), arrival).await;
}

async fn store_from(
    world: &World,
    of: &str,
    crash: &Value,
    revision: u32,
    received_at: OffsetDateTime,
    origin: Option<reports::ReportOrigin>,
) -> Vec<u8> {
    let of = tenant_id(of);
    let (arrival, bytes) = arrival(&of, crash, revision, received_at, origin);
    write(world, &of, arrival).await;
    bytes
}

async fn write(world: &World, of: &TenantId, arrival: reports::Arrival) {
    let day = arrival.received_at.date();
    partitions::ensure_partitions(&world.store, day, day).await.unwrap();
    let mut tx = world.store.tenant(of).await.unwrap();
    reports::store_arrivals(&mut tx, &[arrival], reports::Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
}

/// A report as an indexer reads it, and the enriched bytes.
fn arrival(
    of: &TenantId,
    crash: &Value,
    revision: u32,
    received_at: OffsetDateTime,
    origin: Option<reports::ReportOrigin>,
) -> (reports::Arrival, Vec<u8>) {
    let bytes = crash.to_string().into_bytes();
    let report = Report::read(&bytes, &ReadLimits::default()).unwrap();
    let context = Context { tenant: Some(of), revision: Some(revision), ..Context::default() };
    let enriched = unslide_symbolicate::enrich(&report, &|_| None, &context);
    let summary = report.summary();
    let mut shown = json!({"signal": "SIGSEGV"});
    if let Some(millis) = summary.duration_ms {
        shown["duration_ms"] = millis.into();
    }
    if let Some(limit) = summary.memory_limit {
        shown["memory_limit"] = limit.into();
    }
    if let Some(fatal) = summary.fatal {
        shown["fatal"] = fatal.into();
    }
    let ours = Report::read(&enriched.bytes, &ReadLimits::default()).unwrap().ours;
    let images = crash["binary_images"].as_array().map_or(&[][..], Vec::as_slice);
    let mut debug_ids: BTreeSet<DebugId> =
        images.iter().map(|image| image["uuid"].as_str().unwrap_or(IMAGE).parse().unwrap()).collect();
    if debug_ids.is_empty() {
        debug_ids.insert(IMAGE.parse().unwrap());
    }
    let arrival = reports::Arrival {
        report_id: report.id,
        content_hash: ContentHash(Sha256::digest(&bytes).into()),
        revision,
        received_at,
        body: unslide_proto::body::compress_report(&enriched.bytes),
        size: enriched.bytes.len() as u64,
        facts: reports::ReportDetails {
            app: summary.app.unwrap_or_default(),
            version: summary.version.unwrap_or_default(),
            build: summary.build.unwrap_or_default(),
            kind: summary.error_type.unwrap_or_default(),
            status: "none".to_owned(),
            device: Some(summary.device_hash.map_or_else(|| vec![1], |hash| hash_person(&hash).to_vec())),
            os_name: summary.os_name,
            os_version: summary.os_version,
            model: summary.device_model,
            reason: Some("it crashed".to_owned()),
            run_id: summary.run_id.as_deref().and_then(|id| unslide_store::Uuid::parse_str(id).ok()),
            summary: shown,
            context: json!({"facts": {"in_background": true, "low_battery": false},
                "keys": crash.get("user").filter(|user| user.is_object()).cloned().unwrap_or_else(|| json!({}))}),
            sampled: summary.sampled,
            frames: reports::FrameTotals {
                total: 3,
                device: 2,
                device_app: 2,
                missing: 1,
                own: 3,
                ..reports::FrameTotals::default()
            },
            grouping: ours.and_then(|ours| ours.grouping),
            terms: report.search_terms(),
            ..reports::ReportDetails::default()
        },
        images: debug_ids
            .into_iter()
            .map(|debug_id| reports::ImageUse {
                debug_id,
                name: "Shop".to_owned(),
                arch: "arm64".to_owned(),
                system: false,
                found: false,
                stripped: false,
                failed: false,
                seen_generation: 0,
            })
            .collect(),
        origin,
        traceparent: None,
    };
    (arrival, enriched.bytes)
}

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_795_000_000).unwrap()
}

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

/// The waiting request holds no connection to the database: the tenant has one.
#[tokio::test]
async fn a_report_is_waited_for_until_it_is_stored_or_the_time_is_over() {
    let world = World::with(|limits| limits.tenant_share = 1).await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    let path = |wait: &str| format!("/v1/reports/{A}?wait={wait}");
    world.get(&path("10ms"), &key).await.expect_problem(404, "not-found");
    world.get(&path("soon"), &key).await.expect_problem(400, "invalid-parameter");
    let stored = async {
        world.wait_for_metric(r#"unslide_api_in_flight{kind="waits"}"#, 1.0).await;
        assert_eq!(ids(&world.get("/v1/reports", &key).await.expect_status(200)), <[&str; 0]>::default());
        store(&world, "acme", &crash(A, "1.0"), 1, now()).await
    };
    let waiting = path("30s");
    let (answer, body) = tokio::join!(world.get(&waiting, &key), stored);
    assert_eq!((answer.status.as_u16(), answer.text.as_bytes()), (200, &body[..]));
    world.stop().await;
}

#[tokio::test]
async fn reports_are_found_by_every_filter_in_pages() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    store(&world, "acme", &crash(A, "1.0"), 1, now()).await;
    let mut second = crash(B, "2.0");
    second["system"]["machine"] = "iPhone16,1".into();
    second["system"]["system_name"] = "iOS".into();
    second["system"]["system_version"] = "18.3.1".into();
    store(&world, "acme", &second, 1, now() + Duration::HOUR).await;
    let all = world.get("/v1/reports", &key).await.expect_status(200);
    assert_eq!(ids(&all), [B, A]);
    let first = &all["items"][1];
    assert_eq!(
        (&first["app"], &first["version"], &first["build"]),
        (&"com.example.shop".into(), &"1.0".into(), &"34".into())
    );
    assert_eq!(
        (&first["type"], &first["revision"], &first["frames"]["missing"]),
        (&"signal".into(), &1.into(), &1.into())
    );
    // The device's names are there, the app's dSYM is not.
    assert_eq!((&first["frames"]["device_app"], &first["symbols_missing"]), (&2.into(), &true.into()));

    let time = now() + Duration::MINUTE;
    let time = time.format(&time::format_description::well_known::Rfc3339).unwrap();
    for (query, found) in [
        ("app=com.example.shop", vec![B, A]),
        ("app=com.example", vec![]),
        ("version=1.0", vec![A]),
        ("build=34&version=2.0", vec![B]),
        ("build=35", vec![]),
        (&format!("from={time}"), vec![B]),
        (&format!("to={time}"), vec![A]),
        ("type=signal", vec![B, A]),
        ("type=mach", vec![]),
        ("status=none", vec![B, A]),
        ("status=complete", vec![]),
        ("symbols_missing=true", vec![B, A]),
        ("symbols_missing=false", vec![]),
        ("model=iPhone16,1", vec![B]),
        ("model=iPhone", vec![]),
        ("os_version=18.3.1", vec![B]),
        ("os_version=iOS%2018.3.1&model=iPhone16,1", vec![B]),
        ("os_version=18.3", vec![]),
        (&format!("debug_id={}", IMAGE.replace('-', "").to_uppercase()), vec![B, A]),
        ("debug_id=00000000000000000000000000000000", vec![]),
    ] {
        let page = world.get(&format!("/v1/reports?{query}"), &key).await.expect_status(200);
        assert_eq!(ids(&page), found, "{query}");
        assert_eq!(page.get("next_cursor"), None);
    }
    let page = world.get("/v1/reports?limit=1&status=none", &key).await.expect_status(200);
    assert_eq!(ids(&page), [B]);
    let cursor = page["next_cursor"].as_str().unwrap();
    let next =
        world.get(&format!("/v1/reports?limit=1&status=none&cursor={cursor}"), &key).await.expect_status(200);
    assert_eq!((ids(&next), next.get("next_cursor")), (vec![A], None));
    let other = world.get(&format!("/v1/reports?limit=1&cursor={cursor}"), &key).await;
    assert!(other.expect_problem(400, "invalid-parameter").contains("other filters"));
    for query in ["from=yesterday", "status=fine", "debug_id=7", "limit=0", "color=red", "cursor=01"] {
        world.get(&format!("/v1/reports?{query}"), &key).await.expect_problem(400, "invalid-parameter");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_report_is_read_as_json_and_as_text_and_its_tag_changes_with_its_revision() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    let stored = store(&world, "acme", &crash(A, "1.0"), 1, now()).await;
    let path = format!("/v1/reports/{A}");
    let json = world.get(&path, &key).await;
    assert_eq!(json.headers["content-type"], "application/json");
    assert_eq!(json.text.as_bytes(), stored);
    assert_eq!(json.headers["x-report-revision"], "1");
    assert_eq!(
        (&json.headers["x-report-duplicates"], json.headers.get("x-report-last-duplicate")),
        (&"0".parse().unwrap(), None)
    );
    let tag = json.headers["etag"].clone();
    let accept = |accept: &'static str| world.request(Method::GET, &path, &key).header("accept", accept);
    let text = world.send(accept("text/plain")).await;
    assert_eq!(text.headers["content-type"], "text/plain; charset=utf-8");
    assert!(text.text.contains("Thread 0 Crashed") && text.text.contains("Shop"), "{}", text.text);
    assert_ne!(text.headers["etag"], tag);
    world.send(accept("image/png")).await.expect_problem(406, "not-acceptable");

    let same = world.request(Method::GET, &path, &key).header("if-none-match", tag.clone());
    let same = world.send(same).await;
    assert_eq!((same.status.as_u16(), same.text.as_str()), (304, ""));
    store(&world, "acme", &crash(A, "1.0"), 2, now() + Duration::HOUR).await;
    let newer = world.request(Method::GET, &path, &key).header("if-none-match", tag);
    let newer = world.send(newer).await;
    assert_eq!((newer.status.as_u16(), &newer.headers["x-report-revision"]), (200, &"2".parse().unwrap()));

    world.get(&format!("/v1/reports/{B}"), &key).await.expect_problem(404, "not-found");
    world.get(&format!("{path}?variant=1"), &key).await.expect_problem(404, "not-found");
    world.get("/v1/reports/7", &key).await.expect_problem(400, "invalid-parameter");
    world.stop().await;
}

#[tokio::test]
async fn an_explanation_names_the_rule_and_why_nobody_answered() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    store(&world, "acme", &crash(A, "1.0"), 1, now()).await;
    let explained = world.get(&format!("/v1/reports/{A}/explain"), &key).await.expect_status(200);
    assert_eq!(explained["images"][0]["debug_id"], IMAGE);
    assert_eq!(explained["images"][0]["status"], "missing");
    let frame = &explained["backtraces"][0]["frames"][0];
    assert_eq!((&frame["rule"], &frame["lookup_address"]), (&5.into(), &"0x100001000".into()));
    assert!(frame["reason"].as_str().unwrap().contains("no symbols"), "{frame}");
    world.get(&format!("/v1/reports/{B}/explain"), &key).await.expect_problem(404, "not-found");
    world.get("/v1/reports/7/explain", &key).await.expect_problem(400, "invalid-parameter");
    world.stop().await;
}

#[tokio::test]
async fn apps_versions_and_missing_symbols_are_counted() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    store(&world, "acme", &crash(A, "1.0"), 1, now()).await;
    let mut survived = crash(B, "2.0");
    survived["crash"]["error"]["is_fatal"] = false.into();
    store(&world, "acme", &survived, 1, now()).await;
    let apps = world.get("/v1/apps", &key).await.expect_status(200);
    assert_eq!(
        (&apps["items"][0]["app"], &apps["items"][0]["reports"], &apps["items"][0]["versions"]),
        (&"com.example.shop".into(), &2.into(), &2.into())
    );
    assert_eq!(
        (&apps["items"][0]["first_day"], &apps["items"][0]["crashes"]),
        (&"2026-11-18".into(), &1.into())
    );
    let versions = world.get("/v1/apps/com.example.shop/versions", &key).await.expect_status(200);
    let newest = &versions["items"][0];
    assert_eq!(
        (&newest["version"], &newest["reports"], &newest["crashes"], &newest["devices"]),
        (&"2.0".into(), &1.into(), &0.into(), &1.into())
    );
    assert_eq!(
        (&newest["missing"][0]["debug_id"], &newest["share_symbolicated"]),
        (&IMAGE.into(), &0.0.into())
    );
    world.get("/v1/apps/com.example.bank/versions", &key).await.expect_problem(404, "not-found");
    let missing = world.get("/v1/missing-symbols?app=com.example.shop", &key).await.expect_status(200);
    assert_eq!(
        (&missing["items"][0]["debug_id"], &missing["items"][0]["reports"]),
        (&IMAGE.into(), &2.into())
    );
    assert_eq!(world.get("/v1/missing-symbols?version=9", &key).await.expect_status(200)["items"], json!([]));
    world.get("/v1/missing-symbols?limit=0", &key).await.expect_problem(400, "invalid-parameter");
    world.stop().await;
}

#[tokio::test]
async fn groups_are_listed_and_lead_to_their_reports() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    store(&world, "acme", &crash(A, "1.0"), 1, now()).await;
    let mut hang = crash(B, "2.0");
    hang["crash"]["error"]["type"] = "hang".into();
    hang["crash"]["threads"][0]["backtrace"]["contents"][0]["symbol_name"] = "-[OrderController pay:]".into();
    store(&world, "acme", &hang, 1, now() + time::Duration::HOUR).await;
    let groups = world.get("/v1/groups", &key).await.expect_status(200);
    let kinds = |page: &Value| {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|group| group["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&groups), ["hang", "crash"]);
    assert_eq!(
        kinds(&world.get("/v1/groups?sort=first_seen&limit=1", &key).await.expect_status(200)),
        ["hang"]
    );
    assert_eq!(kinds(&world.get("/v1/groups?version=1.0", &key).await.expect_status(200)), ["crash"]);
    assert_eq!(kinds(&world.get("/v1/groups?kind=hang&q=HANG", &key).await.expect_status(200)), ["hang"]);
    assert_eq!(kinds(&world.get("/v1/groups?q=controller+PAY", &key).await.expect_status(200)), ["hang"]);
    assert_eq!(ids(&world.get("/v1/reports?q=ordercontroller", &key).await.expect_status(200)), [B]);
    assert!(ids(&world.get("/v1/reports?q=order%25r", &key).await.expect_status(200)).is_empty());
    for list in ["groups", "reports"] {
        for wrong in ["ab", &"x".repeat(101), "ab%00c"] {
            let answer = world.get(&format!("/v1/{list}?q={wrong}"), &key).await;
            answer.expect_problem(400, "invalid-parameter");
        }
    }
    let first = &groups["items"][1];
    assert_eq!((&first["reports"], &first["first_version"]), (&1.into(), &"1.0".into()));
    assert_eq!(first["provisional"], true, "its symbols are missing");
    let id = first["id"].as_str().unwrap();
    let group = world.get(&format!("/v1/groups/{id}"), &key).await.expect_status(200);
    assert_eq!(group["title"], first["title"]);
    assert_eq!(group["versions"], json!([{"version": "1.0", "reports": 1}]));
    assert_eq!(group["days"], json!([{"day": "2026-11-18", "reports": 1}]));
    let listed = world.get(&format!("/v1/reports?group={id}"), &key).await.expect_status(200);
    assert_eq!(ids(&listed), [A]);
    assert_eq!(listed["items"][0]["group"], first["id"]);
    let mut of_bank = crash(&A.replace('1', "4"), "1.0");
    of_bank["system"]["CFBundleIdentifier"] = "com.example.bank".into();
    store(&world, "acme", &of_bank, 1, world.host.clock.now()).await;
    let growing =
        world.get("/v1/groups?sort=growing&app=com.example.bank&version=1.0", &key).await.expect_status(200);
    let growth = json!({"reports": 1, "reports_before": 0});
    assert_eq!((kinds(&growing), &growing["items"][0]["growth"]), (vec!["crash".to_owned()], &growth));
    assert_eq!(
        world.get("/v1/groups?sort=growing&app=com.example.bank&kind=hang", &key).await.expect_status(200)["items"],
        json!([])
    );
    let mut hang_of_bank = hang.clone();
    hang_of_bank["report"]["id"] = B.replace('2', "5").into();
    hang_of_bank["system"]["CFBundleIdentifier"] = "com.example.bank".into();
    store(&world, "acme", &hang_of_bank, 1, world.host.clock.now()).await;
    let path = "/v1/groups?sort=growing&app=com.example.bank&limit=1";
    let page = world.get(path, &key).await.expect_status(200);
    let next = page["next_cursor"].as_str().unwrap();
    let last = world.get(&format!("{path}&cursor={next}"), &key).await.expect_status(200);
    assert_ne!(page["items"][0]["id"], last["items"][0]["id"]);
    assert!(last.get("next_cursor").is_none_or(Value::is_null));
    world.get("/v1/groups?sort=growing&cursor=01ff", &key).await.expect_problem(400, "invalid-parameter");
    world.get("/v1/groups?sort=size", &key).await.expect_problem(400, "invalid-parameter");
    world.get("/v1/groups?seen_from=today", &key).await.expect_problem(400, "invalid-parameter");
    world.get("/v1/groups/7", &key).await.expect_problem(400, "invalid-parameter");
    world.get(&format!("/v1/groups/{A}"), &key).await.expect_problem(404, "not-found");
    world.stop().await;
}

/// A key for one app sees that app, and learns nothing of the others.
#[tokio::test]
async fn a_key_for_one_app_sees_that_app() {
    let world = World::start().await;
    let key = world.key_for("acme", &[Scope::ReportsRead], Some("com.example.bank")).await;
    store(&world, "acme", &crash(A, "1.0"), 1, now()).await;
    let mut bank = crash(B, "1.0");
    bank["system"]["CFBundleIdentifier"] = "com.example.bank".into();
    store(&world, "acme", &bank, 1, now()).await;
    assert_eq!(ids(&world.get("/v1/reports", &key).await.expect_status(200)), [B]);
    world.get("/v1/reports?app=com.example.shop", &key).await.expect_problem(403, "insufficient-scope");
    let any = world.create_key("acme", &[Scope::ReportsRead]).await;
    for group in world.get("/v1/groups", &any).await.expect_status(200)["items"].as_array().unwrap() {
        let answer = world.get(&format!("/v1/groups/{}", group["id"].as_str().unwrap()), &key).await;
        if group["app"] == "com.example.bank" {
            answer.expect_status(200);
        } else {
            answer.expect_problem(404, "not-found");
        }
    }
    assert_eq!(ids(&world.get("/v1/groups", &key).await.expect_status(200)).len(), 1);
    world.get(&format!("/v1/reports/{A}"), &key).await.expect_problem(404, "not-found");
    world.get(&format!("/v1/reports/{A}/explain"), &key).await.expect_problem(404, "not-found");
    world.get(&format!("/v1/reports/{B}"), &key).await.expect_status(200);
    let apps = world.get("/v1/apps", &key).await.expect_status(200);
    assert_eq!(apps["items"].as_array().unwrap().len(), 1);
    world.get("/v1/apps/com.example.shop/versions", &key).await.expect_problem(404, "not-found");
    world.stop().await;
}

#[tokio::test]
async fn a_report_that_came_twice_says_so() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    for offset in [3, 8, 8] {
        let origin = reports::ReportOrigin { topic: "in".to_owned(), partition: 0, offset, index: 0 };
        store_from(&world, "acme", &crash(A, "1.0"), 1, now() + Duration::seconds(offset), Some(origin))
            .await;
    }
    let report = world.get(&format!("/v1/reports/{A}"), &key).await;
    assert_eq!(report.headers["x-report-duplicates"], "1");
    assert!(report.headers["x-report-last-duplicate"].to_str().unwrap().ends_with('Z'));
    let listed = world.get("/v1/reports", &key).await.expect_status(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn reports_are_reprocessed_on_demand_after_a_dry_run() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    store(&world, "acme", &crash(A, "1.0"), 1, now()).await;
    store(&world, "acme", &crash(B, "2.0"), 1, now()).await;
    let ask = async |body: serde_json::Value| world.post_json("/v1/reprocess", &key, &body).await;
    for (filter, count) in [
        (json!({}), 2),
        (json!({"version": "1.0"}), 1),
        (json!({"version": "1.0", "app": "com.example.other"}), 0),
        (json!({"debug_id": IMAGE}), 2),
        (json!({"to": "2020-01-01T00:00:00Z"}), 0),
    ] {
        let mut dry = filter.clone();
        dry["dry_run"] = true.into();
        assert_eq!(ask(dry).await.expect_status(200), json!({"count": count}), "{filter}");
    }
    let made = ask(json!({"version": "1.0"})).await.expect_status(202);
    assert_eq!(
        (&made["count"], &made["version"], &made["answered"]),
        (&1.into(), &"1.0".into(), &false.into())
    );
    let path = format!("/v1/reprocess/{}", made["id"].as_str().unwrap());
    assert_eq!(world.get(&path, &key).await.expect_status(200)["status"], "running");
    // A key for one app asks for that app's, and sees no other's.
    let narrow = world.key_for("acme", &[Scope::TenantAdmin], Some("com.example.other")).await;
    world.get(&path, &narrow).await.expect_problem(404, "not-found");
    let own = world.post_json("/v1/reprocess", &narrow, &json!({"dry_run": true})).await.expect_status(200);
    assert_eq!(own["count"], 0);
    ask(json!({"apps": "x"})).await.expect_problem(400, "invalid-body");
    ask(json!({"debug_id": "x"})).await.expect_problem(400, "invalid-parameter");
    world.stop().await;
}

/// Proves: fairness
#[tokio::test]
async fn a_tenant_has_so_many_reprocesses_open_and_another_begins_its_own() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    world.post_json("/v1/reprocess", &key, &json!({})).await.expect_problem(400, "invalid-body");
    let ask = async || world.post_json("/v1/reprocess", &key, &json!({"all": true})).await;
    // All at once: they count one another.
    let answers = futures::future::join_all((0..8).map(|_| ask())).await;
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 202, 202, 202, 429, 429, 429, 429]);
    let refused = ask().await;
    assert!(refused.headers.contains_key("retry-after"));
    refused.expect_problem(429, "rate-limited");
    world.post_json("/v1/reprocess", &key, &json!({"dry_run": true})).await.expect_status(200);
    let other = world.create_key("umbrella", &[Scope::TenantAdmin]).await;
    world.post_json("/v1/reprocess", &other, &json!({"all": true})).await.expect_status(202);
    world.stop().await;
}

#[tokio::test]
async fn a_hang_has_a_profile_as_a_tree_and_as_folded_stacks() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    store(&world, "acme", &hang(A, "1.0", 900), 1, world.host.clock.now()).await;
    let path = format!("/v1/reports/{A}/profile");
    let found = world.get(&path, &key).await.expect_status(200);
    assert_eq!(
        (&found["name"], &found["duration_ms"], &found["skipped"]),
        (&json!("hang"), &json!(900), &json!(0))
    );
    let nodes: Vec<_> = found["tree"]["nodes"].as_array().unwrap().iter().collect();
    let shown = |node: &Value| (node["parent"].as_u64(), node["name"].clone(), node["count"].as_u64());
    let expected = [
        (None, json!("Shop + 0x3000"), Some(10)),
        (Some(0), json!("Shop + 0x1000"), Some(2)),
        (Some(0), json!("Shop + 0x2000"), Some(8)),
    ];
    let mut nodes: Vec<_> = nodes.into_iter().map(shown).collect();
    nodes.sort_by_key(|node| node.1.to_string().replace("0x3", "0x0"));
    assert_eq!(nodes, expected);
    let folded = world.get(&format!("{path}?format=folded"), &key).await;
    assert_eq!(
        (folded.status.as_u16(), folded.headers["content-type"].to_str().unwrap()),
        (200, "text/plain; charset=utf-8")
    );
    assert_eq!(folded.text, "Shop + 0x3000;Shop + 0x2000 8\nShop + 0x3000;Shop + 0x1000 2\n");
    world.get(&format!("{path}?format=svg"), &key).await.expect_problem(400, "invalid-parameter");
    let crashed = "99999999-9999-9999-9999-999999999999";
    store(&world, "acme", &crash(crashed, "1.0"), 1, world.host.clock.now()).await;
    world.get(&format!("/v1/reports/{crashed}/profile"), &key).await.expect_problem(404, "not-found");
    world.stop().await;
}

//! For each operation of the document a request that names things of one tenant: a caller who asks something
//! of every operation goes through these, so that an operation without a case is missed by none.

use crate::reports::{A, crash, store};
use crate::world::{Answer, World, add_person, tenant_id};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use unslide_model::{ContentHash, Owner, Scope};
use unslide_store::Uuid;
use unslide_store::app_settings::{self, AppSettings};
use unslide_store::app_signals::SignalSettings;
use unslide_store::keys::{self, NewApiKey};

/// A report that only one case is about.
const DOOMED: &str = "33333333-3333-3333-3333-333333333333";
/// A key of App Store Connect that Apple does not know.
const APPLE_KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgUw+n+sWaGsujmn5j\nIi03+lqViKJNDj5VlvhojF49QpuhRANCAATkEs6tlshrxTR5wQU6U5zHtKgVE4hr\nf5a+9/LwcoPpUltal43cgH78wzmPfvQ23AS65Z8oJa7ZGunIB9R7LF+X\n-----END PRIVATE KEY-----\n";
/// A report of a group without a ticket.
const TICKETLESS: &str = "66666666-6666-6666-6666-666666666666";
/// A report of a merged group.
const MERGED: &str = "44444444-4444-4444-4444-444444444444";

pub fn document() -> Value {
    unslide_api::build_document(&crate::world::api_features().features).unwrap()
}

/// Every operation: id, method, path template, the operation.
pub fn operations(document: &Value) -> Vec<(String, Method, String, Value)> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            operations.push((id, method, path.clone(), operation.clone()));
        }
    }
    operations
}

/// How a request with another tenant's key must end.
pub enum Foreign {
    /// What it names does not exist for that tenant.
    NotFound,
    /// An empty list.
    Empty,
    /// An empty list; what is listed is of no app, so that a key for one app may not ask.
    EmptyOfNoApp,
    /// A stream without events.
    Quiet,
    /// The request names nothing of any tenant: it acts for the key's own.
    Own(fn(&Value)),
    /// Only operators get here, who may name any tenant.
    Operators,
}

pub struct Case {
    pub path: String,
    pub body: Option<Value>,
    pub foreign: Foreign,
}

impl Case {
    fn new(path: impl Into<String>, foreign: Foreign) -> Case {
        Case { path: path.into(), body: None, foreign }
    }

    fn body(self, body: Value) -> Case {
        Case { body: Some(body), ..self }
    }
}

/// Things of the tenant acme, and for each operation of the document a request that names them.
pub async fn cases(world: &World, key: &str) -> BTreeMap<&'static str, Case> {
    let cases = made(world, key).await;
    let operations = operations(&document());
    let ids: BTreeSet<&str> = operations.iter().map(|(id, ..)| id.as_str()).collect();
    assert_eq!(ids, cases.keys().copied().collect(), "every operation has its case here");
    cases
}

async fn made(world: &World, key: &str) -> BTreeMap<&'static str, Case> {
    let file = b"\xcf\xfa\xed\xfe some bytes".to_vec();
    let hash = sha256(&file);
    let upload = world.post("/v1/symbols", key, file).await.expect_status(202);
    let upload = upload["id"].as_str().unwrap();
    let debug_id = crate::symbols::stored(world, "acme").await;
    crate::symbols::put_file(world, "acme", &debug_id).await;
    let source_map = crate::symbols::put_source_map(world, "acme").await;
    let [build_before, build_after] = crate::symbols::put_builds(world, "acme").await;
    let file = b"\xcf\xfa\xed\xfe some system's bytes".to_vec();
    let system_hash = sha256(&file);
    let system_upload = world.post("/v1/system/symbols", key, file).await.expect_status(202);
    let system_upload = system_upload["id"].as_str().unwrap();
    let system_id = crate::symbols::stored_by(world, &Owner::System, None).await;
    // The bytes of a case are one part of an upload that waits for it, and of one that has it.
    let file = Value::String("\u{cf}".to_owned());
    let in_parts = |n: u8| json!({"size": 15, "sha256": ContentHash([n; 32]).to_string()});
    let begin = async |routes: &str, n| {
        let begun = world.post_json(&format!("{routes}/uploads"), key, &in_parts(n)).await.expect_status(200);
        begun["id"].as_str().unwrap().to_owned()
    };
    let fill = async |routes: &str, id: String| {
        let case = Case::new(format!("{routes}/uploads/{id}/parts/1"), Foreign::NotFound).body(file.clone());
        attempt(world, &Method::PUT, &case, key).await.expect_status(204);
        id
    };
    let (own, systems) = ("/v1/symbols", "/v1/system/symbols");
    let (open, filled) = (begin(own, 2).await, fill(own, begin(own, 3).await).await);
    let (system_open, system_filled) =
        (begin(systems, 2).await, fill(systems, begin(systems, 3).await).await);
    let build = json!({"arch": "arm64e", "debug_ids": [system_id]});
    for routes in [own, systems] {
        let put = world.request(Method::PUT, &format!("{routes}/builds/23B88"), key).body(build.to_string());
        world.send(put).await.expect_status(200);
    }
    let mut report = crash(A, "1.0");
    report["user"] = json!({"plan": "pro"});
    store(world, "acme", &report, 1, world.host.clock.now()).await;
    let capture = crate::signals::captures::analysed(world, "acme", key).await;
    let graph = crate::signals::capture_blocks::analysed_snapshot(world, "acme", key).await;
    let owners = world.post("/v1/owners?app=com.acme.doomed", key, "* @acme/all").await.expect_status(200);
    let owners = owners["id"].as_str().unwrap();
    let reprocess =
        world.post_json("/v1/reprocess", key, &json!({"version": "1.0"})).await.expect_status(202);
    assert_eq!((&reprocess["count"], &reprocess["status"]), (&1.into(), &"running".into()));
    let reprocess = reprocess["id"].as_str().unwrap();
    store(world, "acme", &crash(DOOMED, "1.0"), 1, world.host.clock.now()).await;
    crate::signals::sessions::store(world, "acme", &[crate::signals::sessions::now(world, "s1")]).await;
    crate::signals::metrics::store(world, "acme", &[crate::signals::metrics::now(world, "m1")]).await;
    let mut hang = crash(MERGED, "1.0");
    hang["crash"]["error"]["type"] = "hang".into();
    hang["system"]["app_memory"] = json!({"memory_limit": 2_u64 << 30});
    store(world, "acme", &hang, 1, world.host.clock.now()).await;
    let mut exception = crash(TICKETLESS, "1.0");
    exception["crash"]["error"]["type"] = "nsexception".into();
    store(world, "acme", &exception, 1, world.host.clock.now()).await;
    let ticketless = world.get("/v1/groups?kind=exception", key).await.expect_status(200);
    let ticketless = ticketless["items"][0]["id"].as_str().unwrap();
    let groups = world.get("/v1/groups?kind=crash", key).await.expect_status(200);
    let group = groups["items"][0]["id"].as_str().unwrap();
    let comments = format!("/v1/groups/{group}/comments");
    let mut said = Vec::new();
    for _ in 0..2 {
        let added = world.post_json(&comments, key, &json!({"text": "a"})).await.expect_status(201);
        said.push(added["id"].as_str().unwrap().to_owned());
    }
    let [comment, doomed_comment] = said.try_into().unwrap();
    let merged = world.get("/v1/groups?kind=hang", key).await.expect_status(200);
    let merged = merged["items"][0]["id"].as_str().unwrap();
    let merging = json!({"groups": [merged]});
    world.post_json(&format!("/v1/groups/{group}/merge"), key, &merging).await.expect_status(200);
    let made = world
        .post_json("/v1/keys", key, &json!({"name": "x", "scopes": ["symbols:read"]}))
        .await
        .expect_status(201);
    let made = made["id"].as_str().unwrap();
    let revoked = revoked_key(world).await.0;
    world.post_json("/v1/tenants", key, &json!({"id": "wayne"})).await.expect_status(201);
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let settings = AppSettings {
        source_url: "https://git.example.com/{path}".into(),
        signals: SignalSettings { hangs: false, ..SignalSettings::default() },
        ..AppSettings::default()
    };
    assert!(app_settings::replace_settings(&mut tx, "com.example.shop", &settings).await.unwrap());
    tx.commit().await.unwrap();
    let (rule, alert) = crate::alerts::rule_with_message(world, "acme").await;
    let (doomed_rule, _) = crate::alerts::rule_with_message(world, "acme").await;
    let public = json!({"name": "shop", "apps": ["com.example.shop"]});
    let erasure = json!({"kind": "session", "id": "none"});
    let erasure = world.post_json("/v1/person-erasures", key, &erasure).await.expect_status(202);
    let erasure = erasure["id"].as_str().unwrap();
    let apple_key =
        json!({"key_id": "2X9R4HXF34", "private_key": APPLE_KEY, "apps": ["com.acme.shop"], "force": true});
    let set = world.request(Method::PUT, "/v1/testflight", key).body(apple_key.to_string());
    world.send(set).await.expect_status(200);
    let mut tracker = json!({"kind": "github", "url": "https://tracker.invalid", "project": "acme/shop", "token": "token", "force": true});
    for name in ["probed", "doomed", "main"] {
        tracker["name"] = name.into();
        let set = world.request(Method::PUT, "/v1/trackers", key).body(tracker.to_string());
        world.send(set).await.expect_status(200);
    }
    let mut receiver = json!({"name": "siem", "kind": "syslog", "address": "siem.invalid:6514"});
    for name in ["probed", "doomed"] {
        receiver["name"] = name.into();
        let set = world.request(Method::PUT, "/v1/audit-log/receivers", key).body(receiver.to_string());
        world.send(set).await.expect_status(200);
    }
    receiver["name"] = "siem".into();
    let mut source =
        json!({"name": "builds", "kind": "http", "layout": "unified", "address": "https://symbols.invalid"});
    for name in ["probed", "doomed"] {
        source["name"] = name.into();
        let set = world.request(Method::PUT, "/v1/symbol-sources", key).body(source.to_string());
        world.send(set).await.expect_status(200);
    }
    source["name"] = "builds".into();
    let lake = json!({"address": "https://lake.invalid", "bucket": "lake", "access_key": "A", "secret_key": "secret"});
    let set = world.request(Method::PUT, "/v1/parquet-export", key).body(lake.to_string());
    world.send(set).await.expect_status(200);
    let log = world.get("/v1/audit-log?limit=1", key).await.expect_status(200);
    let entries_after = format!("/v1/audit-log/entries?after={}", log["items"][0]["id"].as_str().unwrap());
    let slack = json!({"bot_token": "xoxb-1", "signing_secret": "0123456789abcdef0123456789abcdef", "channel": "C1", "team": "T1",
                       "force": true});
    let set = world.request(Method::PUT, "/v1/chat/slack", key).body(slack.to_string());
    world.send(set).await.expect_status(200);
    let otlp = json!({"other_records": "refuse", "export": {"url": "https://otlp.invalid/v1/logs", "headers": {"x-key": "a"}}});
    let set = world.request(Method::PUT, "/v1/otlp", key).body(otlp.to_string());
    world.send(set).await.expect_status(200);
    let scrubbing = json!({"rules": {"ready": [{"pattern": "email", "action": "mask"}]}});
    let set = world.request(Method::PUT, "/v1/scrubbing", key).body(scrubbing.to_string());
    world.send(set).await.expect_status(200);
    let public_key = world.post_json("/v1/public-keys", key, &public).await.expect_status(201);
    let public_key = public_key["id"].as_str().unwrap();
    let save_view = async |name: &str| {
        let saved = world.post_json("/v1/group-views", key, &json!({"name": name})).await.expect_status(201);
        saved["id"].as_str().unwrap().to_owned()
    };
    let (view, doomed_view) = (save_view("mine").await, save_view("doomed").await);
    add_person(world, "robin").await;
    let names_key = world.post_json("/v1/names-keys", key, &json!({"name": "team"})).await.expect_status(201);
    let names_key = names_key["id"].as_str().unwrap();
    let scim_token =
        world.post_json("/v1/scim-tokens", key, &json!({"name": "Okta"})).await.expect_status(201);
    let scim_token = scim_token["id"].as_str().unwrap();
    let letter = crate::dead_letters::letter(world, Some("acme"), "not_json", None, Some(b"{")).await;
    let letters = |path: &str, foreign| Case::new(format!("/v1/dead-letters{path}"), foreign);
    let any = |path: &str| Case::new(format!("/v1/operator/dead-letters{path}"), Foreign::Operators);
    let one = |rest: &str| format!("/{letter}{rest}");
    let no_match = |body: &Value| assert_eq!(body["matched"], 0);
    let all_missing = |body: &Value| {
        assert_eq!((&body["items"][0]["status"], &body["ready"]), (&"missing".into(), &false.into()));
    };
    let without_symbols = |body: &Value| assert_eq!(body["symbolication"]["tenant"], "umbrella");
    let keeps_all = |answer: &Value| assert_eq!(answer["signals"]["hangs"], true);
    let no_source_url = |settings: &Value| assert_eq!(settings["source_url"], "");
    let no_match_found = |body: &Value| assert_eq!(body["items"], json!([]));
    let own_keys = |body: &Value| assert_eq!(body["items"].as_array().unwrap().len(), 1, "its own key");
    BTreeMap::from([
        (
            "upload_symbols",
            Case::new("/v1/symbols", Foreign::Own(|body| assert_eq!(body["existing"], false)))
                .body(Value::String("\u{cf}".to_owned())),
        ),
        ("get_upload", Case::new(format!("/v1/symbols/uploads/{upload}"), Foreign::NotFound)),
        ("find_upload", Case::new(format!("/v1/symbols/uploads/by-content/{hash}"), Foreign::NotFound)),
        (
            "begin_upload",
            Case::new("/v1/symbols/uploads", Foreign::Own(|body| assert_eq!(body["parts"], json!([]))))
                .body(in_parts(1)),
        ),
        (
            "upload_part",
            Case::new(format!("/v1/symbols/uploads/{open}/parts/1"), Foreign::NotFound).body(file.clone()),
        ),
        ("complete_upload", Case::new(format!("/v1/symbols/uploads/{filled}/complete"), Foreign::NotFound)),
        ("list_symbols", Case::new("/v1/symbols", Foreign::Empty)),
        ("get_symbols", Case::new(format!("/v1/symbols/{debug_id}"), Foreign::NotFound)),
        ("get_symbol_file", Case::new(format!("/v1/symbols/{debug_id}/file"), Foreign::NotFound)),
        (
            "get_source_file",
            Case::new(format!("/v1/symbols/{source_map}/source?path=src/cart.ts"), Foreign::NotFound),
        ),
        (
            "create_names_key",
            Case::new("/v1/names-keys", Foreign::Own(|body| assert!(body["text"].is_string())))
                .body(json!({"name": "team"})),
        ),
        ("list_names_keys", Case::new("/v1/names-keys", Foreign::Empty)),
        ("delete_names_key", Case::new(format!("/v1/names-keys/{names_key}"), Foreign::NotFound)),
        ("delete_symbols", Case::new(format!("/v1/symbols/{debug_id}"), Foreign::NotFound)),
        (
            "check_symbols",
            Case::new("/v1/symbols/check", Foreign::Own(all_missing)).body(json!({"debug_ids": [debug_id]})),
        ),
        (
            "send_reports",
            Case::new("/v1/reports", Foreign::Own(|body| assert_eq!(body["accepted"], 1)))
                .body(crash(A, "1.0")),
        ),
        (
            "send_capture",
            Case::new(
                "/v1/captures?app=com.example.shop&kind=profile",
                Foreign::Own(|body| assert_eq!(body["existing"], false)),
            )
            .body(Value::String("\u{cf}".to_owned())),
        ),
        ("list_captures", Case::new("/v1/captures", Foreign::Empty)),
        ("get_capture", Case::new(format!("/v1/captures/{capture}"), Foreign::NotFound)),
        (
            "get_capture_block",
            Case::new(format!("/v1/captures/{graph}/blocks?address=0x1000"), Foreign::NotFound),
        ),
        ("get_capture_file", Case::new(format!("/v1/captures/{capture}/files/file"), Foreign::NotFound)),
        (
            "compare_captures",
            Case::new(format!("/v1/captures/{capture}/compare/{capture}"), Foreign::NotFound),
        ),
        ("delete_capture", Case::new(format!("/v1/captures/{capture}"), Foreign::NotFound)),
        (
            "send_sessions",
            Case::new("/v1/sessions", Foreign::Own(|body| assert_eq!(body["accepted"], 1)))
                .body(crate::signals::sessions::event("s1", "2026-11-20T08:00:00Z")),
        ),
        (
            "send_metrics",
            Case::new("/v1/metrics", Foreign::Own(|body| assert_eq!(body["accepted"], 1)))
                .body(crate::signals::metrics::payload("m1", "2026-11-20T08:00:00Z")),
        ),
        ("compare_versions", Case::new("/v1/apps/com.example.shop/health/versions", Foreign::NotFound)),
        (
            "get_figure",
            Case::new("/v1/apps/com.example.shop/health/figure?figure=launch_time_p50", Foreign::NotFound),
        ),
        ("break_down_metric", Case::new(crate::signals::metrics::LAUNCHES_BY_MODEL, Foreign::NotFound)),
        ("get_signals", Case::new("/v1/apps/com.example.shop/signals", Foreign::Own(keeps_all))),
        ("get_session", Case::new("/v1/sessions/s1?app=com.example.shop", Foreign::NotFound)),
        ("get_network", Case::new("/v1/apps/com.example.shop/network", Foreign::NotFound)),
        ("list_network", Case::new("/v1/apps/com.example.shop/network/host", Foreign::NotFound)),
        ("get_health", Case::new("/v1/apps/com.example.shop/health", Foreign::NotFound)),
        ("list_own_keys", Case::new("/v1/apps/com.example.shop/keys", Foreign::NotFound)),
        ("list_own_key_values", Case::new("/v1/apps/com.example.shop/keys/plan", Foreign::NotFound)),
        ("list_memory_limits", Case::new("/v1/apps/com.example.shop/memory-limits", Foreign::NotFound)),
        ("list_reports", Case::new("/v1/reports", Foreign::Empty)),
        ("get_report", Case::new(format!("/v1/reports/{A}"), Foreign::NotFound)),
        ("get_source_context", Case::new(format!("/v1/reports/{A}/source-context"), Foreign::NotFound)),
        ("get_report_profile", Case::new(format!("/v1/reports/{MERGED}/profile"), Foreign::NotFound)),
        ("explain_report", Case::new(format!("/v1/reports/{A}/explain"), Foreign::NotFound)),
        ("symbolicate", Case::new("/v1/symbolicate", Foreign::Own(without_symbols)).body(crash(A, "1.0"))),
        (
            "create_reprocess",
            Case::new("/v1/reprocess", Foreign::Own(|body| assert_eq!(body["count"], 0)))
                .body(json!({"app": "com.example.shop"})),
        ),
        ("get_reprocess", Case::new(format!("/v1/reprocess/{reprocess}"), Foreign::NotFound)),
        ("list_dead_letters", letters("", Foreign::EmptyOfNoApp)),
        ("get_dead_letter", letters(&one(""), Foreign::NotFound)),
        ("get_dead_letter_body", letters(&one("/body"), Foreign::NotFound)),
        ("replay_dead_letter", letters(&one("/replay"), Foreign::NotFound).body(json!({"again": true}))),
        ("replay_dead_letters", letters("/replay", Foreign::Own(no_match)).body(json!({"dry_run": true}))),
        ("operator_list_dead_letters", any("")),
        ("operator_get_dead_letter", any(&one(""))),
        ("operator_get_dead_letter_body", any(&one("/body"))),
        ("operator_replay_dead_letter", any(&one("/replay")).body(json!({"again": true}))),
        ("operator_replay_dead_letters", any("/replay").body(json!({"dry_run": true}))),
        ("list_apps", Case::new("/v1/apps", Foreign::Empty)),
        ("list_app_settings", Case::new("/v1/app-settings", Foreign::Empty)),
        (
            "set_app_settings",
            Case::new("/v1/app-settings", Foreign::Own(no_source_url))
                .body(json!({"app": "com.example.shop"})),
        ),
        ("list_audit_log", Case::new("/v1/audit-log", Foreign::EmptyOfNoApp)),
        ("list_groups", Case::new("/v1/groups", Foreign::Empty)),
        ("follow_events", Case::new("/v1/events?seconds=1&after=0", Foreign::Quiet)),
        (
            "get_system_symbol_coverage",
            Case::new("/v1/system-symbols/coverage", Foreign::Own(|body| assert_eq!(body["reports"], 0))),
        ),
        (
            "record_symbol_build",
            Case::new("/v1/symbols/builds/23B87", Foreign::Own(|body| assert_eq!(body["images"], 1)))
                .body(build.clone()),
        ),
        ("remove_symbol_build", Case::new("/v1/symbols/builds/23B88", Foreign::NotFound)),
        (
            "record_system_symbol_build",
            Case::new("/v1/system/symbols/builds/23B87", Foreign::Operators).body(build),
        ),
        ("remove_system_symbol_build", Case::new("/v1/system/symbols/builds/23B88", Foreign::Operators)),
        ("get_sources", Case::new("/v1/sources", Foreign::Own(|body| assert_eq!(body["enabled"], false)))),
        (
            "set_sources",
            Case::new("/v1/sources", Foreign::Own(|body| assert_eq!(body["enabled"], false)))
                .body(json!({"enabled": false})),
        ),
        (
            "upload_source_bundle",
            Case::new("/v1/source-bundles", Foreign::Own(|body| assert_eq!(body["stored"], false))),
        ),
        (
            "upload_owners",
            Case::new(
                "/v1/owners?app=com.acme.shop",
                Foreign::Own(|body| assert_eq!(body["app"], "com.acme.shop")),
            )
            // A line that GitHub skips: a file all the same.
            .body(json!([])),
        ),
        (
            "get_owners",
            Case::new(
                "/v1/owners?app=com.acme.shop",
                Foreign::Own(|body| assert!(body["owners"].is_array())),
            ),
        ),
        (
            "set_owner_paths",
            Case::new("/v1/owners/paths", Foreign::Own(|body| assert_eq!(body["paths"], json!([]))))
                .body(json!({"app": "com.acme.shop", "paths": []})),
        ),
        ("delete_owners", Case::new(format!("/v1/owners/{owners}"), Foreign::NotFound)),
        ("get_group_owners", Case::new(format!("/v1/groups/{group}/owners"), Foreign::NotFound)),
        (
            "get_group_commonalities",
            Case::new(format!("/v1/groups/{group}/commonalities"), Foreign::NotFound),
        ),
        ("get_group_changes", Case::new(format!("/v1/groups/{group}/changes"), Foreign::NotFound)),
        (
            "diff_builds",
            Case::new(format!("/v1/builds/diff?a={build_before}&b={build_after}"), Foreign::NotFound),
        ),
        (
            "set_build_commit",
            Case::new("/v1/builds/commit", Foreign::Own(|body| assert_eq!(body["builds"], 1)))
                .body(json!({"debug_ids": [debug_id], "commit": "0a1b2c3"})),
        ),
        ("get_group_verdict", Case::new(format!("/v1/groups/{group}/verdict"), Foreign::NotFound)),
        ("check_version", Case::new("/v1/apps/com.example.shop/versions/1.0/check", Foreign::NotFound)),
        (
            "get_fault_analysis",
            Case::new("/v1/fault-analysis", Foreign::Own(|body| assert_eq!(body["enabled"], true))),
        ),
        (
            "set_fault_analysis",
            Case::new("/v1/fault-analysis", Foreign::Own(|body| assert_eq!(body["enabled"], true)))
                .body(json!({"enabled": true})),
        ),
        ("search", Case::new(format!("/v1/search?q={group}"), Foreign::Own(no_match_found))),
        (
            "get_person_search",
            Case::new("/v1/person-search", Foreign::Own(|body| assert_eq!(body["enabled"], false))),
        ),
        (
            "set_person_search",
            Case::new("/v1/person-search", Foreign::Own(|body| assert_eq!(body["enabled"], false)))
                .body(json!({"enabled": false})),
        ),
        ("get_grouping_rules", Case::new("/v1/grouping-rules", Foreign::Own(|_| {}))),
        (
            "set_grouping_rules",
            Case::new("/v1/grouping-rules", Foreign::Own(|body| assert_eq!(body["version"], 1)))
                .body(json!({"text": "ignore function Log.*"})),
        ),
        (
            "try_grouping_rules",
            Case::new("/v1/grouping-rules/trial", Foreign::Own(|body| assert_eq!(body["looked"], 0)))
                .body(json!({"text": "ignore function Log.*"})),
        ),
        ("get_group", Case::new(format!("/v1/groups/{group}"), Foreign::NotFound)),
        (
            "create_alert_rule",
            Case::new("/v1/alert-rules", Foreign::Own(|body| assert_eq!(body["condition"], "new_group")))
                .body(crate::alerts::rule("https://alerts.example.com/hook")),
        ),
        (
            "create_public_key",
            Case::new("/v1/public-keys", Foreign::Own(|body| assert_eq!(body["state"], "active")))
                .body(public),
        ),
        ("list_public_keys", Case::new("/v1/public-keys", Foreign::Empty)),
        ("get_public_key", Case::new(format!("/v1/public-keys/{public_key}"), Foreign::NotFound)),
        (
            "change_public_key",
            Case::new(format!("/v1/public-keys/{public_key}"), Foreign::NotFound)
                .body(json!({"state": "retired"})),
        ),
        (
            "erase_public_key_reports",
            Case::new(format!("/v1/public-keys/{public_key}/erasures"), Foreign::NotFound)
                .body(json!({"from": "2026-01-01T00:00:00Z"})),
        ),
        (
            "erase_person",
            Case::new("/v1/person-erasures", Foreign::Own(|body| assert_eq!(body["state"], "searching")))
                .body(json!({"kind": "user", "id": "nobody"})),
        ),
        ("list_person_erasures", Case::new("/v1/person-erasures", Foreign::EmptyOfNoApp)),
        ("get_person_erasure", Case::new(format!("/v1/person-erasures/{erasure}"), Foreign::NotFound)),
        ("get_scim", Case::new("/v1/scim", Foreign::Own(|body| assert_eq!(body["users"], 0)))),
        (
            "create_scim_token",
            Case::new("/v1/scim-tokens", Foreign::Own(|body| assert!(body["text"].is_string())))
                .body(json!({"name": "Okta"})),
        ),
        ("list_scim_tokens", Case::new("/v1/scim-tokens", Foreign::EmptyOfNoApp)),
        ("delete_scim_token", Case::new(format!("/v1/scim-tokens/{scim_token}"), Foreign::NotFound)),
        ("list_people", Case::new("/v1/people", Foreign::EmptyOfNoApp)),
        ("get_sign_in", Case::new("/v1/sign-in", Foreign::Own(|body| assert!(body["provider"].is_null())))),
        (
            "set_sign_in",
            Case::new("/v1/sign-in", Foreign::Own(|body| assert_eq!(body["provider"]["client_id"], "x")))
                .body(json!({"issuer": "https://login.invalid", "client_id": "x", "force": true,
                "rules": [{"group": "*", "preset": "reader"}]})),
        ),
        (
            "remove_sign_in",
            Case::new("/v1/sign-in", Foreign::Own(|body| assert!(body["provider"].is_null()))),
        ),
        (
            "get_testflight",
            Case::new("/v1/testflight", Foreign::Own(|body| assert_eq!(body["submissions"]["sent"], 0))),
        ),
        (
            "set_testflight",
            Case::new("/v1/testflight", Foreign::Own(|body| assert_eq!(body["key"]["key_id"], "2X9R4HXF34")))
                .body(apple_key),
        ),
        (
            "poll_testflight",
            Case::new("/v1/testflight/poll", Foreign::Own(|body| assert!(body["recent"].is_array()))),
        ),
        (
            "remove_testflight",
            Case::new("/v1/testflight", Foreign::Own(|body| assert!(body["key"].is_null()))),
        ),
        ("list_audit_entries", Case::new(entries_after, Foreign::NotFound)),
        (
            "list_audit_receivers",
            Case::new(
                "/v1/audit-log/receivers",
                Foreign::Own(|body| assert!(!body.to_string().contains("doomed"))),
            ),
        ),
        (
            "set_audit_receiver",
            Case::new("/v1/audit-log/receivers", Foreign::Own(|body| assert_eq!(body["name"], "siem")))
                .body(receiver),
        ),
        ("test_audit_receiver", Case::new("/v1/audit-log/receivers/probed/test", Foreign::NotFound)),
        ("remove_audit_receiver", Case::new("/v1/audit-log/receivers/doomed", Foreign::NotFound)),
        (
            "list_symbol_sources",
            Case::new(
                "/v1/symbol-sources",
                Foreign::Own(|body| assert!(!body.to_string().contains("doomed"))),
            ),
        ),
        (
            "set_symbol_source",
            Case::new("/v1/symbol-sources", Foreign::Own(|body| assert_eq!(body["name"], "builds")))
                .body(source),
        ),
        (
            "test_symbol_source",
            Case::new("/v1/symbol-sources/probed/test", Foreign::NotFound)
                .body(json!({"debug_id": "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"})),
        ),
        ("remove_symbol_source", Case::new("/v1/symbol-sources/doomed", Foreign::NotFound)),
        (
            "get_parquet_export",
            Case::new("/v1/parquet-export", Foreign::Own(|body| assert!(body["export"].is_null()))),
        ),
        (
            "set_parquet_export",
            Case::new(
                "/v1/parquet-export",
                Foreign::Own(|body| assert_eq!(body["address"], "https://lake.invalid/lake")),
            )
            .body(lake),
        ),
        (
            "test_parquet_export",
            Case::new("/v1/parquet-export/test", Foreign::Own(|body| assert_eq!(body["ok"], false))),
        ),
        (
            "remove_parquet_export",
            Case::new("/v1/parquet-export", Foreign::Own(|body| assert!(body["export"].is_null()))),
        ),
        ("get_slack", Case::new("/v1/chat/slack", Foreign::Own(|body| assert!(body["slack"].is_null())))),
        (
            "set_slack",
            Case::new("/v1/chat/slack", Foreign::Own(|body| assert_eq!(body["channel"], "C1"))).body(slack),
        ),
        ("test_slack", Case::new("/v1/chat/slack/test", Foreign::Own(|body| assert_eq!(body["ok"], false)))),
        ("remove_slack", Case::new("/v1/chat/slack", Foreign::Own(|body| assert!(body["slack"].is_null())))),
        (
            "list_trackers",
            Case::new("/v1/trackers", Foreign::Own(|body| assert!(!body.to_string().contains("doomed")))),
        ),
        (
            "set_tracker",
            Case::new("/v1/trackers", Foreign::Own(|body| assert_eq!(body["name"], "main"))).body(tracker),
        ),
        ("test_tracker", Case::new("/v1/trackers/probed/test", Foreign::NotFound)),
        ("remove_tracker", Case::new("/v1/trackers/doomed", Foreign::NotFound)),
        ("get_ticket", Case::new(format!("/v1/groups/{group}/ticket"), Foreign::NotFound)),
        (
            "create_ticket",
            Case::new(format!("/v1/groups/{ticketless}/ticket"), Foreign::NotFound)
                .body(json!({"tracker": "main"})),
        ),
        (
            "link_ticket",
            Case::new(format!("/v1/groups/{group}/ticket"), Foreign::NotFound)
                .body(json!({"tracker": "main", "ticket": "17"})),
        ),
        ("get_otlp", Case::new("/v1/otlp", Foreign::Own(|body| assert_eq!(body["other_records"], "accept")))),
        (
            "set_otlp",
            Case::new("/v1/otlp", Foreign::Own(|body| assert!(body["export"]["headers"].is_array())))
                .body(otlp),
        ),
        (
            "get_regression_rule",
            Case::new("/v1/regression-rule", Foreign::Own(|body| assert_eq!(body["rule"], "not_fixed"))),
        ),
        (
            "set_regression_rule",
            Case::new("/v1/regression-rule", Foreign::Own(|body| assert_eq!(body["rule"], "not_fixed")))
                .body(json!({"rule": "not_fixed"})),
        ),
        (
            "get_body_cap",
            Case::new("/v1/body-cap", Foreign::Own(|body| assert_eq!(body["items"], json!([])))),
        ),
        (
            "set_body_cap",
            Case::new(
                "/v1/body-cap",
                Foreign::Own(|body| assert_eq!(body["items"][0]["bodies"], json!(200))),
            )
            .body(json!({"app": "com.example.capped", "bodies": 200})),
        ),
        (
            "get_scrubbing",
            Case::new("/v1/scrubbing", Foreign::Own(|body| assert_eq!(body["items"], json!([])))),
        ),
        (
            "set_scrubbing",
            Case::new(
                "/v1/scrubbing",
                Foreign::Own(|body| assert_eq!(body["items"].as_array().unwrap().len(), 1)),
            )
            // Of one app, so that a trial of the others' rules tells whose they are.
            .body(json!({"app": "com.example.scrubbed", "rules": scrubbing["rules"]})),
        ),
        (
            "apply_scrubbing",
            Case::new(
                "/v1/scrubbing/apply",
                Foreign::Own(|body| assert_eq!(body["run"]["status"], json!("running"))),
            ),
        ),
        (
            "preview_scrubbing",
            Case::new("/v1/scrubbing/preview", Foreign::Own(|body| assert_eq!(body["taken"], json!({}))))
                .body(json!({})),
        ),
        (
            "try_scrubbing",
            Case::new(
                "/v1/scrubbing/try",
                Foreign::Own(|body| assert_eq!(body["text"], "of robin@example.com")),
            )
            .body(json!({"text": "of robin@example.com"})),
        ),
        ("remove_otlp", Case::new("/v1/otlp", Foreign::Own(|body| assert!(body["export"].is_null())))),
        ("list_alert_rules", Case::new("/v1/alert-rules", Foreign::Empty)),
        ("get_alert_rule", Case::new(format!("/v1/alert-rules/{rule}"), Foreign::NotFound)),
        (
            "change_alert_rule",
            Case::new(format!("/v1/alert-rules/{rule}"), Foreign::NotFound).body(json!({"enabled": false})),
        ),
        ("test_alert_rule", Case::new(format!("/v1/alert-rules/{rule}/test"), Foreign::NotFound)),
        ("delete_alert_rule", Case::new(format!("/v1/alert-rules/{doomed_rule}"), Foreign::NotFound)),
        ("list_alert_messages", Case::new("/v1/alert-messages", Foreign::Empty)),
        ("list_alert_firings", Case::new("/v1/alert-firings", Foreign::Empty)),
        (
            "acknowledge_alert_firing",
            Case::new(format!("/v1/alert-firings/{rule}/acknowledge"), Foreign::NotFound),
        ),
        (
            "send_group",
            Case::new(format!("/v1/groups/{group}/send"), Foreign::NotFound).body(json!({"rule": rule})),
        ),
        ("send_alert_again", Case::new(format!("/v1/alert-messages/{alert}/send"), Foreign::NotFound)),
        (
            "change_group",
            Case::new(format!("/v1/groups/{group}"), Foreign::NotFound).body(json!({"status": "resolved"})),
        ),
        (
            "change_groups",
            Case::new("/v1/groups/changes", Foreign::Own(|body| assert_eq!(body["done"], 0)))
                .body(json!({"groups": [group], "change": {"status": "resolved"}})),
        ),
        ("list_group_views", Case::new("/v1/group-views", Foreign::Empty)),
        (
            "create_group_view",
            Case::new("/v1/group-views", Foreign::Own(|body| assert_eq!(body["shared"], false)))
                .body(json!({"name": "new", "filter": {"status": "open"}})),
        ),
        (
            "change_group_view",
            Case::new(format!("/v1/group-views/{view}"), Foreign::NotFound).body(json!({"name": "renamed"})),
        ),
        ("delete_group_view", Case::new(format!("/v1/group-views/{doomed_view}"), Foreign::NotFound)),
        ("list_group_activity", Case::new(format!("/v1/groups/{group}/activity"), Foreign::NotFound)),
        ("get_group_context", Case::new(format!("/v1/groups/{group}/context?key=plan"), Foreign::NotFound)),
        (
            "comment_on_group",
            Case::new(format!("/v1/groups/{group}/comments"), Foreign::NotFound).body(json!({"text": "a"})),
        ),
        (
            "change_group_comment",
            Case::new(format!("/v1/groups/{group}/comments/{comment}"), Foreign::NotFound)
                .body(json!({"text": "b"})),
        ),
        (
            "delete_group_comment",
            Case::new(format!("/v1/groups/{group}/comments/{doomed_comment}"), Foreign::NotFound),
        ),
        ("merge_groups", Case::new(format!("/v1/groups/{group}/merge"), Foreign::NotFound).body(merging)),
        (
            "split_group",
            Case::new(format!("/v1/groups/{group}/split"), Foreign::NotFound).body(json!({"group": merged})),
        ),
        ("list_versions", Case::new("/v1/apps/com.example.shop/versions", Foreign::NotFound)),
        ("delete_report", Case::new(format!("/v1/reports/{DOOMED}"), Foreign::NotFound)),
        ("list_missing_symbols", Case::new("/v1/missing-symbols", Foreign::Empty)),
        (
            "upload_system_symbols",
            Case::new("/v1/system/symbols", Foreign::Operators).body(Value::String("\u{cf}".to_owned())),
        ),
        (
            "get_system_upload",
            Case::new(format!("/v1/system/symbols/uploads/{system_upload}"), Foreign::Operators),
        ),
        (
            "find_system_upload",
            Case::new(format!("/v1/system/symbols/uploads/by-content/{system_hash}"), Foreign::Operators),
        ),
        (
            "begin_system_upload",
            Case::new("/v1/system/symbols/uploads", Foreign::Operators).body(in_parts(1)),
        ),
        (
            "upload_system_part",
            Case::new(format!("/v1/system/symbols/uploads/{system_open}/parts/1"), Foreign::Operators)
                .body(file),
        ),
        (
            "complete_system_upload",
            Case::new(format!("/v1/system/symbols/uploads/{system_filled}/complete"), Foreign::Operators),
        ),
        (
            "check_system_symbols",
            Case::new("/v1/system/symbols/check", Foreign::Operators).body(json!({"debug_ids": [system_id]})),
        ),
        ("list_system_symbols", Case::new("/v1/system/symbols", Foreign::Operators)),
        ("get_system_symbols", Case::new(format!("/v1/system/symbols/{system_id}"), Foreign::Operators)),
        ("delete_system_symbols", Case::new(format!("/v1/system/symbols/{system_id}"), Foreign::Operators)),
        ("create_tenant", Case::new("/v1/tenants", Foreign::Operators).body(json!({"id": "stark"}))),
        ("list_tenants", Case::new("/v1/tenants", Foreign::Operators)),
        ("list_costs", Case::new("/v1/costs?from=2026-01-01&to=2026-01-31", Foreign::Operators)),
        ("list_tenant_usage", Case::new("/v1/tenant-usage", Foreign::Operators)),
        ("get_tenant", Case::new("/v1/tenants/acme", Foreign::Operators)),
        (
            "change_tenant",
            Case::new("/v1/tenants/acme", Foreign::Operators).body(json!({"limits": {"retention_days": 30}})),
        ),
        ("delete_tenant", Case::new("/v1/tenants/wayne", Foreign::Operators)),
        ("list_tenant_keys", Case::new("/v1/tenants/acme/keys", Foreign::Operators)),
        ("revoke_tenant_key", Case::new(format!("/v1/tenants/acme/keys/{revoked}"), Foreign::Operators)),
        (
            "create_tenant_key",
            Case::new("/v1/tenants/acme/keys", Foreign::Operators)
                .body(json!({"name": "x", "scopes": ["symbols:read"]})),
        ),
        (
            "create_key",
            Case::new("/v1/keys", Foreign::Own(|body| assert!(body["text"].is_string())))
                .body(json!({"name": "x", "scopes": ["symbols:read"]})),
        ),
        ("list_keys", Case::new("/v1/keys", Foreign::Own(own_keys))),
        ("get_key", Case::new("/v1/key", Foreign::Own(|body| assert!(body["scopes"].is_array())))),
        ("revoke_key", Case::new(format!("/v1/keys/{made}"), Foreign::NotFound)),
    ])
}

pub async fn attempt(world: &World, method: &Method, case: &Case, key: &str) -> Answer {
    let request = world.request(method.clone(), &case.path, key);
    let answer = world
        .send(match &case.body {
            // A first letter stands for these bytes; others come behind them.
            Some(Value::String(more)) => {
                let more = more.trim_start_matches('\u{cf}').as_bytes();
                request.body([&b"\xcf\xfa\xed\xfe some bytes"[..], more].concat())
            }
            Some(body) => request.body(body.to_string()),
            None => request,
        })
        .await;
    // What holds for every answer of every operation.
    assert_eq!(answer.headers["cache-control"], "no-store", "{method} {}", case.path);
    answer
}

pub fn key_of(scopes: &[Scope], app: Option<&str>, expires_at: Option<OffsetDateTime>) -> NewApiKey {
    NewApiKey { name: "test".into(), scopes: scopes.to_vec(), app: app.map(str::to_owned), expires_at }
}

/// A key of acme with every scope that was revoked.
pub async fn revoked_key(world: &World) -> (Uuid, String) {
    let (id, key) = world.make_key("acme", &key_of(&Scope::ALL, None, None)).await;
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    assert!(keys::revoke_key(&mut tx, id, None).await.unwrap());
    tx.commit().await.unwrap();
    (id, key)
}

fn sha256(bytes: &[u8]) -> ContentHash {
    ContentHash(Sha256::digest(bytes).into())
}

const ABSENT_ID: Uuid = Uuid::from_u128(0x0198_0000_0000_7000_8000_0000_0000_0001);

/// The same case of something that nobody ever had: the path with other ids in the place of its own.
pub fn absent(template: &str, case: &Case) -> Case {
    let letters = template.contains("dead-letters/");
    let parts = template.split('/').zip(case.path.split('/'));
    let parts = parts.map(|(template, part)| match part.parse::<Uuid>() {
        _ if !template.starts_with('{') => part.to_owned(),
        Ok(_) => ABSENT_ID.to_string(),
        Err(_) if part.parse::<ContentHash>().is_ok() => "0".repeat(64),
        // A part's number is no name of anything by itself.
        Err(_) if template == "{number}" => part.to_owned(),
        Err(_) if template == "{build}" => "99Z99".to_owned(),
        // A dead letter's id ends in its offset.
        Err(_) if letters => format!("{}-987654321", part.rsplit_once('-').unwrap().0),
        // What is asked of it stays.
        Err(_) => match part.split_once('?') {
            Some((_, query)) => format!("never-existed?{query}"),
            None => "never-existed".to_owned(),
        },
    });
    let path = parts.collect::<Vec<_>>().join("/");
    let path = match path.rsplit_once('=') {
        Some((question, id)) if id.parse::<Uuid>().is_ok() => format!("{question}={ABSENT_ID}"),
        _ => path,
    };
    assert_ne!(path, case.path, "{template} names something");
    Case { path, body: case.body.clone(), foreign: Foreign::NotFound }
}

//! Lists as files.

use crate::cases::{document, key_of};
use crate::reports::{crash, store};
use crate::world::Browser;
use crate::world::{Answer, World};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use unslide_model::Scope;
use unslide_store::Uuid;

/// More than a page of an export.
const REPORTS: usize = 120;

async fn filled() -> World {
    let world = World::start().await;
    let now = world.host.clock.now();
    for n in 0..REPORTS {
        let report = crash(&uuid::Uuid::from_u128(n as u128 + 1).to_string(), "=HYPERLINK(\"x\")\r\nnext");
        store(&world, "acme", &report, 1, now).await;
    }
    let mut other = crash("99999999-9999-9999-9999-999999999999", "umbrellas-own");
    other["system"]["CFBundleIdentifier"] = "umbrellas-own".into();
    store(&world, "umbrella", &other, 1, now).await;
    world
}

fn ids(answer: &Answer) -> Vec<String> {
    let lines = answer.text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| line["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_whole_list_is_one_answer_with_the_lists_filters_and_rights() {
    let world = filled().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    let mut paged: Vec<String> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.get(&format!("/v1/reports?limit=100{cursor}"), &key).await.expect_status(200);
        paged.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged.len(), REPORTS);
    let accept = world.request(Method::GET, "/v1/reports", &key).header("accept", "application/x-ndjson");
    let whole = world.send(accept).await;
    assert_eq!(whole.headers["content-type"], "application/x-ndjson");
    assert_eq!(whole.headers["content-disposition"], "attachment; filename=\"reports.ndjson\"");
    assert_eq!(ids(&whole), paged);
    let rest = world.get(&format!("/v1/reports?format=ndjson{cursor}"), &key).await;
    assert_eq!(ids(&rest), paged[100..], "from the page at the cursor on");
    assert_eq!(ids(&world.get("/v1/reports?format=ndjson&limit=70", &key).await), paged[..70]);
    assert!(ids(&world.get("/v1/reports?format=ndjson&version=2.0", &key).await).is_empty());
    let csv = world.get("/v1/reports?format=csv", &key).await;
    assert_eq!(csv.headers["content-type"], "text/csv; charset=utf-8; header=present");
    let lines: Vec<&str> = csv.text.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), REPORTS + 1, "a line of names, and one for each report");
    assert!(lines[0].starts_with("id,variant,revision,received_at,app,version,"));
    // The report has its body, so that the last two columns are empty.
    let (names, values) = (",weight,body_dropped,like_report", ",1,,");
    assert!(lines[0].ends_with(names) && lines[1].ends_with(values), "{}\n{}", lines[0], lines[1]);
    assert!(lines[1].contains(",\"'=HYPERLINK(\"\"x\"\")  next\","), "{}", lines[1]);
    assert!(!csv.text.contains("umbrellas-own"));
    let json = world.get("/v1/reports?format=json&limit=2", &key).await.expect_status(200);
    assert_eq!(json["items"].as_array().unwrap().len(), 2);
    // Nothing of the answers stays in memory.
    world.wait_for_metric("unslide_api_body_bytes{kind=\"answers\"}", 0.0).await;
    world.stop().await;
}

#[tokio::test]
async fn every_list_of_statistics_can_be_exported_and_refusals_are_problems() {
    let world = World::start().await;
    let now = world.host.clock.now();
    let report = crash("11111111-1111-1111-1111-111111111111", "1.0");
    let app = report["system"]["CFBundleIdentifier"].as_str().unwrap().to_owned();
    store(&world, "acme", &report, 1, now).await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    for path in
        ["/v1/groups", "/v1/apps", &format!("/v1/apps/{app}/versions"), "/v1/missing-symbols?system=true"]
    {
        let mark = if path.contains('?') { '&' } else { '?' };
        let csv = world.get(&format!("{path}{mark}format=csv"), &key).await;
        assert_eq!((csv.status.as_u16(), csv.text.lines().count()), (200, 2), "{path}: {}", csv.text);
    }
    for (path, status, slug) in [
        ("/v1/reports?format=xml", 400, "invalid-parameter"),
        ("/v1/reports?format=csv&format=csv", 400, "invalid-parameter"),
        ("/v1/reports?format=csv&limit=0", 400, "invalid-parameter"),
        ("/v1/reports?format=csv&limit=1000001", 400, "invalid-parameter"),
        ("/v1/reports?format=csv&cursor=00", 400, "invalid-parameter"),
        ("/v1/reports?format=csv&group=none", 400, "invalid-parameter"),
        ("/v1/apps/com.example.none/versions?format=csv", 404, "not-found"),
        ("/v1/apps/com.example.none/health?format=csv", 404, "not-found"),
        ("/v1/apps/com.example.none/health?format=csv&cursor=00", 400, "invalid-parameter"),
    ] {
        world.get(path, &key).await.expect_problem(status, slug);
    }
    world.get("/v1/reports?format=csv", "").await.expect_problem(401, "unauthorized");
    let writer = world.create_key("acme", &[Scope::ReportsWrite]).await;
    world.get("/v1/reports?format=csv", &writer).await.expect_problem(403, "insufficient-scope");
    let only = world.key_for("acme", &[Scope::ReportsRead], Some("com.example.other")).await;
    assert!(world.get("/v1/reports?format=ndjson", &only).await.text.is_empty());
    let head = world.send(world.request(Method::HEAD, "/v1/reports?format=csv", &key)).await;
    assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));
    world.stop().await;
}

#[tokio::test]
async fn the_lists_of_a_tenants_work_can_be_exported_and_hold_no_secret() {
    let world = World::start().await;
    let scopes = [Scope::TenantAdmin, Scope::ReportsRead, Scope::SymbolsRead];
    let admin = world.create_key("acme", &scopes).await;
    let wish = json!({"name": "=1+1", "scopes": ["reports:read"]});
    let made = world.post_json("/v1/keys", &admin, &wish).await.expect_status(201);
    for (path, columns) in [
        ("/v1/symbols", "debug_id,name,arch,"),
        ("/v1/captures", "id,app,version,"),
        ("/v1/dead-letters", "id,tenant,arrived_at,"),
        ("/v1/keys", "id,name,prefix,"),
        ("/v1/audit-log", "id,at,actor,"),
        ("/v1/alert-messages", "id,rule,rule_name,"),
    ] {
        let csv = world.get(&format!("{path}?format=csv"), &admin).await;
        assert!(csv.status == 200 && csv.text.starts_with(columns), "{path}: {}", csv.text);
    }
    let keys = world.get("/v1/keys?format=csv", &admin).await.text;
    let secret = made["text"].as_str().unwrap();
    assert!(keys.contains(",'=1+1,") && !keys.contains(secret), "{keys}");
    let log = world.get("/v1/audit-log?format=csv", &admin).await.text;
    assert!(log.contains(",key.create,") && !log.contains(secret), "{log}");
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    world.get("/v1/keys?format=csv", &reader).await.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

/// The names of a mapping's fields, or of a schema's properties.
fn names(properties: &Value) -> BTreeSet<&str> {
    properties.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Fields of a document that Elasticsearch would not index, by their paths.
fn unmapped(document: &Value, mapping: &Value, path: &str, found: &mut Vec<String>) {
    match document {
        Value::Object(members) => {
            for (name, value) in members {
                unmapped(value, &mapping["properties"][name], &format!("{path}.{name}"), found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| unmapped(item, mapping, path, found)),
        _ if mapping["type"].is_string() => {}
        _ => found.push(path.to_owned()),
    }
}

/// Each document has its action before it, and each of its fields a place in the index template.
#[tokio::test]
async fn elasticsearch_takes_every_field_of_an_export() {
    let world = filled().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    let schemas = document()["components"]["schemas"].clone();
    let templates = [
        ("reports", "ListedReport", include_str!("../../../../deploy/elasticsearch/reports.json")),
        ("groups", "Group", include_str!("../../../../deploy/elasticsearch/groups.json")),
    ];
    for (list, schema, template) in templates {
        let template: Value = serde_json::from_str(template).unwrap();
        let mapping = &template["template"]["mappings"];
        assert_eq!(names(&mapping["properties"]), names(&schemas[schema]["properties"]), "{list}");
        let bulk = world.get(&format!("/v1/{list}?format=elasticsearch"), &key).await;
        assert_eq!(bulk.headers["content-type"], "application/x-ndjson");
        assert!(bulk.text.ends_with('\n'));
        let lines: Vec<Value> = bulk.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines.len() >= 2 && lines.len().is_multiple_of(2), "{}", lines.len());
        let mut ids = BTreeSet::new();
        for pair in lines.chunks(2) {
            assert_eq!(pair[0], serde_json::json!({"index": {"_id": pair[1]["id"]}}));
            ids.insert(pair[0].to_string());
            let mut found = Vec::new();
            unmapped(&pair[1], mapping, "", &mut found);
            assert!(found.is_empty(), "{found:?}");
        }
        assert_eq!(ids.len(), lines.len() / 2, "ids are unique");
    }
    world.get("/v1/apps?format=elasticsearch", &key).await.expect_problem(400, "invalid-parameter");
    world.stop().await;
}

/// A list of more bytes than the connections between hold.
async fn large() -> World {
    let world = World::start().await;
    store(&world, "acme", &crash("11111111-1111-1111-1111-111111111111", "1.0"), 1, world.host.clock.now())
        .await;
    let mut database = world.connect().await;
    let copies = "INSERT INTO reports SELECT (jsonb_populate_record(r, jsonb_build_object(
                      'report_id', gen_random_uuid(), 'summary', jsonb_build_object('exception', repeat('x', 20000))))).*
                  FROM reports r, generate_series(1, 2500)";
    sqlx::query(copies).execute(&mut database).await.unwrap();
    sqlx::Connection::close(database).await.unwrap();
    world
}

async fn revoke(world: &World, key: Uuid) {
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    world.delete(&format!("/v1/keys/{key}"), &admin).await.expect_status(200);
}

/// Begins to read an export, does something, and checks that the rest does not come to a regular end.
async fn breaks_off(request: RequestBuilder, event: impl Future<Output = ()>) {
    let mut response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.chunk().await.unwrap().is_some());
    event.await;
    let error = loop {
        match response.chunk().await {
            Ok(piece) => assert!(piece.is_some(), "the file looks whole"),
            Err(error) => break error,
        }
    };
    assert!(!error.is_timeout(), "{error}");
}

/// Proves: keys
#[tokio::test]
async fn an_export_whose_key_or_session_ends_does_not_look_whole() {
    let world = large().await;
    let new = key_of(&[Scope::ReportsRead], None, None);
    for path in ["/v1/reports?format=csv", "/v1/reports?format=ndjson", "/v1/reports?format=elasticsearch"] {
        let (id, key) = world.make_key("acme", &new).await;
        breaks_off(world.request(Method::GET, path, &key), revoke(&world, id)).await;
    }
    let (id, key) = world.make_key("acme", &new).await;
    let browser = Browser::signed_in(&world, &key).await;
    breaks_off(browser.request(Method::GET, "/console/export/reports"), revoke(&world, id)).await;
    // One that nobody interrupts is whole.
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    let browser = Browser::signed_in(&world, &key).await;
    let whole = world.send(browser.request(Method::GET, "/console/export/reports")).await;
    assert_eq!((whole.status.as_u16(), whole.text.lines().count()), (200, 2_502));
    world.stop().await;
}

#[tokio::test]
async fn an_export_without_its_database_does_not_look_whole() {
    let world = large().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    let path = "/v1/reports?format=ndjson";
    breaks_off(world.request(Method::GET, path, &key), world.let_connect(false)).await;
    world.let_connect(true).await;
    world.stop().await;
}

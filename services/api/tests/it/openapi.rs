//! The OpenAPI document, and every route of it under every wrong key.

use crate::reports::{A, crash, store};
use crate::world::{Answer, World, tenant};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use unslide_model::{Owner, Scope};
use unslide_store::Uuid;
use unslide_store::keys::{self, NewKey};

/// A report that only one case is about.
const DOOMED: &str = "33333333-3333-3333-3333-333333333333";

fn document() -> Value {
    serde_json::to_value(unslide_api::document()).unwrap()
}

/// Every operation: id, method, path template, the operation.
fn operations(document: &Value) -> Vec<(String, Method, String, Value)> {
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

#[test]
fn the_document_is_as_it_was() {
    insta::assert_json_snapshot!(document());
}

#[test]
fn every_operation_has_an_id_a_scope_and_its_errors() {
    let document = document();
    let operations = operations(&document);
    let ids: BTreeSet<&str> = operations.iter().map(|(id, ..)| id.as_str()).collect();
    assert_eq!(ids.len(), operations.len(), "operation ids are unique");
    for (id, method, path, operation) in &operations {
        assert!(path.starts_with("/v1/"), "{path}");
        assert!(operation["summary"].as_str().is_some_and(|s| !s.is_empty()), "{id} has a summary");
        let scopes = operation["security"][0]["key"].as_array().unwrap();
        let [scope] = scopes.as_slice() else { panic!("{id} needs one scope") };
        scope.as_str().unwrap().parse::<Scope>().unwrap();
        let responses = operation["responses"].as_object().unwrap();
        for status in ["401", "403", "500", "503"] {
            assert!(responses.contains_key(status), "{id} documents {status}");
        }
        if path.contains('{') || operation.get("parameters").is_some() {
            assert!(responses.contains_key("400") || id == "symbolicate", "{id} documents 400");
        }
        if path.contains('{') && *method != Method::POST {
            assert!(responses.contains_key("404"), "{id} documents 404");
        }
        for (status, response) in responses.iter().filter(|(status, _)| status.as_str() >= "400") {
            let content = &response["content"]["application/problem+json"];
            assert_eq!(content["schema"]["$ref"], "#/components/schemas/Problem", "{id} {status}");
            assert!(content["examples"].is_object(), "{id} {status}");
        }
    }
}

/// The table in SECURITY.md says which key can do what: an operation that is new, or asks for another
/// scope, has to be said there.
#[test]
fn the_threat_model_names_every_operation_under_its_scope() {
    let document = document();
    let mut by_scope: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (id, _, _, operation) in operations(&document) {
        let scope = operation["security"][0]["key"][0].as_str().unwrap().to_owned();
        by_scope.entry(scope).or_default().insert(id);
    }
    let security = include_str!("../../../../SECURITY.md");
    for scope in Scope::ALL {
        let operations = by_scope.remove(scope.as_str()).unwrap_or_default();
        let operations: Vec<String> = operations.iter().map(|id| format!("`{id}`")).collect();
        let wanted = format!("| `{scope}` | {} |", operations.join(", "));
        assert!(security.lines().any(|line| line == wanted), "SECURITY.md lacks the row\n{wanted}");
    }
}

/// Every reference leads somewhere.
#[test]
fn the_document_is_whole() {
    fn walk(value: &Value, document: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                members.values().for_each(|value| walk(value, document));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, document)),
            _ => {}
        }
    }
    let document = document();
    walk(&document, &document);
}

/// How a request with another tenant's key must end.
enum Foreign {
    /// What it names does not exist for that tenant.
    NotFound,
    /// An empty list.
    Empty,
    /// An empty list; what is listed is of no app, so that a key for one app may not ask.
    EmptyOfNoApp,
    /// The request names nothing of any tenant: it acts for the key's own.
    Own(fn(&Value)),
    /// Only operators get here, who may name any tenant.
    Operators,
}

struct Case {
    path: String,
    body: Option<Value>,
    foreign: Foreign,
}

impl Case {
    fn new(path: impl Into<String>, foreign: Foreign) -> Case {
        Case { path: path.into(), body: None, foreign }
    }

    fn body(self, body: Value) -> Case {
        Case { body: Some(body), ..self }
    }
}

/// Things of the tenant acme, and for each operation a request that names them.
async fn cases(world: &World, key: &str) -> BTreeMap<&'static str, Case> {
    let file = b"\xcf\xfa\xed\xfe some bytes".to_vec();
    let upload = world.post("/v1/symbols", key, file).await.expect(202);
    let upload = upload["id"].as_str().unwrap();
    let debug_id = crate::symbols::stored(world, "acme").await;
    let file = b"\xcf\xfa\xed\xfe some system's bytes".to_vec();
    let system_upload = world.post("/v1/system/symbols", key, file).await.expect(202);
    let system_upload = system_upload["id"].as_str().unwrap();
    let system_id = crate::symbols::stored_by(world, &Owner::System, None).await;
    store(world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let reprocess = world.post_json("/v1/reprocess", key, &json!({"version": "1.0"})).await.expect(202);
    assert_eq!((&reprocess["count"], &reprocess["status"]), (&1.into(), &"running".into()));
    let reprocess = reprocess["id"].as_str().unwrap();
    store(world, "acme", &crash(DOOMED, "1.0"), 1, world.host.clock.now()).await;
    let made =
        world.post_json("/v1/keys", key, &json!({"name": "x", "scopes": ["symbols:read"]})).await.expect(201);
    let made = made["id"].as_str().unwrap();
    let revoked = revoked_key(world).await.0;
    world.post_json("/v1/tenants", key, &json!({"id": "wayne"})).await.expect(201);
    let letter = crate::dead_letters::letter(world, Some("acme"), "not_json", None, Some(b"{")).await;
    let letters = |path: &str, foreign| Case::new(format!("/v1/dead-letters{path}"), foreign);
    let any = |path: &str| Case::new(format!("/v1/operator/dead-letters{path}"), Foreign::Operators);
    let one = |rest: &str| format!("/{letter}{rest}");
    let no_match = |body: &Value| assert_eq!(body["matched"], 0);
    let all_missing = |body: &Value| {
        assert_eq!((&body["items"][0]["status"], &body["ready"]), (&"missing".into(), &false.into()));
    };
    let without_symbols = |body: &Value| assert_eq!(body["symbolication"]["tenant"], "umbrella");
    let own_keys = |body: &Value| assert_eq!(body["items"].as_array().unwrap().len(), 1, "its own key");
    BTreeMap::from([
        (
            "upload_symbols",
            Case::new("/v1/symbols", Foreign::Own(|body| assert_eq!(body["existing"], false)))
                .body(Value::String("\u{cf}".to_owned())),
        ),
        ("get_upload", Case::new(format!("/v1/symbols/uploads/{upload}"), Foreign::NotFound)),
        ("list_symbols", Case::new("/v1/symbols", Foreign::Empty)),
        ("get_symbols", Case::new(format!("/v1/symbols/{debug_id}"), Foreign::NotFound)),
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
        ("list_reports", Case::new("/v1/reports", Foreign::Empty)),
        ("get_report", Case::new(format!("/v1/reports/{A}"), Foreign::NotFound)),
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
        ("list_system_symbols", Case::new("/v1/system/symbols", Foreign::Operators)),
        ("get_system_symbols", Case::new(format!("/v1/system/symbols/{system_id}"), Foreign::Operators)),
        ("delete_system_symbols", Case::new(format!("/v1/system/symbols/{system_id}"), Foreign::Operators)),
        ("create_tenant", Case::new("/v1/tenants", Foreign::Operators).body(json!({"id": "stark"}))),
        ("list_tenants", Case::new("/v1/tenants", Foreign::Operators)),
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
        ("revoke_key", Case::new(format!("/v1/keys/{made}"), Foreign::NotFound)),
    ])
}

async fn attempt(world: &World, method: &Method, case: &Case, key: &str) -> Answer {
    let request = world.request(method.clone(), &case.path, key);
    world
        .send(match &case.body {
            Some(Value::String(_)) => request.body(b"\xcf\xfa\xed\xfe some bytes".to_vec()),
            Some(body) => request.body(body.to_string()),
            None => request,
        })
        .await
}

fn key_of(scopes: &[Scope], app: Option<&str>, expires_at: Option<OffsetDateTime>) -> NewKey {
    NewKey { name: "test".into(), scopes: scopes.to_vec(), app: app.map(str::to_owned), expires_at }
}

/// A key of acme with every scope that was revoked.
async fn revoked_key(world: &World) -> (Uuid, String) {
    let (id, key) = world.make_key("acme", &key_of(&Scope::ALL, None, None)).await;
    let mut tx = world.store.tenant(&tenant("acme")).await.unwrap();
    assert!(keys::revoke(&mut tx, id, None).await.unwrap());
    tx.commit().await.unwrap();
    (id, key)
}

/// The case's path with ids in the place of its own that nobody ever had.
fn absent(template: &str, path: &str) -> String {
    let letters = template.contains("dead-letters/");
    let parts = template.split('/').zip(path.split('/')).map(|(template, part)| match part.parse::<Uuid>() {
        _ if !template.starts_with('{') => part.to_owned(),
        Ok(_) => Uuid::from_u128(0x0198_0000_0000_7000_8000_0000_0000_0001).to_string(),
        // A dead letter's id ends in its offset.
        Err(_) if letters => format!("{}-987654321", part.rsplit_once('-').unwrap().0),
        Err(_) => "never-existed".to_owned(),
    });
    parts.collect::<Vec<_>>().join("/")
}

/// What a client can tell two answers apart by, without what is new in every answer.
fn told(answer: &Answer) -> (u16, Value, BTreeMap<String, String>) {
    let mut body = answer.json();
    body["request_id"] = Value::Null;
    let headers =
        answer.headers.iter().filter(|(name, _)| !["date", "x-request-id"].contains(&name.as_str()));
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    (answer.status.as_u16(), body, headers.filter(|(name, _)| name != "content-length").collect())
}

#[tokio::test]
async fn every_route_refuses_every_wrong_key() {
    let world = World::start().await;
    let acme = world.master("acme").await;
    let everything_but_operator: Vec<Scope> =
        Scope::ALL.into_iter().filter(|s| *s != Scope::Operator).collect();
    let umbrella = world.key("umbrella", &everything_but_operator).await;
    let cases = cases(&world, &acme).await;
    let document = document();
    let operations = operations(&document);
    let names: BTreeSet<&str> = operations.iter().map(|(id, ..)| id.as_str()).collect();
    assert_eq!(names, cases.keys().copied().collect(), "every operation has its case here");
    let stranger = "unslide_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    // What changes something comes last.
    let mut operations = operations;
    operations.sort_by_key(|(_, method, ..)| *method != Method::GET);
    let over = Some(world.host.clock.now() - time::Duration::SECOND);
    let (_, expired) = world.make_key("acme", &key_of(&Scope::ALL, None, over)).await;
    let (_, revoked) = revoked_key(&world).await;
    let other_app = world.key_for("acme", &Scope::ALL, Some("com.example.other")).await;
    for (id, method, template, operation) in &operations {
        let case = &cases[id.as_str()];
        let unknown = attempt(&world, method, case, stranger).await;
        for key in ["", "unslide_", &expired, &revoked] {
            let answer = attempt(&world, method, case, key).await;
            assert_eq!(told(&answer), told(&unknown), "{id}: all keys that are not in force look the same");
        }
        unknown.expect_problem(401, "unauthorized");
        let needed: Scope = operation["security"][0]["key"][0].as_str().unwrap().parse().unwrap();
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| *scope != needed).collect();
        let lacking = world.key("acme", &others).await;
        let detail = attempt(&world, method, case, &lacking).await.expect_problem(403, "insufficient-scope");
        assert!(detail.contains(needed.as_str()), "{id}: {detail}");
        let foreign = attempt(&world, method, case, &umbrella).await;
        match &case.foreign {
            Foreign::NotFound => {
                // What is another's looks like what never was, to the other and to the owner.
                let never = Case {
                    path: absent(template, &case.path),
                    body: case.body.clone(),
                    foreign: Foreign::NotFound,
                };
                assert_ne!(never.path, case.path, "{id} names something");
                for key in [&umbrella, &acme] {
                    assert_eq!(told(&foreign), told(&attempt(&world, method, &never, key).await), "{id}");
                }
                foreign.expect_problem(404, "not-found");
            }
            Foreign::Empty | Foreign::EmptyOfNoApp => {
                assert_eq!(foreign.expect(200), json!({"items": []}), "{id}");
            }
            Foreign::Own(check) => {
                assert!(foreign.status.is_success(), "{id}: {}", foreign.text);
                check(&foreign.json());
            }
            Foreign::Operators => drop(foreign.expect_problem(403, "insufficient-scope")),
        }
        // A key for another app of the same tenant gets no further.
        let beside = attempt(&world, method, case, &other_app).await;
        match &case.foreign {
            Foreign::NotFound if beside.status == 404 => drop(beside.expect_problem(404, "not-found")),
            Foreign::Empty => assert_eq!(beside.expect(200), json!({"items": []}), "{id}"),
            Foreign::Own(check) if beside.status.is_success() => check(&beside.json()),
            // What is of no app tells nothing by its refusal: it comes before the thing is looked for.
            Foreign::NotFound => {
                assert!(id.contains("dead_letter"), "{id}");
                drop(beside.expect_problem(403, "insufficient-scope"));
            }
            Foreign::Own(_) | Foreign::EmptyOfNoApp | Foreign::Operators => {
                drop(beside.expect_problem(403, "insufficient-scope"));
            }
        }
        // The case itself is sound: with the right key there is something.
        let right = attempt(&world, method, case, &acme).await;
        assert!(right.status.is_success(), "{id}: {}", right.text);
        if let Foreign::Empty | Foreign::EmptyOfNoApp = case.foreign {
            assert_ne!(right.json()["items"], json!([]), "{id}");
        }
    }
    world.stop().await;
}

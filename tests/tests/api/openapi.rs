//! The OpenAPI document, and every route of it under every wrong key.

use crate::cases::{Foreign, absent, attempt, cases, document, key_of, operations, revoked_key};
use crate::outline::outline;
use crate::world::{Answer, World};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex};
use unslide_model::Scope;

#[test]
fn the_document_is_as_it_was() {
    let document = document();
    // For a validator, which reads it as a client does.
    let whole = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
    std::fs::write(whole, serde_json::to_vec_pretty(&document).unwrap()).unwrap();
    insta::assert_snapshot!(outline(&document));
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
        assert!(!sufficient(operation).is_empty(), "{id} needs a scope");
        let responses = operation["responses"].as_object().unwrap();
        for (status, header) in
            [("202", "location"), ("401", "www-authenticate"), ("429", "retry-after"), ("503", "retry-after")]
        {
            let declared = |response: &Value| response["headers"][header].is_object();
            assert!(responses.get(status).is_none_or(declared), "{id} {status} declares {header}");
        }
        for status in ["400", "401", "403", "429", "500", "503"] {
            assert!(responses.contains_key(status), "{id} documents {status}");
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

/// The scopes of which an operation needs one.
fn sufficient(operation: &Value) -> Vec<Scope> {
    let security = operation["security"].as_array().unwrap().iter();
    let scopes = security.map(|alternative| {
        let [scope] = alternative["key"].as_array().unwrap().as_slice() else { panic!("{alternative}") };
        scope.as_str().unwrap().parse().unwrap()
    });
    scopes.collect()
}

/// The table in SECURITY.md says which key can do what: an operation that is new, or asks for another
/// scope, has to be said there.
#[test]
fn the_threat_model_names_every_operation_under_its_scope() {
    let document = document();
    let mut by_scope: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (id, _, _, operation) in operations(&document) {
        for scope in sufficient(&operation) {
            by_scope.entry(scope.to_string()).or_default().insert(id.clone());
        }
    }
    let security = include_str!("../../../SECURITY.md");
    for scope in Scope::ALL {
        let operations = by_scope.remove(scope.as_str()).unwrap_or_default();
        let operations: Vec<String> = operations.iter().map(|id| format!("`{id}`")).collect();
        let wanted = format!("| `{scope}` | {} |", operations.join(", "));
        assert!(security.lines().any(|line| line == wanted), "SECURITY.md lacks the row\n{wanted}");
    }
}

/// A schema that is served beside the document.
fn schema(reference: &str) -> Value {
    let file = reference.strip_prefix("schemas/").unwrap();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema").join(file);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The names of all members that a schema knows.
fn known(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            let properties = members.get("properties").and_then(Value::as_object);
            into.extend(properties.into_iter().flat_map(|properties| properties.keys().cloned()));
            members.values().for_each(|member| known(member, into));
        }
        Value::Array(items) => items.iter().for_each(|item| known(item, into)),
        _ => {}
    }
}

/// The names of all members below those that are ours.
fn ours(value: &Value, is_ours: bool, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if is_ours {
                    into.insert(name.clone());
                }
                ours(member, is_ours || name == "symbolication", into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| ours(item, is_ours, into)),
        _ => {}
    }
}

/// Whole reports over a real dSYM, as the engine's own tests keep them.
#[test]
fn the_schema_has_what_the_engine_adds_to_a_report() {
    let mut schema = schema("schemas/symbolication-v1.json");
    schema.as_object_mut().unwrap().remove("$id");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let (mut names, mut written) = (BTreeSet::new(), BTreeSet::new());
    known(&schema, &mut names);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/symbolicate/src/tests/snapshots");
    for form in ["full", "crashed_thread_only", "functions_only"] {
        let path = format!("{folder}/unslide_symbolicate__tests__golden__{form}.snap");
        let snapshot = std::fs::read_to_string(path).unwrap();
        let report: Value = serde_json::from_str(snapshot.splitn(3, "---\n").nth(2).unwrap()).unwrap();
        let problems: Vec<String> = validator.iter_errors(&report).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{form}: {problems:?}");
        ours(&report, false, &mut written);
    }
    let unknown: Vec<&String> = written.difference(&names).collect();
    assert!(written.len() > 20 && unknown.is_empty(), "{unknown:?}");
}

/// Every reference leads somewhere.
#[test]
fn the_document_is_whole() {
    fn walk(value: &Value, document: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    let pointer = reference.strip_prefix('#').expect("a reference within the document");
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

/// The arrays in a schema that have no bound, each with whether it comes in pages.
fn unbounded(schema: &Value, document: &Value, within: &str, found: &mut Vec<(String, bool)>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let inner = document.pointer(reference.strip_prefix('#').unwrap()).unwrap();
        // A schema that is published beside the document has its own bounds.
        if inner["externalDocs"].is_object() {
            return;
        }
        return unbounded(inner, document, reference, found);
    }
    for part in ["allOf", "oneOf", "anyOf"].iter().filter_map(|of| schema[of].as_array()).flatten() {
        unbounded(part, document, within, found);
    }
    let members = &schema["properties"];
    for (name, member) in members.as_object().into_iter().flatten() {
        let within = format!("{within} {name}");
        if member["items"].is_object() && member["maxItems"].is_null() {
            found.push((within.clone(), members["next_cursor"].is_object()));
        }
        unbounded(member, document, &within, found);
    }
    if schema["items"].is_object() {
        unbounded(&schema["items"], document, within, found);
    }
}

/// The lists that come in pages: the operation, and the member of its answer that has the entries. A list that grows
/// comes in pages, by the one pager; any other says how long it can be.
pub fn paged_lists(document: &Value) -> BTreeMap<String, String> {
    let mut lists = BTreeMap::new();
    for (id, method, _, operation) in operations(document) {
        let mut found = Vec::new();
        let answer = &operation["responses"]["200"]["content"];
        for (_, content) in answer.as_object().into_iter().flatten().filter(|_| method == Method::GET) {
            unbounded(&content["schema"], document, &id, &mut found);
        }
        for (array, paged) in found {
            assert!(paged, "{id}: {array} has neither pages nor a bound");
            let parameters = operation["parameters"].as_array().unwrap();
            for name in ["limit", "cursor"] {
                assert!(parameters.iter().any(|one| one["name"] == name), "{id} takes no {name}");
            }
            lists.insert(id.clone(), array.rsplit(' ').next().unwrap().to_owned());
        }
    }
    lists
}

#[test]
fn every_list_is_paged_or_has_a_bound() {
    let lists = paged_lists(&document());
    for (id, entries) in [("list_apps", "items"), ("list_alert_rules", "items"), ("get_upload", "objects")] {
        assert_eq!(lists.get(id).map(String::as_str), Some(entries), "{id} is seen to be a list: {lists:?}");
    }
}

/// Checks that the document tells of an answer: its status, and the media type of its body.
fn declared(id: &str, operation: &Value, answer: &Answer) {
    let status = answer.status.as_str();
    let response = &operation["responses"][status];
    assert!(response.is_object(), "{id} answers {status}, which is not declared: {}", answer.text);
    if answer.text.is_empty() {
        assert_eq!(response.get("content"), None, "{id} {status} has a body by the document");
        return;
    }
    let kind = answer.headers["content-type"].to_str().unwrap();
    let essence = kind.split(';').next().unwrap();
    let schema = &response["content"][essence]["schema"];
    assert!(schema.is_object(), "{id} {status} does not declare {essence}");
    if essence.ends_with("json") {
        let body = answer.parse_json();
        let validator = validator(schema);
        let errors: Vec<String> =
            validator.iter_errors(&body).map(|error| format!("{}: {error}", error.instance_path)).collect();
        assert!(errors.is_empty(), "{id} {status}: {errors:?} in {body}");
    }
}

/// What checks a body against a schema of the document, or against one that is served beside it. Each is made once: it
/// has a copy of the whole document.
fn validator(of: &Value) -> Arc<jsonschema::Validator> {
    static MADE: Mutex<BTreeMap<String, Arc<jsonschema::Validator>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap();
    made.entry(of.to_string()).or_insert_with(|| Arc::new(make_validator(of))).clone()
}

fn make_validator(of: &Value) -> jsonschema::Validator {
    static COMPONENTS: LazyLock<Value> = LazyLock::new(|| document()["components"].clone());
    let mut components = COMPONENTS.clone();
    let mut root = of.clone();
    for (name, component) in components["schemas"].as_object_mut().unwrap() {
        let Some(beside) = component["externalDocs"]["url"].as_str() else { continue };
        if of["$ref"] == format!("#/components/schemas/{name}") {
            root = schema(beside.trim_start_matches('/'));
            root.as_object_mut().unwrap().remove("$id");
        }
        *component = json!({});
    }
    root["components"] = components;
    jsonschema::validator_for(&root).unwrap()
}

/// Requests of clients that are not finished, and those that are.
#[tokio::test]
async fn whatever_an_operation_answers_is_declared() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let cases = cases(&world, &key).await;
    let mut operations = operations(&document());
    operations.sort_by_key(|(_, method, ..)| (*method == Method::DELETE, *method != Method::GET));
    let spaces = " ".repeat(2 << 20);
    for (id, method, template, operation) in &operations {
        let case = &cases[id.as_str()];
        let ask = || world.request(method.clone(), &case.path, &key);
        let named: Vec<&str> = template
            .split('/')
            .zip(case.path.split('/'))
            .map(|(name, part)| if name.starts_with('{') { "%21" } else { part })
            .collect();
        let mut requests = vec![
            world.request(method.clone(), &named.join("/"), &key).body("{}"),
            ask().header("accept", "image/png").body("{"),
            world.request(method.clone(), &format!("{}?nothing=1", case.path), &key).body("[]"),
            world.request(method.clone(), &format!("{}?limit=0", case.path), &key).body("1"),
            world.request(method.clone(), &format!("{}?wait=x", case.path), &key).body("{}"),
            ask().header("content-encoding", "br").body("{}"),
            ask().header("x-content-sha256", "0".repeat(64)).body("{}"),
            ask().header("content-type", "multipart/form-data; boundary=b").body("--b"),
            ask().body(spaces.clone()),
            ask(),
        ];
        if *method == Method::GET {
            requests.push(ask().header("if-none-match", "*"));
        }
        for request in requests {
            declared(id, operation, &world.send(request).await);
        }
        let answer = attempt(&world, method, case, &key).await;
        declared(id, operation, &answer);
        if answer.status == 202 {
            let location = answer.headers["location"].to_str().unwrap();
            world.get(location, &key).await.expect_status(200);
            assert_eq!(location, result_path(&answer, id), "{id}");
        }
    }
    world.stop().await;
}

/// What can be asked for where an operation's result is, by the ids in its answer.
fn result_path(answer: &Answer, id: &str) -> String {
    let body = answer.parse_json();
    let of = |id: &Value| id.as_str().unwrap().to_owned();
    match id {
        "send_reports" => format!("/v1/reports/{}", of(&body["reports"][0]["id"])),
        "send_metrics" => "/v1/apps/com.example.shop/health/versions".to_owned(),
        "apply_scrubbing" => "/v1/scrubbing".to_owned(),
        "send_sessions" => "/v1/apps/com.example.shop/health".to_owned(),
        "send_capture" => format!("/v1/captures/{}", of(&body["id"])),
        "delete_tenant" => format!("/v1/tenants/{}", of(&body["id"])),
        "erase_person" => format!("/v1/person-erasures/{}", of(&body["id"])),
        "erase_public_key_reports" => format!("/v1/public-keys/{}", of(&body["key_id"])),
        "create_ticket" => format!("/v1/groups/{}/ticket", of(&body["group"])),
        "poll_testflight" => "/v1/testflight".to_owned(),
        "create_reprocess" => format!("/v1/reprocess/{}", of(&body["id"])),
        id if id.contains("system") => format!("/v1/system/symbols/uploads/{}", of(&body["id"])),
        _ => format!("/v1/symbols/uploads/{}", of(&body["id"])),
    }
}

/// The schema that a reference of the document leads to.
fn resolved<'d>(schema: &'d Value, document: &'d Value) -> &'d Value {
    match schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
        Some(pointer) => document.pointer(pointer).unwrap(),
        None => schema,
    }
}

/// True if a schema, or an alternative of it, is that of an object with members that it names.
fn is_object(schema: &Value, document: &Value) -> bool {
    let schema = resolved(schema, document);
    let alternatives = ["allOf", "oneOf", "anyOf"].iter().filter_map(|of| schema[of].as_array()).flatten();
    schema["properties"].is_object()
        || alternatives.into_iter().any(|alternative| is_object(alternative, document))
}

/// Operations that take one report or event, or an array of them.
const TAKE_ARRAYS: [&str; 4] = ["send_metrics", "send_reports", "send_sessions", "symbolicate"];

/// Words of Rust that serde writes into its messages.
fn names_of_rust(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let mut words = words.filter(|word| !word.is_empty());
    words.any(|word| {
        let number = word.strip_prefix(['u', 'i', 'f']).is_some_and(|bits| bits.parse::<u8>().is_ok());
        number || ["struct", "enum", "tuple", "usize", "OffsetDateTime"].contains(&word)
    })
}

/// A struct is an object, in every body and at every depth: an array is no list of its members, and `[]` is not all of
/// them absent.
#[tokio::test]
async fn a_body_that_is_no_object_of_the_document_is_refused() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let cases = cases(&world, &key).await;
    let document = document();
    let (mut objects, mut nested, mut closed) = (0, 0, 0);
    for (id, method, _, operation) in operations(&document) {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        if !schema.is_object() {
            continue;
        }
        let case = &cases[id.as_str()];
        let send =
            async |body: String| world.send(world.request(method.clone(), &case.path, &key).body(body)).await;
        let is_read_by_name = !TAKE_ARRAYS.contains(&id.as_str()) && is_object(schema, &document);
        objects += usize::from(is_read_by_name);
        for body in ["[]", "[null,null]", "[null,null,null,null]", "\"x\"", "1", "true", "null"] {
            // A text may be a log that the device has rendered; it goes to the dead letters.
            if id == "send_reports" && body.starts_with('"') {
                continue;
            }
            let answer = send(body.to_owned()).await;
            assert_eq!(answer.status, 400, "{id} takes {body}: {}", answer.text);
            let detail = answer.parse_json()["detail"].as_str().unwrap_or_default().to_owned();
            assert!(!names_of_rust(&detail), "{id} {body}: {detail}");
            assert!(!is_read_by_name || detail.starts_with("an object is expected"), "{id} {body}: {detail}");
        }
        if !is_read_by_name {
            continue;
        }
        let schema = resolved(schema, &document);
        let known = case.body.as_ref().and_then(Value::as_object).unwrap();
        let members = schema["properties"].as_object().unwrap();
        for (name, member) in members {
            let of_items = is_object(&member["items"], &document);
            let wrong: &[Value] = match (is_object(member, &document), of_items) {
                (true, _) => &[json!([]), json!([null, null]), json!(1)],
                (_, true) => &[json!([[]]), json!([null]), json!([1])],
                _ => &[json!([[]]), json!({"a": {}})],
            };
            for value in wrong {
                let mut body = known.clone();
                body.insert(name.clone(), value.clone());
                let answer = send(Value::Object(body).to_string()).await;
                assert_eq!(answer.status, 400, "{id} takes {value} as {name}: {}", answer.text);
                let detail = answer.parse_json()["detail"].as_str().unwrap_or_default().to_owned();
                assert!(!names_of_rust(&detail), "{id} {name} {value}: {detail}");
                if of_items || is_object(member, &document) {
                    nested += 1;
                    assert!(detail.contains("an object is expected"), "{id} {name} {value}: {detail}");
                }
            }
        }
        if let Some((name, value)) = known.iter().next() {
            let detail = send(format!("{{\"{name}\":{value},\"{name}\":{value}}}")).await;
            assert!(detail.expect_problem(400, "invalid-body").contains("duplicate field"), "{id}");
        }
        if schema["additionalProperties"] == false {
            closed += 1;
            let mut body = known.clone();
            body.insert("unheard_of".to_owned(), 1.into());
            let detail = send(Value::Object(body).to_string()).await.expect_problem(400, "invalid-body");
            assert!(detail.contains("unknown field `unheard_of`"), "{id}: {detail}");
        }
    }
    assert!(objects > 15 && nested > 5 && closed > 10, "{objects} {nested} {closed}");
    world.stop().await;
}

/// What a client can tell two answers apart by, without what is new in every answer.
fn told(answer: &Answer) -> (u16, Value, BTreeMap<String, String>) {
    let mut body = answer.parse_json();
    body["request_id"] = Value::Null;
    let headers =
        answer.headers.iter().filter(|(name, _)| !["date", "x-request-id"].contains(&name.as_str()));
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    (answer.status.as_u16(), body, headers.filter(|(name, _)| name != "content-length").collect())
}

/// Proves: isolation
#[tokio::test]
async fn every_route_refuses_every_wrong_key() {
    let world = World::start().await;
    let acme = world.create_master_key("acme").await;
    let everything_but_operator: Vec<Scope> =
        Scope::ALL.into_iter().filter(|s| *s != Scope::Operator).collect();
    let umbrella = world.create_key("umbrella", &everything_but_operator).await;
    let cases = cases(&world, &acme).await;
    let operations = operations(&document());
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
        let sufficient = sufficient(operation);
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| !sufficient.contains(scope)).collect();
        let lacking = world.create_key("acme", &others).await;
        let detail = attempt(&world, method, case, &lacking).await.expect_problem(403, "insufficient-scope");
        assert!(sufficient.iter().all(|scope| detail.contains(scope.as_str())), "{id}: {detail}");
        let foreign = attempt(&world, method, case, &umbrella).await;
        match &case.foreign {
            Foreign::NotFound => {
                // What is another's looks like what never was, to the other and to the owner.
                let never = absent(template, case);
                for key in [&umbrella, &acme] {
                    assert_eq!(told(&foreign), told(&attempt(&world, method, &never, key).await), "{id}");
                }
                foreign.expect_problem(404, "not-found");
            }
            Foreign::Empty | Foreign::EmptyOfNoApp => {
                assert_eq!(foreign.expect_status(200), json!({"items": []}), "{id}");
            }
            Foreign::Quiet => assert!(is_quiet(&foreign), "{id}: {}", foreign.text),
            Foreign::Own(check) => {
                assert!(foreign.status.is_success(), "{id}: {}", foreign.text);
                check(&foreign.parse_json());
            }
            Foreign::Operators => drop(foreign.expect_problem(403, "insufficient-scope")),
        }
        // A key for another app of the same tenant gets no further.
        let beside = attempt(&world, method, case, &other_app).await;
        match &case.foreign {
            Foreign::NotFound if beside.status == 404 => drop(beside.expect_problem(404, "not-found")),
            Foreign::Empty => assert_eq!(beside.expect_status(200), json!({"items": []}), "{id}"),
            Foreign::Quiet => assert!(is_quiet(&beside), "{id}: {}", beside.text),
            Foreign::Own(check) if beside.status.is_success() => check(&beside.parse_json()),
            // What is of no app tells nothing by its refusal: it comes before the thing is looked for.
            Foreign::NotFound => {
                let is_without_app = [
                    "audit_entries",
                    "audit_receiver",
                    "dead_letter",
                    "person_erasure",
                    "scim_token",
                    "symbol_source",
                    "tracker",
                ];
                assert!(is_without_app.iter().any(|part| id.contains(part)), "{id}");
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
            assert_ne!(right.parse_json()["items"], json!([]), "{id}");
        }
        assert!(!matches!(case.foreign, Foreign::Quiet) || !is_quiet(&right), "{id}: {}", right.text);
    }
    world.stop().await;
}

/// True for a stream without events.
fn is_quiet(answer: &Answer) -> bool {
    answer.status == 200 && !answer.text.contains("data:")
}

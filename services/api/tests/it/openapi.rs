//! The OpenAPI document, and every route of it under every wrong key.

use crate::cases::{Foreign, absent, attempt, cases, document, key_of, operations, revoked_key};
use crate::world::{Answer, World};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use unslide_model::Scope;

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
        let needed: Scope = operation["security"][0]["key"][0].as_str().unwrap().parse().unwrap();
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| *scope != needed).collect();
        let lacking = world.key("acme", &others).await;
        let detail = attempt(&world, method, case, &lacking).await.expect_problem(403, "insufficient-scope");
        assert!(detail.contains(needed.as_str()), "{id}: {detail}");
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

//! Values of variables at the instruction of a crash: shown only while the tenant has turned them on.

use crate::reports::{A, crash, store_answered};
use crate::world::{Browser, World, tenant_id};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use unslide_artifacts::{AliasMeta, Put, keys};
use unslide_model::{ContentHash, DebugId, Quality};

const SWITCHES: &str = "/v1/fault-analysis";
const VALUES: &str = include_str!("../../../../features/fault-analysis/tests/data/variables.ndjson");

/// Returns a crash with registers, and the case of the fixture that it was made from.
fn planned_crash() -> (Value, Value) {
    let case: Value = serde_json::from_str(VALUES.lines().next().unwrap()).unwrap();
    let mut sent = crash(A, "1.0");
    for key in ["binary_images", "crash"] {
        sent[key] = case["report"][key].clone();
    }
    (sent, case)
}

/// Returns a crash with registers, and publishes the table of its dSYM for acme as a builder does.
async fn publish_crash(world: &World) -> Value {
    let (sent, case) = planned_crash();
    let table = parse_hex(case["table"].as_str().unwrap());
    let meta = AliasMeta {
        generation: 1,
        quality: Quality::DwarfSymtab,
        sha256: ContentHash(Sha256::digest(&table).into()),
        object: ContentHash([3; 32]),
    };
    let debug_id: DebugId = sent["binary_images"][0]["uuid"].as_str().unwrap().parse().unwrap();
    let name = unslide_fault_analysis::VARIABLES_TABLE.name;
    let key = keys::for_symbols(tenant_id("acme").scope(debug_id)).derived(name);
    let put = Put { metadata: meta.to_metadata(), ..Put::default() };
    world.bucket().await.put(&key, table.into(), &put).await.unwrap();
    sent
}

fn parse_hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

async fn switch(world: &World, key: &str, change: &Value) -> Value {
    let request = world.request(Method::PUT, SWITCHES, key).json(change);
    world.send(request).await.expect_status(200)
}

#[tokio::test]
async fn variables_are_read_and_shown_only_while_the_tenant_has_turned_them_on() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let sent = publish_crash(&world).await.to_string();
    let symbolicate = async || world.post("/v1/symbolicate", &key, sent.clone()).await;
    let off = symbolicate().await.expect_status(200);
    assert!(off["symbolication"]["fault"].is_object(), "{off}");
    assert!(off["symbolication"].get("variables").is_none());
    assert_eq!(off["symbolication"]["analyses"], json!(["fault_analysis"]));

    let on = switch(&world, &key, &json!({"variables": true})).await;
    assert_eq!((&on["enabled"], &on["variables"]), (&json!(true), &json!(true)));
    let text = symbolicate().await.text;
    let answered: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answered["symbolication"]["analyses"], json!(["fault_analysis", "variables"]));
    let variables = answered["symbolication"]["variables"].as_array().unwrap();
    let known = variables.iter().find(|variable| variable["bytes"].is_string()).unwrap();
    let name = known["name"].as_str().unwrap();
    let forms = [("text", format!(": {name} (")), ("markdown", format!("Variable `{name}` ("))];
    // Another tenant has neither the switch nor the table.
    let other = world.create_master_key("umbrella").await;
    let theirs = world.post("/v1/symbolicate", &other, sent.clone()).await.expect_status(200);
    assert!(theirs["symbolication"].get("variables").is_none());

    store_answered(&world, "acme", &text).await;
    let path = format!("/v1/reports/{A}");
    let read = async |form: &str| world.get(&format!("{path}?format={form}"), &key).await.text;
    let stored: Value = serde_json::from_str(&read("json").await).unwrap();
    assert_eq!(stored["symbolication"]["variables"], answered["symbolication"]["variables"]);
    for (form, shown) in &forms {
        assert!(read(form).await.contains(shown), "{form} has {shown}");
    }
    let browser = Browser::signed_in(&world, &key).await;
    let page = format!("/console/reports/{A}");
    assert!(browser.fetch_page(&page).await.contains("Variables of frame 0"));
    // Titles and lists have no values.
    for list in ["/v1/reports", "/v1/groups"] {
        assert!(!world.get(list, &key).await.text.contains("\"bytes\":"), "{list}");
    }

    let tag = world.get(&path, &key).await.headers["etag"].clone();
    let unchanged = world.request(Method::GET, &path, &key).header("if-none-match", tag.clone());
    assert_eq!(world.send(unchanged).await.status.as_u16(), 304);

    let off = switch(&world, &key, &json!({"variables": false})).await;
    assert_eq!((&off["enabled"], &off["variables"]), (&json!(true), &json!(false)));
    let unchanged = world.request(Method::GET, &path, &key).header("if-none-match", tag);
    assert_eq!(world.send(unchanged).await.status.as_u16(), 200, "the client has values that are hidden now");
    let mut without = answered.clone();
    without["symbolication"].as_object_mut().unwrap().remove("variables");
    let stored: Value = serde_json::from_str(&read("json").await).unwrap();
    assert_eq!(stored, without, "at once, and only that");
    for (form, shown) in &forms {
        assert!(!read(form).await.contains(shown), "{form} has {shown}");
    }
    assert!(!browser.fetch_page(&page).await.contains("Variables of frame 0"));
    assert!(!world.get(&format!("{path}/explain"), &key).await.text.contains("\"bytes\":"));
    assert_eq!(
        world.get(SWITCHES, &key).await.expect_status(200),
        json!({"enabled": true, "variables": false})
    );
    world.stop().await;
}

#[tokio::test]
async fn every_form_of_a_report_says_why_the_subject_is_missing_and_what_to_do() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let (sent, _) = planned_crash();
    let text = world.post("/v1/symbolicate", &key, sent.to_string()).await.text;
    let answered: Value = serde_json::from_str(&text).unwrap();
    let statement = &answered["symbolication"]["fault"]["abstained"][0];
    assert_eq!(statement["reason"], "no_debug_information", "{answered}");
    store_answered(&world, "acme", &text).await;
    let path = format!("/v1/reports/{A}");
    let page = Browser::signed_in(&world, &key).await.fetch_page(&format!("/console/reports/{A}")).await;
    let mut shown = vec![page, world.get(&format!("{path}/explain"), &key).await.text];
    for form in ["json", "text", "markdown"] {
        shown.push(world.get(&format!("{path}?format={form}"), &key).await.text);
    }
    let advice = "Upload the dSYM of stack_args.arm64.O0 with `unslide upload`";
    for form in shown {
        assert!(form.contains(advice), "{form}");
    }
    world.stop().await;
}

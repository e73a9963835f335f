//! The tenant's switch, and what an api with the feature answers.

use reqwest::Method;
use serde_json::{Value, json};
use unslide_store::tenants::analyses::read_switches;
use unslide_symbolicate::{Analysis, enabled_analyses};
use unslide_world::{Answer, World, tenant_id};

/// A null pointer on arm64.
fn report() -> Value {
    json!({
        "report": {"id": "2f1c9a0e-5d6b-4c38-9b7e-0a1d2c3b4a59"},
        "binary_images": [],
        "crash": {
            "error": {"type": "mach", "mach": {"exception": 1, "exception_name": "EXC_BAD_ACCESS"}},
            "threads": [{
                "crashed": true,
                "backtrace": {"contents": [{"instruction_addr": 4_294_983_680_u64}]},
                "registers": {"basic": {"pc": 4_294_983_680_u64, "x0": 0}, "exception": {"esr": 2_449_473_542_u64, "far": 40}},
            }],
        },
    })
}

async fn symbolicated(world: &World, key: &str) -> Value {
    let answer = world.post_json("/v1/symbolicate", key, &report()).await.expect_status(200);
    answer["symbolication"]["fault"].clone()
}

async fn switch(world: &World, key: &str, enabled: bool) -> Answer {
    let request = world.request(Method::PUT, "/v1/fault-analysis", key);
    let body = json!({"enabled": enabled}).to_string();
    world.send(request.header("content-type", "application/json").body(body)).await
}

#[tokio::test]
async fn a_tenant_turns_the_analysis_off_for_itself() {
    let world = World::start(unslide_feature::for_api(&[unslide_fault_analysis::feature()]), |_| {}).await;
    let (acme, other) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    assert_eq!(symbolicated(&world, &acme).await["verdict"], "null_pointer");
    assert_eq!(switch(&world, &acme, false).await.expect_status(200)["enabled"], false);
    assert_eq!(switch(&world, &acme, false).await.expect_status(200)["enabled"], false);
    assert_eq!(world.get("/v1/fault-analysis", &acme).await.expect_status(200)["enabled"], false);
    assert_eq!(symbolicated(&world, &acme).await, Value::Null);
    assert_eq!(world.get("/v1/fault-analysis", &other).await.expect_status(200)["enabled"], true);
    assert_eq!(symbolicated(&world, &other).await["verdict"], "null_pointer");
    switch(&world, &acme, true).await.expect_status(200);
    assert_eq!(symbolicated(&world, &acme).await["verdict"], "null_pointer");
    let log = world.get("/v1/audit-log", &acme).await.expect_status(200);
    assert_eq!(log["items"][0]["action"], "fault_analysis.set", "{log}");
    world.stop().await;
}

/// The default of an analysis counts for tenants that have not chosen, and for no other.
#[tokio::test]
async fn a_changed_default_changes_no_choice_of_a_tenant() {
    let features = [unslide_fault_analysis::feature()];
    let world = World::start(unslide_feature::for_api(&features), |_| {}).await;
    let (acme, other) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let body = json!({"enabled": true, "variables": false}).to_string();
    let request = world.request(Method::PUT, "/v1/fault-analysis", &acme);
    world.send(request.header("content-type", "application/json").body(body)).await.expect_status(200);
    let state = world.get("/v1/fault-analysis", &other).await.expect_status(200);
    assert_eq!(state, json!({"enabled": true, "variables": false}), "the same, as defaults");

    let all = unslide_feature::collect_analyses(&features);
    let turned = |analysis: &Analysis| Analysis { is_opt_in: !analysis.is_opt_in, ..*analysis };
    let with_other_defaults: Vec<_> = all.iter().map(turned).collect();
    let mut chosen = Vec::new();
    for tenant in ["acme", "umbrella"] {
        let mut tx = world.store.tenant(&tenant_id(tenant)).await.unwrap();
        let switches = read_switches(&mut tx).await.unwrap();
        let names = |all: &[Analysis]| -> Vec<_> {
            enabled_analyses(all, &switches).iter().map(|analysis| analysis.name).collect()
        };
        chosen.push((names(&all), names(&with_other_defaults)));
    }
    let (fault, variables) = (vec!["fault_analysis"], vec!["variables"]);
    assert_eq!(chosen, [(fault.clone(), fault.clone()), (fault, variables)]);
    world.stop().await;
}

#[tokio::test]
async fn apples_text_states_the_fault_with_its_evidence() {
    let world = World::start(unslide_feature::for_api(&[unslide_fault_analysis::feature()]), |_| {}).await;
    let key = world.create_master_key("acme").await;
    let request = world.request(Method::POST, "/v1/symbolicate", &key);
    let request = request.header("accept", "text/plain").header("content-type", "application/json");
    let text = world.send(request.body(report().to_string())).await.text;
    let section = "Analysis: A pointer is probably null: the crash reads address 0x28.\nEvidence: esr 0x92000006; far 0x28\n";
    assert!(text.contains(section), "{text}");
    world.stop().await;
}

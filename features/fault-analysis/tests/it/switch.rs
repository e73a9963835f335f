//! The tenant's switch, and what an api with the feature answers.

use reqwest::Method;
use serde_json::{Value, json};
use unslide_world::{Answer, World};

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

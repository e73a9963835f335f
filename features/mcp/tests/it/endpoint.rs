//! Messages to `/mcp`, with keys of different scopes.

use reqwest::Method;
use serde_json::{Value, json};
use unslide_model::Scope;
use unslide_world::{Answer, World};

async fn start_world() -> World {
    World::start(unslide_feature::for_api(&[unslide_mcp::feature(unslide_mcp::Config::default())]), |_| {})
        .await
}

async fn send_message(world: &World, key: &str, message: &Value) -> Answer {
    let request = world.request(Method::POST, "/mcp", key).header("content-type", "application/json");
    let request = request.header("accept", "application/json, text/event-stream");
    world.send(request.body(message.to_string())).await
}

async fn call_method(world: &World, key: &str, method: &str, params: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    send_message(world, key, &message).await.expect_status(200)
}

async fn call_tool(world: &World, key: &str, name: &str, arguments: Value) -> Value {
    call_method(world, key, "tools/call", json!({"name": name, "arguments": arguments})).await["result"]
        .clone()
}

fn tool_names(answer: &Value) -> Vec<&str> {
    answer["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_client_reads_with_its_key_and_sees_the_tools_that_it_may_use() {
    let world = start_world().await;
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    let writer = world.create_key("acme", &[Scope::ReportsRead, Scope::GroupsWrite]).await;
    let client = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let hello = call_method(&world, &reader, "initialize", client).await;
    assert_eq!(hello["result"]["serverInfo"]["name"], "unslide");
    assert!(hello["result"]["instructions"].as_str().unwrap().contains("do not"), "{hello}");
    let listed = call_method(&world, &reader, "tools/list", json!({})).await;
    assert!(!tool_names(&listed).contains(&"resolve_group"), "{listed}");
    let listed = call_method(&world, &writer, "tools/list", json!({})).await;
    assert!(tool_names(&listed).contains(&"resolve_group"), "{listed}");
    let apps = call_tool(&world, &reader, "list_apps", json!({})).await;
    assert!(apps["content"][0]["text"].as_str().unwrap().starts_with("0 entries. "), "{apps}");
    let missing = json!({"id": "2f1c9a0e-5d6b-4c38-9b7e-0a1d2c3b4a59"});
    let report = call_tool(&world, &reader, "read_report", missing.clone()).await;
    assert_eq!(report["isError"], true);
    assert!(
        report["content"][0]["text"].as_str().unwrap().ends_with("(404): there is no such report"),
        "{report}"
    );
    let resolved = call_tool(&world, &writer, "resolve_group", missing.clone()).await;
    assert!(resolved["content"][0]["text"].as_str().unwrap().contains("(404)"), "{resolved}");
    let refused = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "resolve_group", "arguments": missing}});
    let refused = send_message(&world, &reader, &refused).await;
    assert!(refused.text.contains("may not change groups"), "{}", refused.text);
    world.stop().await;
}

#[tokio::test]
async fn a_request_without_a_key_or_from_a_page_is_refused() {
    let world = start_world().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    send_message(&world, "", &list).await.expect_problem(401, "unauthorized");
    let uploader = world.create_key("acme", &[Scope::SymbolsWrite]).await;
    send_message(&world, &uploader, &list).await.expect_problem(403, "insufficient-scope");
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    for origin in ["https://example.com", "null", "http://127.0.0.1"] {
        let request = world.request(Method::POST, "/mcp", &reader).header("origin", origin);
        world.send(request.body(list.to_string())).await.expect_problem(403, "insufficient-scope");
    }
    world.get("/mcp", &reader).await.expect_problem(405, "method-not-allowed");
    let long = json!({"jsonrpc": "2.0", "id": 1, "method": "x".repeat(70_000)});
    send_message(&world, &reader, &long).await.expect_problem(413, "too-large");
    world.stop().await;
}

#[tokio::test]
async fn no_stream_begins_and_a_revoked_key_gets_no_answer() {
    let world = start_world().await;
    let master = world.create_master_key("acme").await;
    let new = json!({"name": "assistant", "scopes": ["reports:read"], "app": null});
    let created = world.post_json("/v1/keys", &master, &new).await.expect_status(201);
    let (id, key) = (created["id"].as_str().unwrap(), created["text"].as_str().unwrap());
    let listen =
        json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {"notifications": {}}});
    let answer = send_message(&world, key, &listen).await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert!(answer.text.contains("error"), "{}", answer.text);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    send_message(&world, key, &list).await.expect_status(200);
    world.delete(&format!("/v1/keys/{id}"), &master).await;
    world.until_refused(key).await;
    send_message(&world, key, &list).await.expect_problem(401, "unauthorized");
    world.stop().await;
}

#[tokio::test]
async fn a_key_for_one_app_gets_no_list_of_another() {
    let world = start_world().await;
    let key = world.key_for("acme", &[Scope::ReportsRead], Some("com.example.shop")).await;
    let other = call_tool(&world, &key, "list_groups", json!({"app": "com.example.other"})).await;
    assert_eq!(other["isError"], true);
    assert!(other["content"][0]["text"].as_str().unwrap().contains("(403)"), "{other}");
    world.stop().await;
}

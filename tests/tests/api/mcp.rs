//! Tools of the Model Context Protocol on stored reports.

use crate::reports::{A, crash, store};
use crate::world::World;
use reqwest::Method;
use serde_json::{Value, json};
use unslide_model::Scope;

/// Calls a tool. Returns the text of its result, and true if it failed.
async fn call_tool(world: &World, key: &str, name: &str, arguments: Value) -> (String, bool) {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": arguments}});
    let request = world.request(Method::POST, "/mcp", key).header("content-type", "application/json");
    let request = request.header("accept", "application/json, text/event-stream").body(message.to_string());
    let answer = world.send(request).await.expect_status(200);
    let result = &answer["result"];
    (result["content"][0]["text"].as_str().unwrap().to_owned(), result["isError"] == true)
}

#[tokio::test]
async fn an_assistant_finds_reads_and_changes_a_group_with_the_key_of_its_tenant() {
    let world = World::start().await;
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    let writer = world.create_key("acme", &[Scope::ReportsRead, Scope::GroupsWrite]).await;
    let other = world.create_master_key("umbrella").await;
    store(&world, "acme", &crash(A, "2.5.0"), 1, world.host.clock.now()).await;
    let groups = world.get("/v1/groups", &reader).await.expect_status(200);
    let id = groups["items"][0]["id"].as_str().unwrap();
    let app = groups["items"][0]["app"].as_str().unwrap();
    let read = async |name: &str, arguments: Value| {
        let (text, is_error) = call_tool(&world, &reader, name, arguments).await;
        assert!(!is_error, "{name}: {text}");
        text
    };
    assert!(read("list_apps", json!({})).await.contains(app));
    assert!(read("list_versions", json!({"app": app})).await.contains("2.5.0"));
    assert!(read("list_groups", json!({"new_in": "2.5.0", "sort": "reports"})).await.contains(id));
    assert!(read("list_groups", json!({"new_in": "2.6.0"})).await.starts_with("0 entries."));
    assert!(read("list_reports", json!({"group": id, "limit": 1})).await.contains(A));
    assert!(read("read_changes", json!({"id": id})).await.starts_with("# Changed functions"));
    let evidence = read("explain_group", json!({"id": id})).await;
    assert!(evidence.starts_with("# SHOP-") && evidence.len() <= 16 << 10, "{evidence}");
    for part in [
        &format!("[report {A}, crash.error]"),
        "No analysis says what was wrong",
        "The stack has no source lines",
        "## Changed functions",
        "Not compared: ",
        "Nothing is compared: `Fewer than 5 devices",
        "The owner was not looked for yet.",
    ] {
        assert!(evidence.contains(part), "{part}: {evidence}");
    }
    assert!(read("read_report", json!({"id": A})).await.contains(&format!("[report {A}, crash.error]")));
    assert!(read("list_missing_symbols", json!({"app": app})).await.contains("\"debug_id\""));
    let (text, is_error) = call_tool(&world, &other, "explain_group", json!({"id": id})).await;
    assert!(is_error && text.contains("(404)"), "{text}");
    let (text, is_error) = call_tool(&world, &other, "list_groups", json!({})).await;
    assert!(!is_error && text.starts_with("0 entries."), "{text}");
    for (name, arguments) in [
        ("assign_group", json!({"id": id, "assignee": "Kim"})),
        ("comment_on_group", json!({"id": id, "text": "Seen."})),
        ("resolve_group", json!({"id": id, "in_version": "2.6.0"})),
    ] {
        assert_eq!(call_tool(&world, &writer, name, arguments).await, ("Done.".to_owned(), false), "{name}");
    }
    let group = world.get(&format!("/v1/groups/{id}"), &reader).await.expect_status(200);
    assert!(read("check_fix", json!({"id": id})).await.contains(r#""verdict":"too_early""#));
    let compared = read("compare_devices", json!({"id": id})).await;
    assert!(compared.contains("Fewer than 5 devices"), "{compared}");
    let check = read("check_version", json!({"app": app, "version": "2.5.0", "against": "2.4"})).await;
    assert!(check.contains(r#""verdict":"too_early""#) && check.contains("sends no sessions"), "{check}");
    assert_eq!([&group["status"], &group["resolved_in"], &group["assignee"]], ["resolved", "2.6.0", "Kim"]);
    world.stop().await;
}

#[tokio::test]
async fn bad_arguments_are_named() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    for (name, arguments, problem) in [
        ("explain_group", json!({}), "The argument id is missing"),
        ("explain_group", json!({"id": "x/../../keys"}), "(400)"),
        ("list_groups", json!({"limit": "a"}), "The argument limit is an integer."),
        ("list_groups", json!({"sort": "worst"}), "(400)"),
        ("search_groups", json!({"text": "a"}), "(400)"),
        ("compare_versions", json!({"app": "none"}), "(404)"),
    ] {
        let (text, is_error) = call_tool(&world, &key, name, arguments).await;
        assert!(is_error && text.contains(problem), "{name}: {text}");
    }
    world.stop().await;
}

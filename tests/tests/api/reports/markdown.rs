//! Reports and groups as Markdown.

use crate::reports::{A, B, crash, store};
use crate::world::World;
use serde_json::{Value, json};

/// A crash with a reason that would be a heading and an image if it were not quoted.
fn hostile_crash(id: &str) -> Value {
    let mut hostile = crash(id, "2.5.0`x`");
    hostile["crash"]["error"]["reason"] = "x\n# Ignore this ![a](https://example.com)\u{202e}".into();
    hostile
}

#[tokio::test]
async fn a_report_says_what_happened_with_its_evidence_and_its_group() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let now = world.host.clock.now();
    store(&world, "acme", &hostile_crash(A), 1, now).await;
    store(&world, "acme", &hostile_crash(B), 1, now).await;
    let answer = world.get(&format!("/v1/reports/{A}?format=markdown&evidence=true"), &key).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "text/markdown; charset=utf-8");
    let text = answer.text;
    let evidence = format!("[report {A}, crash.error]");
    for part in [
        format!("Report {A}, revision 1, received "),
        format!("- Reason: `x\\n# Ignore this ![a](https://example.com)\\u{{202e}}` {evidence}\n"),
        format!("Thread 0, crashed. 1 of 1 frames are shown. [report {A}, thread 0, frames 0 to 0]"),
        "- Version: `` 2.5.0`x` ``".to_owned(),
        "These images of the app lack symbols.".to_owned(),
        "- 2 reports from ".to_owned(),
        "## Statistics".to_owned(),
    ] {
        assert!(text.contains(&part), "{part} in {text}");
    }
    assert!(text.starts_with("# SHOP-") && !text.lines().any(|line| line.starts_with("# Ignore")), "{text}");
    let plain = world.get(&format!("/v1/reports/{A}?format=markdown"), &key).await.text;
    assert!(plain.contains("crashed. 1 of 1 frames are shown.\n") && !plain.contains("[report"), "{plain}");
    let accepted = world.request(reqwest::Method::GET, &format!("/v1/reports/{A}"), &key);
    let accepted = world.send(accepted.header("accept", "text/markdown")).await;
    assert_eq!(accepted.text, plain);
    let sent =
        world.request(reqwest::Method::POST, "/v1/symbolicate", &key).header("accept", "text/markdown");
    let sent =
        world.send(sent.header("content-type", "application/json").body(hostile_crash(A).to_string())).await;
    assert!(sent.text.starts_with("# `") && !sent.text.contains("[report"), "{}", sent.text);
    world.get(&format!("/v1/reports/{A}?format=md"), &key).await.expect_problem(400, "invalid-parameter");
    let other = world.create_master_key("umbrella").await;
    world.get(&format!("/v1/reports/{A}?format=markdown"), &other).await.expect_problem(404, "not-found");
    world.stop().await;
}

#[tokio::test]
async fn a_group_has_its_statistics_and_the_report_that_represents_it() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let now = world.host.clock.now();
    store(&world, "acme", &hostile_crash(A), 1, now).await;
    let groups = world.get("/v1/groups", &key).await.expect_status(200);
    let id = groups["items"][0]["id"].as_str().unwrap();
    world
        .patch(&format!("/v1/groups/{id}"), &key, &json!({"assignee": "Kim `# x`"}))
        .await
        .expect_status(200);
    let short = groups["items"][0]["short_id"].as_str().unwrap();
    let answer = world.get(&format!("/v1/groups/{short}?format=markdown&evidence=true"), &key).await;
    assert_eq!(answer.headers["content-type"], "text/markdown; charset=utf-8");
    let text = answer.text;
    for part in [
        format!("# {short}: `"),
        format!("- State: open, assigned to `` Kim `# x` `` [group {short}]\n"),
        format!("- 1 report in the last 7 days [group {short}]\n"),
        format!("- Versions, with their reports: `` 2.5.0`x` `` 1 [group {short}]\n"),
        format!("The sections below describe report {A}: the newest one."),
        format!("[report {A}, crash.error]"),
    ] {
        assert!(text.contains(&part), "{part} in {text}");
    }
    let plain = world.get(&format!("/v1/groups/{id}?format=markdown"), &key).await.text;
    assert!(plain.starts_with(&format!("# {short}: `")) && !plain.contains("[group"), "{plain}");
    let json = world.get(&format!("/v1/groups/{id}?format=json"), &key).await.expect_status(200);
    assert_eq!(json["id"], id);
    world.get(&format!("/v1/groups/{id}?format=text"), &key).await.expect_problem(400, "invalid-parameter");
    let other = world.create_master_key("umbrella").await;
    world.get(&format!("/v1/groups/{id}?format=markdown"), &other).await.expect_problem(404, "not-found");
    world.stop().await;
}

//! Whether a group is fixed: the operation, and the section of the group's page.

use crate::verdicts::counted_world::CountedWorld;
use serde_json::{Value, json};
use unslide_model::Scope;
use unslide_store::GroupId;
use unslide_world::Browser;

/// Stores a bug of 2.4.1 that hits one of 1,100 sessions, and resolves it in 2.4.2.
async fn resolve_bug(world: &CountedWorld) -> GroupId {
    world.store_sessions("2.4.1", 20, [110_000, 100]).await;
    let group = world.store_reports(1, "2.4.1", 20, 100).await;
    let resolved = json!({"status": "resolved", "resolved_in": "2.4.2"});
    world.patch(&format!("/v1/groups/{group}"), &world.key, &resolved).await.expect_status(200);
    group
}

async fn judge(world: &CountedWorld, group: GroupId) -> Value {
    world.get(&format!("/v1/groups/{group}/verdict"), &world.key).await.expect_status(200)
}

#[tokio::test]
async fn a_bug_is_fixed_after_enough_sessions_without_it() {
    let world = CountedWorld::start().await;
    let group = resolve_bug(&world).await;
    let found = judge(&world, group).await;
    assert_eq!((&found["verdict"], &found["crashes_before"]), (&json!("too_early"), &json!(100)));
    assert!(found["hint"].as_str().unwrap().starts_with("No session since the fix"), "{found}");
    world.store_sessions("2.4.2", 3, [20_000, 0]).await;
    let found = judge(&world, group).await;
    assert_eq!((&found["verdict"], &found["hint"]), (&json!("too_early"), &Value::Null));
    let more = found["more_sessions"].as_u64().unwrap();
    assert!((15_000..25_000).contains(&more), "{found}");
    // Sessions of today may still report their crash.
    world.store_sessions("2.5.0", 0, [1_000_000, 0]).await;
    assert_eq!(judge(&world, group).await["more_sessions"], more);
    world.store_sessions("2.5.0", 1, [25_000, 0]).await;
    let found = judge(&world, group).await;
    assert_eq!(found["text"], "fixed: 0 in 45,000 sessions, 41 expected");
    assert_eq!(
        (&found["verdict"], &found["error"], &found["resolved_in"]),
        (&json!("fixed"), &json!(0.01), &json!("2.4.2"))
    );
    let browser = Browser::signed_in(&world, &world.key).await;
    let page = browser.fetch_page(&format!("/console/groups/{group}")).await;
    for words in ["Is it fixed?", "fixed: 0 in 45,000 sessions, 41 expected", "of 110,000 sessions"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_bug_that_still_comes_is_not_fixed_and_one_late_report_says_nothing() {
    let world = CountedWorld::start().await;
    let group = resolve_bug(&world).await;
    world.store_sessions("2.4.2", 2, [41_000, 12]).await;
    world.store_reports(1, "2.4.2", 2, 1).await;
    assert_eq!(judge(&world, group).await["verdict"], "too_early");
    world.store_reports(1, "2.4.2", 1, 11).await;
    let found = judge(&world, group).await;
    assert_eq!(found["text"], "not fixed: 12, 37 expected: 3 times fewer");
    // A group that is merged into it has its reports, too.
    let other = world.store_reports(2, "2.4.2", 1, 5).await;
    let into = json!({"groups": [other]});
    world.post_json(&format!("/v1/groups/{group}/merge"), &world.key, &into).await.expect_status(200);
    assert_eq!(judge(&world, group).await["crashes"], 17);
    world.stop().await;
}

#[tokio::test]
async fn an_app_without_sessions_and_an_open_group_hear_what_to_do() {
    let world = CountedWorld::start().await;
    let group = world.store_reports(1, "2.4.1", 20, 3).await;
    let found = judge(&world, group).await;
    assert_eq!(found["verdict"], "not_resolved");
    assert!(found["hint"].as_str().unwrap().contains("resolve it in a version"), "{found}");
    let browser = Browser::signed_in(&world, &world.key).await;
    let page = browser.fetch_page(&format!("/console/groups/{group}")).await;
    assert!(!page.contains("Is it fixed?"), "{page}");
    let resolved = json!({"status": "resolved"});
    world.patch(&format!("/v1/groups/{group}"), &world.key, &resolved).await.expect_status(200);
    let found = judge(&world, group).await;
    assert_eq!(found["verdict"], "too_early");
    assert!(found["hint"].as_str().unwrap().contains("POST /v1/sessions"), "{found}");
    let page = browser.fetch_page(&format!("/console/groups/{group}")).await;
    assert!(page.contains("Is it fixed?") && page.contains("POST /v1/sessions"), "{page}");
    let foreign = world.create_key("umbrella", &[Scope::ReportsRead]).await;
    let other_app = world.key_for("acme", &[Scope::ReportsRead], Some("com.acme.other")).await;
    for key in [foreign, other_app] {
        world.get(&format!("/v1/groups/{group}/verdict"), &key).await.expect_problem(404, "not-found");
    }
    world.stop().await;
}

//! Whether a resolved group comes back: by its verdict, or with any report.

use crate::verdicts::counted_world::CountedWorld;
use reqwest::Method;
use serde_json::{Value, json};
use unslide_model::Scope;
use unslide_store::GroupId;
use unslide_world::{Answer, wait_until};

const RULE: &str = "/v1/regression-rule";

/// Stores a bug of 2.4.1 that hits one of 1,100 sessions if the app has some, and resolves it in 2.4.2.
async fn resolve_bug(world: &CountedWorld, sessions: i32) -> GroupId {
    if sessions > 0 {
        world.store_sessions("2.4.1", 20, [sessions, 100]).await;
    }
    let group = world.store_reports(1, "2.4.1", 20, 100).await;
    let resolved = json!({"status": "resolved", "resolved_in": "2.4.2"});
    world.patch(&format!("/v1/groups/{group}"), &world.key, &resolved).await.expect_status(200);
    group
}

async fn read_group(world: &CountedWorld, group: GroupId) -> Value {
    world.get(&format!("/v1/groups/{group}"), &world.key).await.expect_status(200)
}

async fn status(world: &CountedWorld, group: GroupId) -> String {
    read_group(world, group).await["status"].as_str().unwrap().to_owned()
}

async fn put(world: &CountedWorld, key: &str, rule: &str) -> Answer {
    world.send(world.request(Method::PUT, RULE, key).json(&json!({"rule": rule}))).await
}

async fn set_rule(world: &CountedWorld, admin: &str, rule: &str) {
    let answer = put(world, admin, rule).await.expect_status(200);
    assert_eq!(answer, json!({"rule": rule}));
}

/// Returns the groups that wait for a verdict, and whether each was looked at since it began to.
async fn waiting(world: &CountedWorld) -> Vec<bool> {
    sqlx::query_scalar("SELECT next_look_at > received_at + interval '1 minute' FROM held_regressions")
        .fetch_all(&mut world.connect().await)
        .await
        .unwrap()
}

#[tokio::test]
async fn one_late_report_reopens_nothing_and_a_bug_that_still_comes_is_back() {
    let world = CountedWorld::start().await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    assert_eq!(world.get(RULE, &admin).await.expect_status(200), json!({"rule": "not_fixed"}));
    let rule = json!({"name": "back", "condition": "regression", "channel": "kafka"});
    world.post_json("/v1/alert-rules", &admin, &rule).await.expect_status(201);
    let group = resolve_bug(&world, 110_000).await;
    world.store_sessions("2.5.0", 2, [41_000, 12]).await;
    world.store_reports(1, "2.5.0", 2, 1).await;
    assert!(wait_until(async || waiting(&world).await == [true]).await);
    assert_eq!(status(&world, group).await, "resolved");
    world.store_reports(1, "2.5.0", 1, 11).await;
    assert_eq!(status(&world, group).await, "resolved", "it is judged at the next look");
    // Which comes at once, because the rule is set.
    set_rule(&world, &admin, "not_fixed").await;
    assert!(wait_until(async || status(&world, group).await == "regressed").await);
    assert_eq!(read_group(&world, group).await["regressed_in"], "2.5.0");
    assert_eq!(waiting(&world).await, [] as [bool; 0]);
    let told: Vec<String> = sqlx::query_scalar("SELECT detail FROM alert_events WHERE cause LIKE 'back:%'")
        .fetch_all(&mut world.connect().await)
        .await
        .unwrap();
    assert_eq!(told, ["It was resolved, and version 2.5.0 has it again."]);
    let live: i64 = sqlx::query_scalar("SELECT count(*) FROM live_events WHERE kind = 'group_regressed'")
        .fetch_one(&mut world.connect().await)
        .await
        .unwrap();
    assert_eq!(live, 1);
    let activity = world.get(&format!("/v1/groups/{group}/activity"), &world.key).await.expect_status(200);
    assert_eq!(
        (&activity["items"][0]["action"], &activity["items"][0]["text"]),
        (&json!("regressed"), &json!("2.5.0"))
    );
    world.stop().await;
}

#[tokio::test]
async fn any_report_reopens_without_sessions_and_by_the_rule() {
    let world = CountedWorld::start().await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let group = resolve_bug(&world, 0).await;
    world.store_reports(1, "2.5.0", 2, 1).await;
    assert_eq!(status(&world, group).await, "regressed");
    let resolved = json!({"status": "resolved", "resolved_in": "2.5.0"});
    world.patch(&format!("/v1/groups/{group}"), &world.key, &resolved).await.expect_status(200);
    world.store_sessions("2.5.0", 2, [50_000, 1]).await;
    world.store_sessions("2.6.0", 1, [50, 1]).await;
    world.store_reports(1, "2.6.0", 1, 1).await;
    assert_eq!(status(&world, group).await, "resolved");
    assert!(wait_until(async || waiting(&world).await == [true]).await);
    set_rule(&world, &admin, "any_report").await;
    assert!(wait_until(async || status(&world, group).await == "regressed").await, "what waits comes back");
    let resolved = json!({"status": "resolved", "resolved_in": "2.6.0"});
    world.patch(&format!("/v1/groups/{group}"), &world.key, &resolved).await.expect_status(200);
    world.store_reports(1, "2.7.0", 0, 1).await;
    assert_eq!(status(&world, group).await, "regressed");
    world.stop().await;
}

#[tokio::test]
async fn a_group_that_a_person_opens_waits_for_nothing() {
    let world = CountedWorld::start().await;
    let group = resolve_bug(&world, 110_000).await;
    world.store_sessions("2.5.0", 2, [1_000, 1]).await;
    world.store_reports(1, "2.5.0", 2, 1).await;
    assert!(wait_until(async || waiting(&world).await == [true]).await);
    world
        .patch(&format!("/v1/groups/{group}"), &world.key, &json!({"status": "open"}))
        .await
        .expect_status(200);
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    set_rule(&world, &admin, "not_fixed").await;
    assert!(wait_until(async || waiting(&world).await.is_empty()).await);
    assert_eq!(status(&world, group).await, "open");
    world.stop().await;
}

#[tokio::test]
async fn the_rule_is_for_administrators_of_all_apps() {
    let world = CountedWorld::start().await;
    world.get(RULE, &world.key).await.expect_problem(403, "insufficient-scope");
    let one_app = world.key_for("acme", &[Scope::TenantAdmin], Some("com.acme.shop")).await;
    put(&world, &one_app, "any_report").await.expect_problem(403, "insufficient-scope");
    let other = world.create_key("umbrella", &[Scope::TenantAdmin]).await;
    put(&world, &other, "any_report").await.expect_status(200);
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    assert_eq!(world.get(RULE, &admin).await.expect_status(200), json!({"rule": "not_fixed"}));
    put(&world, &admin, "never").await.expect_problem(400, "invalid-body");
    world.stop().await;
}

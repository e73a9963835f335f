//! What a team does with groups: states, comments, merges.

use crate::reports::{A, crash, store};
use crate::world::World;
use serde_json::{Value, json};
use unslide_model::Scope;

const B: &str = "22222222-2222-2222-2222-222222222222";
const C: &str = "33333333-3333-3333-3333-333333333333";

/// Two groups of acme: a crash and a hang.
async fn two(world: &World, key: &str) -> (String, String) {
    let now = world.host.clock.now();
    store(world, "acme", &crash(A, "1.0"), 1, now).await;
    let mut hang = crash(B, "1.0");
    hang["crash"]["error"]["type"] = "hang".into();
    store(world, "acme", &hang, 1, now).await;
    let id = async |kind: &str| {
        let found = world.get(&format!("/v1/groups?kind={kind}"), key).await.expect(200);
        found["items"][0]["id"].as_str().unwrap().to_owned()
    };
    (id("crash").await, id("hang").await)
}

fn actions(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["action"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_resolved_group_comes_back_with_a_newer_version() {
    let world = World::start().await;
    let key = world.key("acme", &[Scope::ReportsRead, Scope::GroupsWrite]).await;
    let (group, _) = two(&world, &key).await;
    let path = format!("/v1/groups/{group}");
    let change = json!({"status": "resolved", "resolved_in": "2.9", "assignee": "Kim"});
    let changed = world.patch(&path, &key, &change).await.expect(200);
    assert_eq!((&changed["status"], &changed["resolved_in"]), (&"resolved".into(), &"2.9".into()));
    let listed = async |query: &str| {
        let found = world.get(&format!("/v1/groups?{query}"), &key).await.expect(200);
        found["items"].as_array().unwrap().iter().any(|item| item["id"] == group.as_str())
    };
    assert!(listed("status=resolved,ignored&assignee=Kim").await);
    assert!(!listed("status=open,regressed").await && !listed("assignee=").await);
    store(&world, "acme", &crash(C, "2.10"), 1, world.host.clock.now()).await;
    let back = world.get(&path, &key).await.expect(200);
    assert_eq!((&back["status"], &back["regressed_in"]), (&"regressed".into(), &"2.10".into()));
    world.post_json(&format!("{path}/comments"), &key, &json!({"text": "again?\nyes"})).await.expect(201);
    let activity = world.get(&format!("{path}/activity"), &key).await.expect(200);
    assert_eq!(actions(&activity)[..2], ["commented", "regressed"]);
    assert_eq!(
        (&activity["items"][0]["text"], &activity["items"][1]["actor"]),
        (&"again?\nyes".into(), &"indexer".into())
    );
    let first = world.get(&format!("{path}/activity?limit=3"), &key).await.expect(200);
    let next = first["next_cursor"].as_str().unwrap();
    let rest = world.get(&format!("{path}/activity?limit=3&cursor={next}"), &key).await.expect(200);
    assert_eq!([actions(&first), actions(&rest)].concat(), actions(&activity));
    for (body, slug) in [
        (json!({"status": "regressed"}), "invalid-body"),
        (json!({"resolved_in": "2.0"}), "invalid-body"),
        (json!({"status": "resolved", "resolved_in": ""}), "invalid-body"),
        (json!({"assignee": "a".repeat(201)}), "invalid-body"),
        (json!({"state": "open"}), "invalid-body"),
    ] {
        world.patch(&path, &key, &body).await.expect_problem(400, slug);
    }
    for text in [String::new(), " ".to_owned(), "a".repeat(4_001), "\u{7}".to_owned()] {
        let comment = world.post_json(&format!("{path}/comments"), &key, &json!({"text": text})).await;
        comment.expect_problem(400, "invalid-body");
    }
    for status in ["", "closed", "open,open", "open,"] {
        let refused = world.get(&format!("/v1/groups?status={status}"), &key).await;
        refused.expect_problem(400, "invalid-parameter");
    }
    world.stop().await;
}

#[tokio::test]
async fn groups_are_merged_and_split() {
    let world = World::start().await;
    let key = world.key("acme", &[Scope::ReportsRead, Scope::GroupsWrite]).await;
    let (group, other) = two(&world, &key).await;
    let merge = |target: &str| format!("/v1/groups/{target}/merge");
    let merged = world.post_json(&merge(&group), &key, &json!({"groups": [other]})).await.expect(200);
    assert_eq!((&merged["reports"], &merged["merged"][0]["id"]), (&2.into(), &other.as_str().into()));
    assert_eq!(world.get("/v1/groups", &key).await.expect(200)["items"].as_array().unwrap().len(), 1);
    let reports = world.get(&format!("/v1/reports?group={group}"), &key).await.expect(200);
    assert_eq!(reports["items"].as_array().unwrap().len(), 2);
    let own = world.get(&format!("/v1/groups/{other}"), &key).await.expect(200);
    assert_eq!(own["merged_into"], group.as_str());
    let resolved = json!({"status": "resolved"});
    let refused = world.patch(&format!("/v1/groups/{other}"), &key, &resolved).await;
    assert!(refused.expect_problem(409, "group-merged").contains(&group));
    world
        .post_json(&merge(&other), &key, &json!({"groups": [group]}))
        .await
        .expect_problem(409, "group-merged");
    for groups in [json!([]), json!([A]), json!(vec![A; 51]), json!(["x"])] {
        let refused = world.post_json(&merge(&group), &key, &json!({"groups": groups})).await;
        refused.expect_problem(400, "invalid-body");
    }
    let split = format!("/v1/groups/{group}/split");
    let after = world.post_json(&split, &key, &json!({"group": other})).await.expect(200);
    assert_eq!(after["reports"], 1);
    world.post_json(&split, &key, &json!({"group": other})).await.expect_problem(400, "invalid-body");
    let activity = world.get(&format!("/v1/groups/{other}/activity"), &key).await.expect(200);
    assert_eq!(actions(&activity), ["split_from", "merged_into"]);
    // A key for another app knows neither; one that may only look changes nothing.
    let only = world.key_for("acme", &[Scope::GroupsWrite], Some("com.example.other")).await;
    world
        .post_json(&merge(&group), &only, &json!({"groups": [other]}))
        .await
        .expect_problem(404, "not-found");
    let reader = world.key("acme", &[Scope::ReportsRead, Scope::ReportsWrite]).await;
    let refused = world.patch(&format!("/v1/groups/{group}"), &reader, &resolved).await;
    refused.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

//! What a team does with groups: states, comments, merges.

use crate::reports::{A, crash, store, store_late};
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
        let found = world.get(&format!("/v1/groups?kind={kind}"), key).await.expect_status(200);
        found["items"][0]["id"].as_str().unwrap().to_owned()
    };
    (id("crash").await, id("hang").await)
}

fn actions(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["action"].as_str().unwrap()).collect()
}

/// With a version, the group that is worst in it comes first, whatever other versions have.
#[tokio::test]
async fn groups_of_a_version_are_ranked_and_counted_by_its_reports() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let now = world.host.clock.now();
    let id = |n: u8| format!("{n:08}-0000-0000-0000-000000000000");
    for (n, version) in [(1, "1.0"), (2, "1.0"), (3, "1.0"), (4, "2.0")] {
        store(&world, "acme", &crash(&id(n), version), 1, now).await;
    }
    for n in [5, 6] {
        let mut hang = crash(&id(n), "2.0");
        hang["crash"]["error"]["type"] = "hang".into();
        store(&world, "acme", &hang, 1, now).await;
    }
    let list = async |query: &str| world.get(&format!("/v1/groups?{query}"), &key).await;
    let ranked = async |query: &str| -> Vec<(String, i64, Option<i64>)> {
        let page = list(&format!("sort=reports&{query}")).await.expect_status(200);
        let row = |item: &Value| {
            let kind = item["kind"].as_str().unwrap().to_owned();
            (kind, item["reports"].as_i64().unwrap(), item["all_reports"].as_i64())
        };
        page["items"].as_array().unwrap().iter().map(row).collect()
    };
    let row = |kind: &str, reports, all| (kind.to_owned(), reports, all);
    assert_eq!(ranked("").await, [row("crash", 4, None), row("hang", 2, None)]);
    let newer = [row("hang", 2, Some(2)), row("crash", 1, Some(4))];
    assert_eq!(ranked("version=2.0").await, newer);
    assert_eq!(ranked("version=1.0").await, [row("crash", 3, Some(4))]);
    assert_eq!(ranked("new_in=2.0").await, [row("hang", 2, None)]);
    let (today, before) = (now.date().to_string(), (now.date() - time::Duration::DAY).to_string());
    assert_eq!(ranked(&format!("from_day={today}&version=2.0")).await, newer);
    assert_eq!(ranked(&format!("to_day={before}")).await, []);
    // Page by page, in the same order.
    let first = list("sort=reports&version=2.0&limit=1").await.expect_status(200);
    let next = first["next_cursor"].as_str().unwrap();
    let second = list(&format!("sort=reports&version=2.0&limit=1&cursor={next}")).await.expect_status(200);
    assert_eq!((&second["items"][0]["kind"], second.get("next_cursor")), (&"crash".into(), None));
    let growing = list("sort=growing&version=2.0").await.expect_status(200);
    let counts = |item: &Value| (item["reports"].clone(), item["growth"]["reports"].clone());
    let counted: Vec<_> = growing["items"].as_array().unwrap().iter().map(counts).collect();
    assert!(!counted.is_empty() && counted.iter().all(|(reports, growth)| reports == growth), "{counted:?}");
    for wrong in [
        format!("from_day={today}&to_day={before}"),
        format!("sort=growing&from_day={today}"),
        "from_day=yesterday".to_owned(),
        "to_day=2026-13-01".to_owned(),
    ] {
        list(&wrong).await.expect_problem(400, "invalid-parameter");
    }
    let csv = world.request(reqwest::Method::GET, "/v1/groups?version=2.0&sort=reports", &key);
    let csv = world.send(csv.header("accept", "text/csv")).await;
    assert!(
        csv.text.lines().next().unwrap().contains("reports,all_reports,affected_devices"),
        "{}",
        csv.text
    );
    assert!(csv.text.lines().nth(2).unwrap().contains(",1,4,"), "{}", csv.text);
    let browser = crate::world::Browser::signed_in(&world, &key).await;
    for (page, words) in [
        ("/console/groups?version=2.0&sort=reports", "of 4 ·"),
        ("/console/groups?version=2.0&days=7", "of 4 ·"),
        ("/console/groups?new_in=2.0", "new or back in 2.0"),
    ] {
        assert!(browser.fetch_page(page).await.contains(words), "{page}");
    }
    let versions = browser.fetch_page("/console/versions").await;
    assert!(versions.contains("/console/groups?app=com.example.shop"), "{versions}");
    world.stop().await;
}

#[tokio::test]
async fn a_resolved_group_comes_back_with_a_newer_version() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsRead, Scope::GroupsWrite]).await;
    let (group, _) = two(&world, &key).await;
    let path = format!("/v1/groups/{group}");
    let change = json!({"status": "resolved", "resolved_in": "2.9", "assignee": "Kim"});
    let changed = world.patch(&path, &key, &change).await.expect_status(200);
    assert_eq!((&changed["status"], &changed["resolved_in"]), (&"resolved".into(), &"2.9".into()));
    let listed = async |query: &str| {
        let found = world.get(&format!("/v1/groups?{query}"), &key).await.expect_status(200);
        found["items"].as_array().unwrap().iter().any(|item| item["id"] == group.as_str())
    };
    assert!(listed("status=resolved,ignored&assignee=Kim").await);
    assert!(!listed("status=open,regressed").await && !listed("assignee=").await);
    store(&world, "acme", &crash(C, "2.10"), 1, world.host.clock.now()).await;
    let back = world.get(&path, &key).await.expect_status(200);
    assert_eq!((&back["status"], &back["regressed_in"]), (&"regressed".into(), &"2.10".into()));
    world
        .post_json(&format!("{path}/comments"), &key, &json!({"text": "again?\nyes"}))
        .await
        .expect_status(201);
    let activity = world.get(&format!("{path}/activity"), &key).await.expect_status(200);
    assert_eq!(actions(&activity)[..2], ["commented", "regressed"]);
    assert_eq!(
        (&activity["items"][0]["text"], &activity["items"][1]["actor"]),
        (&"again?\nyes".into(), &"indexer".into())
    );
    let first = world.get(&format!("{path}/activity?limit=3"), &key).await.expect_status(200);
    let next = first["next_cursor"].as_str().unwrap();
    let rest = world.get(&format!("{path}/activity?limit=3&cursor={next}"), &key).await.expect_status(200);
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
    let key = world.create_key("acme", &[Scope::ReportsRead, Scope::GroupsWrite]).await;
    let (group, other) = two(&world, &key).await;
    let merge = |target: &str| format!("/v1/groups/{target}/merge");
    let merged = world.post_json(&merge(&group), &key, &json!({"groups": [other]})).await.expect_status(200);
    assert_eq!((&merged["reports"], &merged["merged"][0]["id"]), (&2.into(), &other.as_str().into()));
    assert_eq!(world.get("/v1/groups", &key).await.expect_status(200)["items"].as_array().unwrap().len(), 1);
    let reports = world.get(&format!("/v1/reports?group={group}"), &key).await.expect_status(200);
    assert_eq!(reports["items"].as_array().unwrap().len(), 2);
    let own = world.get(&format!("/v1/groups/{other}"), &key).await.expect_status(200);
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
    let after = world.post_json(&split, &key, &json!({"group": other})).await.expect_status(200);
    assert_eq!(after["reports"], 1);
    world.post_json(&split, &key, &json!({"group": other})).await.expect_problem(400, "invalid-body");
    let activity = world.get(&format!("/v1/groups/{other}/activity"), &key).await.expect_status(200);
    assert_eq!(actions(&activity), ["split_from", "merged_into"]);
    // A key for another app knows neither; one that may only look changes nothing.
    let only = world.key_for("acme", &[Scope::GroupsWrite], Some("com.example.other")).await;
    world
        .post_json(&merge(&group), &only, &json!({"groups": [other]}))
        .await
        .expect_problem(404, "not-found");
    let reader = world.create_key("acme", &[Scope::ReportsRead, Scope::ReportsWrite]).await;
    let refused = world.patch(&format!("/v1/groups/{group}"), &reader, &resolved).await;
    refused.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

#[tokio::test]
async fn a_key_that_may_change_groups_and_read_none_gets_no_content() {
    let world = World::start().await;
    let master = world.create_master_key("acme").await;
    let (group, other) = two(&world, &master).await;
    let key = world.create_key("acme", &[Scope::GroupsWrite]).await;
    let path = format!("/v1/groups/{group}");
    for body in [json!({}), json!({"assignee": "Kim"})] {
        let changed = world.patch(&path, &key, &body).await;
        assert_eq!((changed.status.as_u16(), changed.text.as_str()), (204, ""));
    }
    for (action, body) in [("merge", json!({"groups": [other]})), ("split", json!({"group": other}))] {
        let changed = world.post_json(&format!("{path}/{action}"), &key, &body).await;
        assert_eq!((changed.status.as_u16(), changed.text.as_str()), (204, ""), "{action}");
    }
    assert_eq!(world.get(&path, &master).await.expect_status(200)["assignee"], "Kim");
    world.stop().await;
}

/// Proves: late-symbols
#[tokio::test]
async fn the_id_of_a_replaced_group_reaches_the_group_that_took_its_reports() {
    let world = World::start().await;
    let key = world.create_key("acme", &[Scope::ReportsRead, Scope::GroupsWrite]).await;
    let (old, other) = two(&world, &key).await;
    let path = format!("/v1/groups/{old}");
    world.patch(&path, &key, &json!({"assignee": "Ana", "status": "ignored"})).await.expect_status(200);
    world
        .post_json(&format!("{path}/comments"), &key, &json!({"text": "Who has the dSYM?"}))
        .await
        .expect_status(201);
    store_late(&world, "acme", &crash(A, "1.0"), 7).await;
    let group = world.get(&path, &key).await.expect_status(200);
    let new = group["id"].as_str().unwrap().to_owned();
    assert!(new != old && group["redirected_from"] == old.as_str(), "{group}");
    assert_eq!((&group["assignee"], &group["status"]), (&"Ana".into(), &"ignored".into()));
    assert_eq!((&group["reports"], &group["provisional"]), (&1.into(), &false.into()));
    let own = world.get(&format!("/v1/groups/{new}"), &key).await.expect_status(200);
    assert_eq!((own.get("redirected_from"), &own["title"]), (None, &group["title"]));
    // What is read by the old id.
    let activity = world.get(&format!("{path}/activity"), &key).await.expect_status(200);
    assert_eq!(actions(&activity)[0], "replaced");
    let comment = activity["items"].as_array().unwrap().iter().find(|item| item["action"] == "commented");
    let comment = comment.unwrap();
    assert_eq!(
        (&comment["text"], &comment["moved_from"]),
        (&"Who has the dSYM?".into(), &old.as_str().into())
    );
    let first = world.get(&format!("{path}/activity?limit=1"), &key).await.expect_status(200);
    let next = first["next_cursor"].as_str().unwrap();
    let rest = world.get(&format!("{path}/activity?cursor={next}"), &key).await.expect_status(200);
    assert_eq!([actions(&first), actions(&rest)].concat(), actions(&activity));
    let listed = world.get(&format!("/v1/reports?group={old}"), &key).await.expect_status(200);
    assert_eq!((&listed["items"][0]["id"], &listed["items"][0]["group"]), (&A.into(), &new.as_str().into()));
    let exported = world.get(&format!("/v1/reports?group={old}&format=csv"), &key).await;
    assert!(exported.status.is_success() && exported.text.contains(A), "{}", exported.text);
    // What is changed by the old id.
    let changed = world.patch(&path, &key, &json!({"status": "resolved"})).await.expect_status(200);
    assert_eq!((&changed["id"], &changed["status"]), (&new.as_str().into(), &"resolved".into()));
    world.post_json(&format!("{path}/comments"), &key, &json!({"text": "found"})).await.expect_status(201);
    let merged =
        world.post_json(&format!("{path}/merge"), &key, &json!({"groups": [other]})).await.expect_status(200);
    assert_eq!((&merged["id"], &merged["reports"]), (&new.as_str().into(), &2.into()));
    let split =
        world.post_json(&format!("{path}/split"), &key, &json!({"group": other})).await.expect_status(200);
    assert_eq!((&split["id"], &split["reports"]), (&new.as_str().into(), &1.into()));
    // Others do not learn that it is there.
    let foreign = world.create_key("umbrella", &[Scope::ReportsRead, Scope::GroupsWrite]).await;
    let only =
        world.key_for("acme", &[Scope::ReportsRead, Scope::GroupsWrite], Some("com.example.other")).await;
    for key in [&foreign, &only] {
        world.get(&path, key).await.expect_problem(404, "not-found");
        world.get(&format!("{path}/activity"), key).await.expect_problem(404, "not-found");
        world.patch(&path, key, &json!({"status": "open"})).await.expect_problem(404, "not-found");
        for (action, body) in [("merge", json!({"groups": [other]})), ("split", json!({"group": other}))] {
            let refused = world.post_json(&format!("{path}/{action}"), key, &body).await;
            refused.expect_problem(404, "not-found");
        }
    }
    // A report of it makes it a group of its own again.
    store(&world, "acme", &crash(C, "1.0"), 1, world.host.clock.now()).await;
    let again = world.get(&path, &key).await.expect_status(200);
    assert_eq!((&again["id"], again.get("redirected_from")), (&old.as_str().into(), None));
    world.stop().await;
}

//! The morning's triage: several groups at once, short names, what ends an ignored state, and saved views.

use crate::reports::{A, crash, store};
use crate::signals::sessions;
use crate::world::{Browser, World, encode_form, redirect_location};
use reqwest::StatusCode;
use serde_json::{Value, json};
use unslide_model::Scope;

const B: &str = "22222222-2222-2222-2222-222222222222";
const C: &str = "33333333-3333-3333-3333-333333333333";

/// Two groups of acme: a crash and a hang, as the API lists them.
pub async fn two(world: &World, key: &str) -> [Value; 2] {
    let now = world.host.clock.now();
    store(world, "acme", &crash(A, "1.0"), 1, now).await;
    let mut hang = crash(B, "1.0");
    hang["crash"]["error"]["type"] = "hang".into();
    store(world, "acme", &hang, 1, now).await;
    let group = async |kind: &str| {
        let found = world.get(&format!("/v1/groups?kind={kind}"), key).await.expect_status(200);
        found["items"][0].clone()
    };
    [group("crash").await, group("hang").await]
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap()
}

#[tokio::test]
async fn several_groups_are_changed_with_one_request() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let [one, other] = two(&world, &key).await;
    let (id, short) = (text(&one, "id"), text(&other, "short_id"));
    let change = async |body: Value| world.post_json("/v1/groups/changes", &key, &body).await;
    let assign = json!({"groups": [id, short.to_lowercase(), "SHOP-ZZZZ", C], "change": {"assignee": "Kim"}});
    let answer = change(assign).await.expect_status(200);
    assert_eq!(answer["done"], 2);
    let outcomes: Vec<_> =
        answer["outcomes"].as_array().unwrap().iter().map(|one| text(one, "outcome")).collect();
    assert_eq!(outcomes, ["done", "done", "not_found", "not_found"]);
    assert_eq!((&answer["outcomes"][1]["group"], &answer["outcomes"][2]["id"]), (&other["id"], &Value::Null));
    let mine = world.get("/v1/groups?assignee=Kim", &key).await.expect_status(200);
    assert_eq!(mine["items"].as_array().unwrap().len(), 2);
    let merged = change(json!({"groups": [id, short], "merge": true})).await.expect_status(200);
    assert_eq!(merged["done"], 2);
    assert_eq!(world.get("/v1/groups", &key).await.expect_status(200)["items"].as_array().unwrap().len(), 1);
    for body in [
        json!({"groups": [], "merge": true}),
        json!({"groups": vec![id; 101], "merge": true}),
        json!({"groups": [id]}),
        json!({"groups": [id], "merge": true, "change": {}}),
        json!({"groups": ["shop"], "merge": true}),
        json!({"groups": [id], "change": {"status": "ignored", "ignore_more_reports": 0}}),
    ] {
        change(body).await.expect_problem(400, "invalid-body");
    }
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    let refused =
        world.post_json("/v1/groups/changes", &reader, &json!({"groups": [id], "merge": true})).await;
    refused.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

#[tokio::test]
async fn a_group_is_named_by_its_short_id_everywhere() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let [group, _] = two(&world, &key).await;
    let (id, short) = (text(&group, "id"), text(&group, "short_id"));
    assert!(short.starts_with("SHOP-"), "{short}");
    let path = format!("/v1/groups/{}", short.to_lowercase());
    assert_eq!(world.get(&path, &key).await.expect_status(200)["id"], id);
    let ticket = json!({"ticket_url": "https://tickets.example.com/SHOP-17"});
    let changed = world.patch(&path, &key, &ticket).await.expect_status(200);
    assert_eq!(changed["ticket_url"], ticket["ticket_url"]);
    world.post_json(&format!("{path}/comments"), &key, &json!({"text": "a"})).await.expect_status(201);
    let activity = world.get(&format!("{path}/activity"), &key).await.expect_status(200);
    assert_eq!(activity["items"].as_array().unwrap().len(), 2);
    for nothing in ["/v1/groups/SHOP-ZZZZ", "/v1/groups/SHOP-ZZZZ/activity"] {
        world.get(nothing, &key).await.expect_problem(404, "not-found");
    }
    world.get("/v1/groups/nothing", &key).await.expect_problem(400, "invalid-parameter");
    let stranger = world.create_master_key("umbrella").await;
    world.get(&path, &stranger).await.expect_problem(404, "not-found");
    let browser = Browser::signed_in(&world, &key).await;
    let page = format!("/console/groups/{id}");
    let leads_to = async |path: &str| {
        let answer = browser.get(path).await;
        assert_eq!(answer.status, StatusCode::TEMPORARY_REDIRECT, "{path}: {}", answer.text);
        answer.headers["location"].to_str().unwrap().to_owned()
    };
    assert_eq!(leads_to(&format!("/console/groups/{short}")).await, page);
    assert_eq!(
        redirect_location(&browser.get(&format!("/console/search?q={}", short.to_lowercase())).await),
        page
    );
    assert_eq!(leads_to(&format!("/groups/{short}")).await, format!("/console/groups/{short}"));
    let address = format!("https://crashes.example.com/groups/{short}");
    let found = world.get(&format!("/v1/search?{}", encode_form(&[("q", &address)])), &key).await;
    assert_eq!(found.expect_status(200)["items"][0]["id"], id);
    let shown = browser.fetch_page(&page).await;
    assert!(shown.contains(short) && shown.contains("https://tickets.example.com/SHOP-17"), "{shown}");
    world.stop().await;
}

#[tokio::test]
async fn lists_and_merges_take_short_ids_and_addresses() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let [one, other] = two(&world, &key).await;
    let (id, short, other_short) = (text(&one, "id"), text(&one, "short_id"), text(&other, "short_id"));
    let address = format!("http://127.0.0.1:8080/groups/{other_short}");
    let count = async |path: &str, name: &str, value: &str| {
        let path = format!("{path}?{}", encode_form(&[(name, value)]));
        world.get(&path, &key).await.expect_status(200)["items"].as_array().unwrap().len()
    };
    for (path, name) in [("/v1/reports", "group"), ("/v1/reports", "q"), ("/v1/groups", "q")] {
        for value in [short, &short.to_lowercase(), id, &address] {
            assert_eq!(count(path, name, value).await, 1, "{path} {name}={value}");
        }
        assert_eq!(count(path, name, "SHOP-ZZZZ").await, 0);
    }
    let problem = world.get("/v1/reports?group=nothing", &key).await;
    let problem = problem.expect_problem(400, "invalid-parameter");
    assert!(problem.contains("group: \"nothing\" names no group"), "{problem}");

    let merged = json!({ "groups": [other_short] });
    world.post_json(&format!("/v1/groups/{short}/merge"), &key, &merged).await.expect_status(200);
    let split = json!({ "group": address });
    world.post_json(&format!("/v1/groups/{short}/split"), &key, &split).await.expect_status(200);
    let unknown =
        world.post_json(&format!("/v1/groups/{id}/merge"), &key, &json!({"groups": ["SHOP-ZZZZ"]})).await;
    assert_eq!(unknown.expect_problem(400, "invalid-body"), "there is no group SHOP-ZZZZ");
    let browser = Browser::signed_in(&world, &key).await;
    let sent =
        browser.post(&format!("/console/groups/{id}/merge"), encode_form(&[("group", &address)])).await;
    assert_eq!(redirect_location(&sent), format!("/console/groups/{id}#activity"), "{}", sent.text);
    assert_eq!(world.get("/v1/groups", &key).await.expect_status(200)["items"].as_array().unwrap().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_group_has_its_share_of_sessions() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let [group, _] = two(&world, &key).await;
    let path = format!("/v1/groups/{}", text(&group, "id"));
    let before = world.get(&path, &key).await.expect_status(200);
    assert_eq!(before["share"], Value::Null);
    assert_eq!(before["variants"][0]["reports"], 1);
    sessions::store(&world, "acme", &["s1", "s2", "s3", "s4"].map(|id| sessions::now(&world, id))).await;
    let share = world.get(&path, &key).await.expect_status(200)["share"].clone();
    assert_eq!((&share["reports"], &share["sessions"]), (&1.into(), &4.into()), "{share}");
    let page = Browser::signed_in(&world, &key).await.fetch_page(&path.replace("/v1", "/console")).await;
    assert!(page.contains("25 % of 4 sessions"), "{page}");
    world.stop().await;
}

#[tokio::test]
async fn a_team_triages_a_list_by_forms() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let [one, other] = two(&world, &key).await;
    let (one, other) = (text(&one, "id"), text(&other, "id"));
    let browser = Browser::signed_in(&world, &key).await;
    let page = browser.fetch_page("/console/groups").await;
    assert_eq!(page.matches("type=\"checkbox\" name=\"group\"").count(), 2, "{page}");
    let send = async |fields: &[(&str, &str)]| {
        let fields =
            [&[("group", one), ("group", other), ("back", "/console/groups?status=all")][..], fields]
                .concat();
        let answer = browser.post("/console/groups/changes", encode_form(&fields)).await;
        let back = redirect_location(&answer);
        assert!(back.starts_with("/console/groups?status=all&changed=2"), "{back}: {}", answer.text);
        browser.fetch_page(back).await
    };
    // The session's name is Robin.
    let page = send(&[("assign", "1"), ("assignee", "Robin"), ("resolved_in", "9.9")]).await;
    assert!(page.contains("2 groups were changed"), "{page}");
    let listed =
        async |query: &str| browser.fetch_page(&format!("/console/groups{query}")).await.contains(one);
    assert!(listed("?assigned=me").await && !listed("?assigned=none").await);
    let page = send(&[("status", "ignored"), ("more_reports", "5"), ("assignee", "")]).await;
    assert!(page.contains("ignored until 6 reports") && page.contains("assigned to Robin"), "{page}");
    let page = send(&[("resolved_in_next", "1")]).await;
    assert!(page.contains("resolved after 1.0"), "{page}");
    send(&[("merge", "1")]).await;
    let fields = [("group", one), ("group", other), ("group", C), ("status", "open")];
    let answer = browser.post("/console/groups/changes", encode_form(&fields)).await;
    assert_eq!(answer.status, StatusCode::OK);
    for shown in ["1 of 3 groups were changed", "is merged into group", "there is no such group"] {
        assert!(answer.text.contains(shown), "{shown}: {}", answer.text);
    }
    let none = browser.post("/console/groups/changes", encode_form(&[("status", "open")])).await;
    assert!(
        none.status == StatusCode::BAD_REQUEST && none.text.contains("no group was chosen"),
        "{}",
        none.text
    );
    world.stop().await;
}

#[tokio::test]
async fn a_filter_is_saved_as_a_view() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let [group, _] = two(&world, &key).await;
    let browser = Browser::signed_in(&world, &key).await;
    let fields = [("name", "Crashes <of> mine"), ("kind", "crash"), ("assigned", "none"), ("shared", "1")];
    let saved = browser.post("/console/groups/views", encode_form(&fields)).await;
    let address = redirect_location(&saved);
    assert_eq!(address, "/console/groups?kind=crash&assigned=none");
    let page = browser.fetch_page(address).await;
    assert!(page.contains("Crashes &#60;of&#62; mine") && page.contains(text(&group, "id")), "{page}");
    let views = async |key: &str| world.get("/v1/group-views", key).await.expect_status(200)["items"].clone();
    let view = views(&key).await[0].clone();
    assert_eq!(view["filter"], json!({"kind": "crash", "status": "open,regressed", "assignee": ""}));
    let path = format!("/console/groups/views/{}", text(&view, "id"));
    browser.post(&path, encode_form(&[("name", "Crashes")])).await;
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    assert_eq!(views(&reader).await[0]["name"], "Crashes");
    // A key that may not change groups keeps views of its own, and leaves those of the tenant.
    let shared = json!({"name": "all", "shared": true});
    world.post_json("/v1/group-views", &reader, &shared).await.expect_problem(403, "insufficient-scope");
    let of_tenant = format!("/v1/group-views/{}", text(&view, "id"));
    world.delete(&of_tenant, &reader).await.expect_problem(403, "insufficient-scope");
    world.post_json("/v1/group-views", &reader, &json!({"name": "all"})).await.expect_status(201);
    world
        .post_json("/v1/group-views", &reader, &json!({"name": "all"}))
        .await
        .expect_problem(409, "conflict");
    assert_eq!(
        (views(&reader).await.as_array().unwrap().len(), views(&key).await.as_array().unwrap().len()),
        (2, 1)
    );
    for filter in [
        json!({"days": 0}),
        json!({"sort": "size"}),
        json!({"status": "closed"}),
        json!({"q": "ab"}),
        json!({"assignee": "Kim", "assigned_to_me": true}),
        json!({"cursor": "x"}),
    ] {
        let refused = world.post_json("/v1/group-views", &key, &json!({"name": "x", "filter": filter})).await;
        refused.expect_problem(400, "invalid-body");
    }
    browser.post(&format!("{path}/delete"), String::new()).await;
    assert_eq!(views(&key).await, json!([]));
    world.stop().await;
}

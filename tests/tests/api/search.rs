//! `GET /v1/search`, its page, and the switch for ids of persons.

use crate::reports::{A, B, crash, hang, store};
use crate::signals::sessions;
use crate::world::{Browser, World, encode_form, list_links, redirect_location};
use reqwest::Method;
use serde_json::{Value, json};
use unslide_model::Scope;

const RUN: &str = "77777777-7777-7777-7777-777777777777";
const SHOP: &str = "com.example.shop";

/// A report of a device in a session of a user, and one of another device.
async fn fill(world: &World) {
    let now = world.host.clock.now();
    let mut first = crash(A, "1.0");
    first["system"]["device_app_hash"] = "device 1".into();
    first["report"]["run_id"] = RUN.into();
    store(world, "acme", &first, 1, now).await;
    store(world, "acme", &hang(B, "2.0-beta", 900), 1, now).await;
    let mut session = sessions::now(world, RUN);
    session["user"] = "customer 4711".into();
    session["end_reason"] = "crashed".into();
    sessions::store(world, "acme", &[session]).await;
}

/// Kind, id and field of each match.
fn matches(found: &Value) -> Vec<(&str, &str, &str)> {
    let items = found["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let text = |name: &str| item[name].as_str().unwrap();
            (text("kind"), text("id"), text("found_by"))
        })
        .collect()
}

async fn search(world: &World, key: &str, text: &str) -> Value {
    let query = encode_form(&[("q", text)]);
    world.get(&format!("/v1/search?{query}"), key).await.expect_status(200)
}

async fn switch(world: &World, key: &str, enabled: bool) {
    let body = json!({ "enabled": enabled }).to_string();
    let request = world.request(Method::PUT, "/v1/person-search", key).body(body);
    assert_eq!(world.send(request).await.expect_status(200)["enabled"], enabled);
}

#[tokio::test]
async fn names_and_ids_are_found_by_the_keys_that_see_them() {
    let world = World::start().await;
    fill(&world).await;
    let key = world.create_master_key("acme").await;
    let by_id = search(&world, &key, &A.to_uppercase()).await;
    assert_eq!(matches(&by_id), [("report", A, "id")]);
    assert_eq!(by_id["items"][0]["page"], format!("/console/reports/{A}"));
    let app = search(&world, &key, "EXAMPLE.shop").await;
    assert_eq!(matches(&app), [("app", SHOP, "name")]);
    let version = search(&world, &key, "2.0").await;
    assert_eq!(matches(&version), [("version", "2.0-beta", "name")]);
    let title = world.get("/v1/groups?kind=hang", &key).await.expect_status(200);
    let group = title["items"][0]["id"].as_str().unwrap();
    let title = title["items"][0]["title"].as_str().unwrap().to_owned();
    let found = search(&world, &key, &title).await;
    assert!(matches(&found).contains(&("group", group, "text")), "{found}");
    assert_eq!(matches(&search(&world, &key, RUN).await), [("report", A, "session")]);
    for text in ["", " ", &"x".repeat(401)] {
        let query = encode_form(&[("q", text)]);
        world.get(&format!("/v1/search?{query}"), &key).await.expect_problem(400, "invalid-parameter");
    }
    let strangers = [
        world.create_master_key("umbrella").await,
        world.key_for("acme", &Scope::ALL, Some("com.example.other")).await,
    ];
    for (stranger, text) in
        strangers.iter().flat_map(|stranger| [A, "shop", "2.0", &title, RUN].map(|text| (stranger, text)))
    {
        assert_eq!(matches(&search(&world, stranger, text).await), [], "{text}");
    }
    world.stop().await;
}

#[tokio::test]
async fn ids_of_persons_are_searched_if_the_tenant_allows_it() {
    let world = World::start().await;
    fill(&world).await;
    let key = world.create_master_key("acme").await;
    let other = world.create_master_key("umbrella").await;
    switch(&world, &other, true).await;
    for id in ["device 1", "customer 4711", &format!("of {RUN}")] {
        let found = search(&world, &key, id).await;
        assert_eq!((matches(&found), &found["person_search"]), (vec![], &json!(false)), "{id}");
    }
    switch(&world, &key, true).await;
    assert_eq!(matches(&search(&world, &key, "device 1").await), [("report", A, "device")]);
    for (id, field) in [("customer 4711".to_owned(), "user"), (format!("of {RUN}"), "installation")] {
        let found = search(&world, &key, &id).await;
        assert_eq!(matches(&found), [("report", A, field), ("session", RUN, field)], "{id}");
    }
    // Neither another tenant nor a key for another app finds them, nor a part of an id.
    let other_app = world.key_for("acme", &Scope::ALL, Some("com.example.other")).await;
    for (key, id) in [(&other, "device 1"), (&other_app, "customer 4711"), (&key, "customer 471")] {
        assert_eq!(matches(&search(&world, key, id).await), [], "{id}");
    }
    // A key for one app does not decide for all.
    let one_app = world.key_for("acme", &Scope::ALL, Some(SHOP)).await;
    world.get("/v1/person-search", &one_app).await.expect_problem(403, "insufficient-scope");
    let log = world.get("/v1/audit-log", &key).await.expect_status(200);
    assert_eq!(log["items"][0]["action"], "person_search.set", "{log}");
    switch(&world, &key, false).await;
    assert_eq!(matches(&search(&world, &key, "device 1").await), []);
    world.stop().await;
}

#[tokio::test]
async fn the_page_lists_matches_and_the_settings_turn_on_persons() {
    let world = World::start().await;
    fill(&world).await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let page = browser.fetch_page("/console/search?q=shop").await;
    for words in ["<h2>Apps</h2>", SHOP, "Ids of devices, installations and users are not searched"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(list_links(&page).contains(&format!("/console?app={SHOP}")), "{page}");
    let form = encode_form(&[("enabled", "on")]);
    let saved = browser.post("/console/settings/person-search", form).await;
    assert_eq!(redirect_location(&saved), "/console/settings#person-search");
    let page = browser.fetch_page("/console/search?q=customer+4711").await;
    for words in ["<h2>Reports</h2>", "<h2>Sessions</h2>", "found by the id of the user"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    for link in [format!("/console/reports/{A}"), format!("/console/sessions/{RUN}?app={SHOP}")] {
        assert!(list_links(&page).contains(&link), "{link}: {page}");
        browser.fetch_page(&link).await;
    }
    let page = browser.fetch_page("/console/search?q=ab").await;
    assert!(page.contains("Nothing matches <b>ab</b>"), "a short text is no error: {page}");
    world.stop().await;
}

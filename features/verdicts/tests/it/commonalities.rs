//! What the devices with a bug have in common: the operation, and the section of the group's page.

use crate::verdicts::counted_world::{CountedWorld, Machine};
use serde_json::{Value, json};
use unslide_model::Scope;
use unslide_world::Browser;

const OLD: Machine = Machine { model: "iPhone14,2", system: "17.0" };
const NEW: Machine = Machine { model: "iPhone16,1", system: "18.1.1" };

async fn compare(world: &CountedWorld, group: impl std::fmt::Display) -> Value {
    world.get(&format!("/v1/groups/{group}/commonalities"), &world.key).await.expect_status(200)
}

#[tokio::test]
async fn a_system_that_stands_out_is_named_with_its_share_of_all_installations() {
    let world = CountedWorld::start().await;
    let group = world.store_crashes("2.4.1", 2, OLD, 40).await;
    let found = compare(&world, group).await;
    assert!(found["hint"].as_str().unwrap().starts_with("Too few sessions"), "{found}");
    world.store_installations("2.4.1", 2, OLD, 60).await;
    world.store_installations("2.4.1", 2, NEW, 140).await;
    // Neither another version nor another day counts.
    world.store_installations("2.4.0", 2, OLD, 500).await;
    world.store_installations("2.4.1", 9, OLD, 500).await;
    let found = compare(&world, group).await;
    let shown = (&found["version"], &found["crashed"], &found["installations"]);
    assert_eq!(shown, (&json!("2.4.1"), &json!(40), &json!(200)), "{found}");
    let texts: Vec<&str> =
        found["values"].as_array().unwrap().iter().map(|value| value["text"].as_str().unwrap()).collect();
    let expected = [
        "model iPhone14,2: 40 of 40, of all installations 30 %",
        "system iOS 17.0: 40 of 40, of all installations 30 %",
    ];
    assert_eq!(texts, expected);
    let reason = "sessions do not carry flags: send `flags` with a session";
    let flags = json!({"name": "flags, own keys and locale", "reason": reason});
    assert!(found["not_compared"].as_array().unwrap().contains(&flags), "{found}");
    let browser = Browser::signed_in(&world, &world.key).await;
    let path = format!("/console/commonalities?group={group}");
    let page = browser.fetch_page(&format!("/console/groups/{group}")).await;
    assert!(page.contains("What do they have in common?") && page.contains(&path), "{page}");
    let page = browser.fetch_page(&path).await;
    for words in
        ["system: iOS 17.0", "40 of 40", "30 %", "beside 200 installations", "sessions do not carry flags"]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
    // A group without a value that stands out says so.
    world.store_crashes("2.4.1", 2, NEW, 100).await;
    let found = compare(&world, group).await;
    assert_eq!((&found["crashed"], &found["values"]), (&json!(140), &json!([])), "{found}");
    world.stop().await;
}

#[tokio::test]
async fn a_bug_of_few_devices_is_not_compared() {
    let world = CountedWorld::start().await;
    let group = world.store_crashes("2.4.1", 2, OLD, 4).await;
    world.store_installations("2.4.1", 2, NEW, 200).await;
    let found = compare(&world, group).await;
    assert!(found["hint"].as_str().unwrap().starts_with("Fewer than 5 devices"), "{found}");
    world.stop().await;
}

#[tokio::test]
async fn a_flag_that_stands_out_is_named_beside_sessions_that_carry_flags() {
    let world = CountedWorld::start().await;
    let keys = json!({"checkout_v2": "true", "plan": "pro", "screen": "cart"});
    let group = world.store_keyed("2.4.1", 2, (OLD, &keys), 40).await;
    world.store_flagged("2.4.1", 2, (OLD, &json!({"checkout_v2": true, "plan": "pro"})), 62).await;
    world.store_flagged("2.4.1", 2, (OLD, &json!({"plan": "pro"})), 118).await;
    world.store_flagged("2.4.1", 2, (OLD, &json!({})), 20).await;
    let found = compare(&world, group).await;
    let value = &found["values"][0];
    assert_eq!(value["text"], "flag checkout_v2: 40 of 40, of all installations 31 %", "{found}");
    assert_eq!((&value["fact"], &value["name"]), (&json!("flag"), &json!("checkout_v2")), "{found}");
    assert_eq!(found["values"].as_array().unwrap().len(), 1, "{found}");
    let screen = &found["not_compared"][0];
    assert_eq!(screen["name"], "screen", "{found}");
    assert!(screen["reason"].as_str().unwrap().starts_with("reports have it as an own key"), "{found}");
    // One in ten installations may be without flags, and no more.
    world.store_installations("2.4.1", 2, OLD, 22).await;
    let found = compare(&world, group).await;
    assert_eq!((&found["installations"], &found["values"][0]["all"]), (&json!(222), &json!(200)), "{found}");
    world.store_installations("2.4.1", 2, OLD, 23).await;
    let found = compare(&world, group).await;
    assert_eq!(found["values"], json!([]), "{found}");
    let reason = found["not_compared"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("fewer than nine of ten"), "{found}");
    // The group of another tenant looks as one that is not there.
    let foreign = world.create_key("umbrella", &[Scope::ReportsRead]).await;
    let hidden = world.get(&format!("/v1/groups/{group}/commonalities"), &foreign).await;
    hidden.expect_problem(404, "not-found");
    world.stop().await;
}

#[tokio::test]
async fn a_flag_with_a_value_for_each_installation_is_not_compared() {
    let world = CountedWorld::start().await;
    let group = world.store_keyed("2.4.1", 2, (OLD, &json!({"cart": "0"})), 40).await;
    for cart in 0..51 {
        world.store_flagged("2.4.1", 2, (OLD, &json!({"cart": cart})), 2).await;
    }
    let found = compare(&world, group).await;
    assert_eq!(found["values"], json!([]), "{found}");
    let cart = json!({"name": "cart", "reason": "it has more than 50 values, as an id does"});
    assert!(found["not_compared"].as_array().unwrap().contains(&cart), "{found}");
    world.stop().await;
}

//! What the devices with a bug have in common: the operation, and the section of the group's page.

use crate::counted_world::{CountedWorld, Machine};
use serde_json::{Value, json};
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
    assert!(found["not_compared"].as_array().unwrap().contains(&json!("own keys")), "{found}");
    let browser = Browser::signed_in(&world, &world.key).await;
    let page = browser.fetch_page(&format!("/console/groups/{group}")).await;
    for words in ["What they have in common", "system: iOS 17.0", "40 of 40", "of all installations 30 %"] {
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

//! The operations and the page.

use serde_json::json;
use unslide_model::Scope;
use unslide_world::{Browser, World, encode_form, redirect_location};

async fn start() -> World {
    let features = [unslide_person_erasure::feature(), unslide_console::feature()];
    World::start(unslide_feature::for_api(&features), |_| {}).await
}

#[tokio::test]
async fn an_erasure_is_requested_on_the_page_and_shown_without_the_id() {
    let world = start().await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let path = "/console/person-erasures";
    assert!(browser.fetch_page(path).await.contains("No person was erased yet"));
    let count = encode_form(&[("kind", "installation"), ("id", "robin's phone"), ("count", "true")]);
    let counted = browser.post(path, count).await;
    assert_eq!(counted.status, 200, "{}", counted.text);
    assert!(counted.text.contains("An erasure would remove nothing."), "{}", counted.text);
    assert!(counted.text.contains("value=\"installation\" selected"), "the form keeps the person");
    assert!(browser.fetch_page(path).await.contains("No person was erased yet"), "a count erases nothing");
    let unsure = browser.post(path, encode_form(&[("kind", "user"), ("id", "robin")])).await;
    assert_eq!(unsure.status, 400, "{}", unsure.text);
    let form = encode_form(&[("kind", "user"), ("id", "robin"), ("sure", "true")]);
    assert_eq!(redirect_location(&browser.post(path, form).await), path);
    let page = browser.fetch_page(path).await;
    assert!(page.contains("searching") && page.contains("nothing") && !page.contains("robin"), "{page}");
    world.stop().await;
}

#[tokio::test]
async fn only_an_administrator_of_every_app_erases_a_person() {
    let world = start().await;
    let new = json!({"kind": "installation", "id": "phone"});
    let path = "/v1/person-erasures";
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    world.post_json(path, &reader, &new).await.expect_problem(403, "insufficient-scope");
    let narrow = world.key_for("acme", &Scope::ALL, Some("com.example.shop")).await;
    world.post_json(path, &narrow, &new).await.expect_problem(403, "insufficient-scope");
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    for wrong in
        [json!({"kind": "phone", "id": "x"}), json!({"kind": "user", "id": ""}), json!({"kind": "user"})]
    {
        world.post_json(path, &admin, &wrong).await.expect_problem(400, "invalid-body");
    }
    let dry_run = json!({"kind": "installation", "id": "phone", "dry_run": true});
    let counted = world.post_json(path, &admin, &dry_run).await.expect_status(200);
    assert_eq!(counted, json!({"would_remove": {}, "complete": true}));
    assert_eq!(world.number("SELECT count(*) FROM person_erasures").await, 0);
    let erasure = world.post_json(path, &admin, &new).await.expect_status(202);
    let own = format!("{path}/{}", erasure["id"].as_str().unwrap());
    assert_eq!(world.get(&own, &admin).await.expect_status(200)["state"], "searching");
    let foreign = world.create_key("umbrella", &[Scope::TenantAdmin]).await;
    world.get(&own, &foreign).await.expect_problem(404, "not-found");
    world.stop().await;
}

//! An api without the console.

use reqwest::StatusCode;
use unslide_api::ApiFeatures;
use unslide_world::World;

#[tokio::test]
async fn without_the_console_the_api_answers_and_its_first_page_is_the_documentation() {
    let world = World::start(ApiFeatures::default(), |_| {}).await;
    let key = world.create_master_key("acme").await;
    assert_eq!(world.get("/v1/reports", &key).await.status, StatusCode::OK);
    world.get("/console", "").await.expect_problem(404, "not-found");
    world.get("/console/sign-in", "").await.expect_problem(404, "not-found");
    let first_page = world.get("/", "").await;
    assert_eq!(first_page.status, StatusCode::OK, "redirects are followed");
    assert_eq!(first_page.text, world.get("/docs", "").await.text);
    world.stop().await;
}

#[tokio::test]
async fn the_first_page_of_an_api_with_the_console_is_the_console() {
    let world = crate::console::start().await;
    assert!(world.get("/", "").await.text.contains("Sign in"), "redirects are followed");
    world.stop().await;
}

//! Lists as files, of an api with this feature and the console.

use unslide_world::{Browser, World, list_links};

#[tokio::test]
async fn pages_link_to_their_lists_as_files() {
    let features = unslide_feature::for_api(&[unslide_export::feature(), unslide_console::feature()]);
    let world = World::start(features, |_| {}).await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let page = browser.get("/console/reports?status=partial").await.text;
    let link = "/console/export/reports?status=partial";
    assert!(list_links(&page).iter().any(|found| found == link) && page.contains("Export CSV"), "{page}");
    let file = browser.get(link).await;
    assert_eq!(file.headers["content-disposition"], "attachment; filename=\"reports.csv\"");
    assert!(file.text.starts_with("id,variant,revision,"), "{}", file.text);
    let signed_out = world.get("/console/export/reports", "").await;
    assert!(!signed_out.headers.contains_key("content-disposition"), "{}", signed_out.text);
    world.stop().await;
}

#[tokio::test]
async fn without_the_feature_a_list_has_no_other_form() {
    let world = World::start(unslide_feature::for_api(&[unslide_console::feature()]), |_| {}).await;
    let key = world.create_master_key("acme").await;
    world.get("/v1/reports?format=csv", &key).await.expect_problem(400, "invalid-parameter");
    let csv = world.request(reqwest::Method::GET, "/v1/reports", &key).header("accept", "text/csv");
    assert_eq!(world.send(csv).await.headers["content-type"], "application/json");
    world.get("/v1/events", &key).await.expect_problem(404, "not-found");
    let browser = Browser::signed_in(&world, &key).await;
    let page = browser.get("/console/reports").await.text;
    assert!(!page.contains("export") && !page.contains("CSV"), "{page}");
    assert_eq!(browser.get("/console/export/reports").await.status, 404);
    world.stop().await;
}

//! The page of uploaders.

use crate::uploaders::world::APP;
use unslide_model::Scope;
use unslide_uploaders::Config;
use unslide_world::{Browser, World, encode_form};

const PAGE: &str = "/console/uploaders";

#[tokio::test]
async fn a_key_is_made_with_the_lines_of_every_client_and_shown_once() {
    let features = unslide_feature::for_api(&[
        unslide_uploaders::feature(Config::default()),
        unslide_console::feature(),
    ]);
    let world = World::start(features, |_| {}).await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let page = browser.fetch_page(PAGE).await;
    assert!(page.contains("datadog-ci") && page.contains(&format!("UNSLIDE_URL={}", world.url)), "{page}");

    let form = encode_form(&[("name", "build <b>"), ("app", APP)]);
    let made = browser.post(PAGE, form).await.text;
    let key = made.split("data-copy=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert!(made.contains("build &#60;b&#62;") && key.starts_with("unslide_"), "{made}");
    for line in [
        format!("UNSLIDE_API_KEY={key}"),
        format!("DATADOG_API_KEY={key}"),
        format!("SENTRY_PROJECT={APP}"),
        format!("bugsnag-cli upload xcode-archive --api-key {key}"),
    ] {
        assert!(made.contains(&line), "{line}: {made}");
    }
    let token = made.split("SENTRY_AUTH_TOKEN=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let options = "/api/0/organizations/acme/chunk-upload/";
    for credential in [key, token] {
        world.get(options, credential).await.expect_status(200);
    }
    let page = browser.fetch_page(PAGE).await;
    assert!(page.contains("build &#60;b&#62;") && page.contains(APP) && !page.contains(key), "{page}");

    // An administrator that does not upload sees the page, and makes no such key.
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let browser = Browser::signed_in(&world, &admin).await;
    assert!(!browser.fetch_page(PAGE).await.contains("<form class=\"sheet wide\""));
    let refused = browser.post(PAGE, encode_form(&[("name", "x")])).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    world.stop().await;
}

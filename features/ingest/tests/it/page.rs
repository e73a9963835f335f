//! The page of public keys.

use crate::ingest::ingest_api::start;
use reqwest::StatusCode;
use unslide_world::{Browser, encode_form, list_links, redirect_location};

#[tokio::test]
async fn a_key_is_made_shown_again_and_closed_on_the_page() {
    let world = start().await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    assert!(browser.fetch_page("/console/public-keys").await.contains("There are no public keys yet"));
    let new = encode_form(&[("name", "shop <b>"), ("apps", "com.example.shop, com.example.shop.*")]);
    assert_eq!(redirect_location(&browser.post("/console/public-keys", new).await), "/console/public-keys");
    let page = browser.fetch_page("/console/public-keys").await;
    assert!(
        page.contains("shop &#60;b&#62;") && page.contains("com.example.shop, com.example.shop.*"),
        "{page}"
    );
    let url = format!("{}/i/usp_", world.url);
    assert!(page.matches(&url).count() >= 5, "{page}");
    assert!(page.contains("reportCleanupPolicy = .onSuccess"), "{page}");
    let action =
        |page: &str, name: &str| list_links(page).into_iter().find(|link| link.ends_with(name)).unwrap();
    browser.submit_form(&action(&page, "/retire")).await;
    let close = action(&page, "/close");
    let refused = browser.post(&close, encode_form(&[("id", "other")])).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let id = close.split('/').nth(3).unwrap().to_owned();
    assert_eq!(
        redirect_location(&browser.post(&close, encode_form(&[("id", &id)])).await),
        "/console/public-keys"
    );
    let page = browser.fetch_page("/console/public-keys").await;
    assert!(page.contains("</span> closed</span>"), "{page}");
    browser.submit_form(&action(&page, "/activate")).await;
    world.stop().await;
}

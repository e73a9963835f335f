//! The way from page to page of the console: what a key may open, what stays chosen, and names of which there are many.

use crate::reports::{A, crash, store};
use crate::world::{Browser, World, encode_form, list_links, redirect_location};
use serde_json::{Value, json};
use unslide_model::Scope;

const SHOP: &str = "com.example.shop";

#[tokio::test]
async fn the_side_bar_has_the_pages_that_a_key_may_open() {
    let world = World::start().await;
    let symbols = world.create_key("acme", &[Scope::SymbolsRead]).await;
    let signed_in = Browser::new(&world).sign_in(&symbols, "").await;
    assert_eq!(redirect_location(&signed_in), "/console/symbols", "no refusal is the first page");
    let browser = Browser::signed_in(&world, &symbols).await;
    let links = list_links(&browser.fetch_page("/console/symbols").await);
    for (link, is_there) in [("/console/symbols", true), ("/console/groups", false), ("/console/keys", false)]
    {
        assert_eq!(links.contains(link), is_there, "{link}: {links:?}");
    }
    let scopes = [Scope::ReportsRead, Scope::TenantAdmin, Scope::Operator];
    let one_app = world.key_for("acme", &scopes, Some(SHOP)).await;
    let browser = Browser::signed_in(&world, &one_app).await;
    let page = browser.fetch_page("/console").await;
    let side = page.split_once("aria-label=\"Pages\"").unwrap().1.split_once("</nav>").unwrap().0;
    let labels = ["Overview", "Groups", "Health", "Versions", "Reports", "Alerts", "Settings"];
    let places = labels.map(|label| side.find(&format!(">{label}</a>")).unwrap());
    assert!(places.is_sorted(), "by use: {side}");
    let links = list_links(&page);
    for (link, is_there) in [
        ("/console/groups", true),
        ("/console/keys", true),
        ("/console/audit-log", false),
        ("/console/dead-letters", false),
        ("/console/tenants", false),
    ] {
        assert_eq!(links.contains(link), is_there, "{link}: {links:?}");
    }
    let is_page = |link: &&String| {
        link.starts_with("/console")
            && ["/assets/", "/export/", "sign-out"].iter().all(|part| !link.contains(part))
    };
    for link in links.iter().filter(is_page) {
        browser.fetch_page(link).await;
    }
    world.stop().await;
}

#[tokio::test]
async fn the_chosen_app_and_version_stay() {
    let world = World::start().await;
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::signed_in(&world, &key).await;
    let chosen = format!("app={SHOP}&version=1.0");
    let links = list_links(&browser.fetch_page(&format!("/console/groups?{chosen}&sort=reports")).await);
    for page in ["/console", "/console/reports", "/console/versions", "/console/health", "/console/symbols"] {
        assert!(links.contains(&format!("{page}?{chosen}")), "{page}: {links:?}");
    }
    assert!(links.contains("/console/keys"), "a page of the tenant has no app: {links:?}");
    let group = links.iter().find(|link| link.starts_with("/console/groups/") && link.contains('?')).unwrap();
    assert!(group.ends_with(&format!("?{chosen}")), "{group}");
    let links = list_links(&browser.fetch_page(group).await);
    assert!(links.contains(&format!("/console/groups?{chosen}")), "the way back: {links:?}");
    world.stop().await;
}

#[tokio::test]
async fn any_number_of_apps_and_versions_can_be_chosen() {
    let world = World::start().await;
    let now = world.host.clock.now();
    for n in 0..55_u32 {
        let mut report = crash(&format!("{n:08x}-1111-1111-1111-111111111111"), &format!("3.{n}"));
        report["system"]["CFBundleIdentifier"] = format!("com.example.app{n:02}").into();
        store(&world, "acme", &report, 1, now).await;
    }
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let page = browser.fetch_page("/console/reports").await;
    for field in ["app", "version"] {
        let path = format!("data-suggestions=\"/console/suggestions?field={field}\"");
        assert!(page.contains(&path), "{path}: {page}");
    }
    let suggested = async |field: &str, text: &str, app: &str| -> Value {
        let query = encode_form(&[("field", field), ("text", text), ("app", app)]);
        browser.get(&format!("/console/suggestions?{query}")).await.expect_status(200)
    };
    assert_eq!(suggested("app", "APP07", "").await, json!(["com.example.app07"]));
    assert_eq!(suggested("version", "3.7", "").await, json!(["3.7"]));
    assert_eq!(suggested("version", "3", "com.example.app07").await, json!(["3.7"]));
    assert_eq!(suggested("app", "%", "").await, json!([]));
    assert_eq!(browser.get("/console/suggestions?field=secret&text=a").await.status, 400);
    let chosen = browser.fetch_page("/console/reports?app=com.example.app07").await;
    assert!(
        chosen.contains("value=\"com.example.app07\"") && chosen.contains("data-total=\"1\""),
        "{chosen}"
    );
    let only = world.key_for("acme", &[Scope::ReportsRead], Some("com.example.app01")).await;
    let only = Browser::signed_in(&world, &only).await;
    let found = only.get("/console/suggestions?field=app&text=com").await.expect_status(200);
    assert_eq!(found, json!(["com.example.app01"]));
    world.stop().await;
}

//! Pages: the changed functions of a group, of a version, and between two builds.

use crate::changes::changes_world::{APP, ChangesWorld};
use unslide_world::Browser;

#[tokio::test]
async fn a_developer_gets_from_the_group_to_the_function_that_changed() {
    let world = ChangesWorld::start().await;
    let browser = Browser::signed_in(&world, &world.key).await;
    let [before, after] = &world.builds;
    world.store_report(1, "2.4.0", before).await;
    let group = world.store_report(2, "2.4.1", after).await;
    let path = format!("/console/changes?group={group}");
    let page = browser.fetch_page(&format!("/console/groups/{group}")).await;
    assert!(page.contains("What changed in the code?") && page.contains(&path), "{page}");
    // Without symbols the page says what is missing.
    let page = browser.fetch_page(&path).await;
    assert!(page.contains("the symbols of one build are not stored"), "{page}");
    world.stop().await;
}

#[tokio::test]
async fn the_page_of_a_version_leads_to_what_changed_in_it_and_crashes() {
    let world = ChangesWorld::start().await;
    world.put_symbols().await;
    let browser = Browser::signed_in(&world, &world.key).await;
    let [before, after] = &world.builds;
    world.store_report(1, "2.4.0", before).await;
    let group = world.store_report(2, "2.4.1", after).await;
    let page = browser.fetch_page(&format!("/console/changes?group={group}")).await;
    for words in
        ["`discounted` changed in 2.4.1", "2.4.0 without it, 2.4.1 with it", "cart_total", "shop.c:6"]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
    let page = browser.fetch_page(&format!("/console/version?app={APP}&version=2.4.1")).await;
    assert!(page.contains("What changed that crashes?"), "{page}");
    let page = browser.fetch_page(&format!("/console/changes?app={APP}&version=2.4.1")).await;
    for words in ["One function that changed in 2.4.1", "discounted", "bug 2", &group.to_string()] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let page = browser.fetch_page(&format!("/console/changes?app={APP}&version=2.4.0")).await;
    assert!(page.contains("no stored report of an older version"), "{page}");
    assert!(browser.fetch_page("/console/changes").await.contains("Two builds"));
    let [a, b] = [before, after].map(|build| build.debug_id);
    let page = browser.fetch_page(&format!("/console/changes?a={a}&b={b}")).await;
    assert!(page.contains("1 edited"), "{page}");
    let unknown = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    let page = browser.fetch_page(&format!("/console/changes?a={unknown}&b={unknown}")).await;
    assert!(page.contains("the symbols of one build are not stored"), "{page}");
    world.stop().await;
}

//! The page of owners, the owner on the page of a group, and the list of a team's groups.

use crate::owners::looks::FILE;
use crate::owners::owner_world::{APP, OwnerWorld};
use unslide_world::Browser;

#[tokio::test]
async fn a_team_finds_its_groups_and_sees_why_they_are_its_own() {
    let world = OwnerWorld::start().await;
    let browser = Browser::signed_in(&world, &world.key).await;
    assert!(browser.fetch_page("/console/owners").await.contains("No app has a CODEOWNERS file yet"));
    world.set_root().await.expect_status(200);
    world.upload("", &format!("{FILE}/Sources/None/\n!x @a\n")).await;
    let cart = world.store_report(1, 1, &[("Cart.add", "Sources/Cart/Cart.swift", false)]).await;
    let none = world.store_report(2, 1, &[("None.go", "Sources/None/None.swift", false)]).await;
    world.wait_for_look(cart).await;
    world.wait_for_look(none).await;
    let page = browser.fetch_page(&format!("/console/owners?app={APP}")).await;
    for words in [
        "50.0 %",
        "@acme/cart",
        "1 of 2 crashes",
        "line 5: a pattern cannot be negated",
        "/Users/ci/build/shop/",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let listed = world.get("/v1/groups?label=owner:@acme/cart", &world.key).await.expect_status(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(listed["items"][0]["id"], cart.to_string());
    let listed = world.get("/v1/groups?label=owner:none", &world.key).await.expect_status(200);
    assert_eq!(listed["items"][0]["id"], none.to_string());
    let page = browser.fetch_page("/console/groups?label=owner:@acme/cart").await;
    assert!(page.contains("bug 1") && !page.contains("bug 2") && page.contains("owner @acme/cart"), "{page}");
    let page = browser.fetch_page(&format!("/console/groups/{cart}")).await;
    for words in
        ["Owner", "@acme/cart", "Cart.add", "frame 0", "/Sources/Cart/", "line 2 of the file of all versions"]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
    let page = browser.fetch_page(&format!("/console/groups/{none}")).await;
    assert!(page.contains("No owner: the line that matches names none."), "{page}");
    // A new file takes the labels with it.
    world.upload("", "* @acme/new\n").await;
    world.wait_for_look(cart).await;
    let listed = world.get("/v1/groups?label=owner:@acme/cart", &world.key).await.expect_status(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 0);
    let shares = world.get(&format!("/v1/owners?app={APP}"), &world.key).await.expect_status(200);
    world.wait_for_look(none).await;
    assert_eq!(shares["shares"]["crashes"], 2);
    // Reports that cannot be read are counted, and the page of a group says so.
    world.execute("UPDATE group_owners SET failures = 13").await;
    let page = browser.fetch_page(&format!("/console/owners?app={APP}")).await;
    assert!(page.contains("The report of 2 groups cannot be read."), "{page}");
    let page = browser.fetch_page(&format!("/console/groups/{cart}")).await;
    assert!(page.contains("could not be read for 20 hours"), "{page}");
    assert_eq!(world.owners(cart).await["failures"], 13);
    world.stop().await;
}

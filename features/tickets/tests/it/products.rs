//! Each tracker from the first request to a regression, by the same steps.

use crate::tickets::played::Product;
use crate::tickets::shop::Shop;
use unslide_world::wait_until;

async fn follow_product(product: Product) -> Shop {
    let shop = Shop::open(product).await;
    let group = shop.crash(1, "1.0").await;
    let ticket = shop.make_ticket(&group).await;
    let url = ticket["url"].as_str().unwrap();
    assert!(url.starts_with(&shop.tracker.url), "{ticket}");
    let (title, text) =
        shop.tracker.with(|played| (played.tickets[0].title.clone(), played.tickets[0].text.clone()));
    assert!(
        title.starts_with("SHOP-") && text.contains("EXC_BAD_ACCESS") && text.contains("crashes.example.com"),
        "{text}"
    );
    shop.wait_until_idle().await;
    shop.close_ticket("d1", None, None).await;
    let resolved = shop.wait_for_status(&group, "resolved").await;
    assert_eq!(resolved["resolved_after"], "1.0", "{product:?}");
    shop.crash(4, "2.0").await;
    let is_open = async || {
        shop.tracker.with(|played| !played.tickets[0].is_closed && played.tickets[0].comments.len() == 1)
    };
    assert!(wait_until(is_open).await, "{product:?}");
    shop.wait_until_idle().await;
    let comment = shop.tracker.with(|played| played.tickets[0].comments[0].clone());
    assert!(comment.contains("`2.0`") && comment.contains("2 reports"), "{comment}");
    // A forged hook is refused by each.
    shop.send_signed("another-secret-of-the-test", "f1", "issues", &shop.ticket_hook())
        .await
        .expect_problem(401, "unsigned-hook");
    assert_eq!(shop.tracker.count_creations(), 1);
    shop
}

#[tokio::test]
async fn gitlab_is_followed_in_both_directions() {
    Box::pin(follow_product(Product::Gitlab)).await.world.stop().await;
}

#[tokio::test]
async fn linear_is_followed_in_both_directions() {
    Box::pin(follow_product(Product::Linear)).await.world.stop().await;
}

#[tokio::test]
async fn jira_in_a_data_center_is_followed_in_both_directions() {
    let shop = Box::pin(follow_product(Product::JiraDataCenter)).await;
    let text = shop.tracker.with(|played| played.tickets[0].text.clone());
    assert_eq!(text.matches("{noformat}").count(), 2, "the text of a device ends no block: {text}");
    shop.world.stop().await;
}

#[tokio::test]
async fn jira_names_the_version_of_the_fix_and_may_have_no_way_back() {
    let shop = Box::pin(follow_product(Product::JiraCloud)).await;
    let group = shop.world.text("SELECT group_id::text FROM tickets").await;
    // The group is regressed in 2.0, and fixed in a later version.
    shop.close_ticket("d2", Some("Done"), Some("iOS 2.1 (812)")).await;
    let resolved = shop.wait_for_status(&group, "resolved").await;
    assert_eq!(resolved["resolved_in"], "2.1");
    // Another version is named later.
    shop.close_ticket("d3", Some("Done"), Some("2.2")).await;
    assert!(wait_until(async || shop.read_group(&group).await["resolved_in"] == "2.2").await);
    shop.wait_until_idle().await;
    shop.tracker.with(|played| played.has_no_way_back = true);
    shop.crash(7, "2.3").await;
    assert!(wait_until(async || shop.tracker.with(|played| played.tickets[0].comments.len() == 2)).await);
    shop.wait_until_idle().await;
    assert!(shop.tracker.with(|played| played.tickets[0].is_closed));
    // A version that has the bug already is no fix: it is resolved in the next one.
    let other = shop.crash(2, "3.0").await;
    shop.make_ticket(&other).await;
    shop.wait_until_idle().await;
    shop.tracker
        .with(|played| (played.tickets[1].is_closed, played.tickets[1].version) = (true, Some("3.0")));
    let hook = serde_json::json!({"webhookEvent": "jira:issue_updated", "issue": {"id": "10002"}});
    shop.send_hook("d4", "issues", &hook).await;
    let resolved = shop.wait_for_status(&other, "resolved").await;
    assert_eq!(resolved["resolved_after"], "3.0");
    shop.world.stop().await;
}

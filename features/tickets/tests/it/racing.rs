//! People, reports and hooks that change a group while its tracker is asked.

use crate::tickets::played::{FaultKind, PlayedTicket, Product};
use crate::tickets::shop::Shop;
use serde_json::json;
use std::time::Duration;
use unslide_world::wait_until;

const READ: &str = "GET /repos/example/shop/issues/1";

/// Proves: one-outcome
#[tokio::test]
async fn the_link_of_a_person_stays_and_the_ticket_that_is_made_says_so() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    shop.tracker.add_fault(shop.tracker.creation(), FaultKind::OldAnswer(Duration::from_millis(700)));
    shop.create_ticket(&group).await;
    assert!(wait_until(async || shop.tracker.count_creations() == 1).await);
    let refused = shop.link_ticket(&group, "7").await.expect_problem(409, "conflict");
    assert!(refused.contains("is being made"), "{refused}");
    let own = "https://tracker.example.com/5";
    let path = format!("/v1/groups/{group}");
    shop.world.patch(&path, &shop.key, &json!({"ticket_url": own})).await.expect_status(200);
    let failed = shop.wait_for_state(&group, "failed").await;
    assert_eq!(shop.read_group(&group).await["ticket_url"], own);
    let problem = failed["problem"].as_str().unwrap();
    assert!(problem.contains(own) && problem.contains("#1 was made before"), "{problem}");
    let comments = async || shop.tracker.with(|played| played.tickets[0].comments.clone());
    assert!(wait_until(async || comments().await.len() == 1).await);
    let comment = comments().await[0].clone();
    assert!(comment.contains("does not follow this ticket") && comment.contains(own), "{comment}");
    // A person takes the ticket that was made.
    shop.link_ticket(&group, "1").await.expect_status(200);
    shop.wait_until_idle().await;
    assert_eq!(
        shop.read_group(&group).await["ticket_url"],
        format!("{}/example/shop/issues/1", shop.tracker.url)
    );
    assert_eq!(shop.tracker.count_creations(), 1);
    shop.world.stop().await;
}

#[tokio::test]
async fn an_answer_about_the_former_ticket_changes_nothing_of_the_new_one() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    shop.make_ticket(&group).await;
    shop.wait_until_idle().await;
    shop.tracker.with(|played| {
        played.tickets.push(PlayedTicket { number: 2, ..Default::default() });
        played.tickets[0].is_closed = true;
    });
    let read = shop.tracker.count_requests(READ);
    for fault in [
        FaultKind::OldAnswer(Duration::from_millis(500)),
        // Missing: the new one is not lost.
        FaultKind::Status(404, &[], json!({})),
    ] {
        shop.link_ticket(&group, "1").await;
        shop.tracker.with(|played| played.delay = Duration::from_millis(300));
        shop.tracker.add_fault(READ, fault);
        let before = shop.tracker.count_requests(READ);
        shop.send_hook(&format!("d{before}"), "issues", &shop.ticket_hook()).await;
        assert!(wait_until(async || shop.tracker.count_requests(READ) > before).await);
        let linked = shop.link_ticket(&group, "2").await.expect_status(200);
        assert_eq!(linked["ticket"]["key"], "#2");
        shop.tracker.with(|played| played.faults.clear());
        shop.wait_until_idle().await;
        let ticket = shop.read_ticket(&group).await;
        assert_eq!((&ticket["key"], &ticket["state"]), (&json!("#2"), &json!("open")));
        assert!(ticket["problem"].is_null(), "{ticket}");
        assert_eq!(shop.read_group(&group).await["status"], "open", "the former one is closed");
    }
    assert!(shop.tracker.count_requests(READ) > read);
    shop.world.stop().await;
}

#[tokio::test]
async fn what_was_read_before_a_regression_does_not_undo_it() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    shop.make_ticket(&group).await;
    shop.wait_until_idle().await;
    let resolved = json!({"status": "resolved", "resolved_in_next": true});
    shop.world.patch(&format!("/v1/groups/{group}"), &shop.key, &resolved).await.expect_status(200);
    let read = shop.tracker.count_requests(READ);
    // The tracker says that the ticket is closed, and before that comes the group comes back.
    shop.tracker.add_fault(READ, FaultKind::OldAnswer(Duration::from_millis(700)));
    shop.close_ticket("d1", Some("completed"), None).await;
    assert!(wait_until(async || shop.tracker.count_requests(READ) > read).await);
    assert_eq!(shop.crash(4, "2.0").await, group);
    assert_eq!(shop.read_group(&group).await["status"], "regressed");
    let is_open = async || {
        shop.tracker.with(|played| !played.tickets[0].is_closed && played.tickets[0].comments.len() == 1)
    };
    assert!(wait_until(is_open).await);
    shop.wait_until_idle().await;
    assert_eq!(shop.read_group(&group).await["status"], "regressed");
    assert_eq!(shop.read_ticket(&group).await["state"], "open");
    shop.world.stop().await;
}

/// Proves: one-outcome
#[tokio::test]
async fn a_ticket_that_is_not_on_the_pages_that_were_read_is_not_made_again() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    shop.tracker.add_fault(shop.tracker.creation(), FaultKind::Status(408, &[], json!({})));
    shop.create_ticket(&group).await;
    assert!(wait_until(async || shop.tracker.count_creations() == 1).await);
    let waits = "SELECT count(*) FROM ticket_requests WHERE attempts = 1 AND leased_until IS NULL";
    assert!(wait_until(async || shop.world.number(waits).await == 1).await);
    // Other people make more tickets than are read.
    shop.tracker.with(|played| {
        played.tickets.extend((1..=400).map(|number| PlayedTicket { number, ..Default::default() }));
    });
    shop.hurry().await;
    let failed = "SELECT count(*) FROM ticket_requests WHERE attempts = 2 AND leased_until IS NULL";
    assert!(wait_until(async || shop.world.number(failed).await == 1).await);
    assert!(shop.tracker.count_requests("page=30") == 1 && shop.tracker.count_creations() == 1);
    shop.tracker.with(|played| played.tickets.truncate(5));
    shop.hurry().await;
    shop.wait_for_state(&group, "open").await;
    assert_eq!(shop.tracker.count_creations(), 2);
    shop.world.stop().await;
}

/// Proves: one-outcome
#[tokio::test]
async fn a_refusal_because_a_late_request_has_made_the_ticket_finds_it() {
    let shop = Shop::open_with(Product::Linear, |config| config.api.tickets.answer_millis = 300).await;
    let group = shop.crash(1, "1.0").await;
    shop.tracker.add_fault(shop.tracker.creation(), FaultKind::LostAnswer);
    // The request arrives after the search, and before the second one.
    let absent =
        json!({"errors": [{"message": "Entity not found: Issue", "extensions": {"code": "INVALID_INPUT"}}]});
    shop.tracker.add_fault("query($id: String!) { issue(id: $id) { id", FaultKind::Status(200, &[], absent));
    shop.create_ticket(&group).await;
    let lost = "SELECT count(*) FROM ticket_requests WHERE attempts = 1 AND leased_until IS NULL";
    assert!(wait_until(async || shop.world.number(lost).await == 1).await);
    shop.hurry().await;
    shop.wait_for_state(&group, "open").await;
    assert_eq!(shop.tracker.count_creations(), 2);
    assert_eq!(shop.tracker.with(|played| played.tickets.len()), 1);
    shop.world.stop().await;
}

//! Limits and errors of trackers.

use crate::tickets::played::{FaultKind, Product};
use crate::tickets::shop::{Shop, new_tracker, put};
use serde_json::json;
use unslide_world::wait_until;

#[tokio::test]
async fn a_refusal_is_shown_in_the_trackers_words_and_a_person_tries_again() {
    let shop = Shop::open(Product::JiraCloud).await;
    let group = shop.crash(1, "1.0").await;
    let refusal = json!({"errorMessages": [], "errors": {"customfield_10010": "Team is required."}});
    shop.tracker.add_fault(shop.tracker.creation(), FaultKind::Status(400, &[], refusal));
    shop.create_ticket(&group).await;
    let failed = shop.wait_for_state(&group, "failed").await;
    assert!(failed["problem"].as_str().unwrap().contains("customfield_10010: Team is required."), "{failed}");
    for status in [403, 404, 422] {
        shop.tracker.fail_next(shop.tracker.creation(), status);
        shop.create_ticket(&group).await;
        let has_status = async || {
            let ticket = shop.read_ticket(&group).await;
            ticket["state"] == "failed"
                && ticket["problem"].as_str().unwrap_or_default().contains(&status.to_string())
        };
        assert!(wait_until(has_status).await, "{status}");
    }
    shop.make_ticket(&group).await;
    assert_eq!(shop.tracker.with(|played| played.tickets.len()), 1);
    shop.world.stop().await;
}

#[tokio::test]
async fn a_revoked_token_stops_all_tickets_until_the_tracker_is_set_again() {
    let shop = Shop::open(Product::Github).await;
    let groups = [shop.crash(1, "1.0").await, shop.crash(2, "1.0").await];
    for _ in 0..2 {
        shop.tracker.fail_next(shop.tracker.creation(), 401);
    }
    for group in &groups {
        shop.create_ticket(group).await;
    }
    let list =
        async || shop.world.get("/v1/trackers", &shop.key).await.expect_status(200)["trackers"][0].clone();
    assert!(wait_until(async || list().await["problem"].is_string()).await);
    let tracker = list().await;
    assert!(
        tracker["problem"].as_str().unwrap().contains("Set a new token")
            && tracker["waits_until"].is_string()
    );
    assert_eq!(shop.tracker.count_creations(), 1, "one request, and no storm");
    shop.tracker.with(|played| played.faults.clear());
    put(&shop.world, &shop.key, "/v1/trackers", &new_tracker(&shop.tracker)).await.expect_status(200);
    for group in &groups {
        shop.wait_for_state(group, "open").await;
    }
    assert!(list().await["problem"].is_null());
    shop.world.stop().await;
}

#[tokio::test]
async fn limits_and_errors_of_the_server_are_waited_for() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    let wait = async || {
        let waiting = "SELECT count(*) FROM ticket_requests WHERE leased_until IS NULL AND due_at > now() + interval '4 seconds'";
        assert!(wait_until(async || shop.world.number(waiting).await == 1).await);
        let pause = "SELECT round(extract(epoch FROM not_before - now()))::bigint FROM trackers WHERE not_before IS NOT NULL
                     UNION ALL SELECT 0 LIMIT 1";
        shop.world.number(pause).await
    };
    let limited = |status, headers| FaultKind::Status(status, headers, json!({"message": "slow down"}));
    shop.tracker.add_fault(shop.tracker.creation(), limited(429, &[("retry-after", "600")]));
    shop.create_ticket(&group).await;
    assert!((590..=600).contains(&wait().await));
    shop.tracker.add_fault(shop.tracker.creation(), limited(429, &[]));
    shop.hurry().await;
    let is_short = async || (1..=60).contains(&wait().await);
    assert!(wait_until(is_short).await);
    shop.tracker.add_fault(
        shop.tracker.creation(),
        limited(403, &[("x-ratelimit-remaining", "0"), ("retry-after", "120")]),
    );
    shop.hurry().await;
    assert!(wait_until(async || (61..=120).contains(&wait().await)).await);
    // Nothing is certain after an error of the server: the marker is searched for first.
    for status in [500, 503, 408, 425, 409] {
        shop.tracker.fail_next(shop.tracker.creation(), status);
        let sent = shop.tracker.count_creations();
        shop.hurry().await;
        assert!(wait_until(async || shop.tracker.count_creations() > sent).await, "{status}");
        wait().await;
    }
    assert!(shop.tracker.count_requests("GET /repos/example/shop/issues?") >= 2);
    shop.hurry().await;
    shop.wait_for_state(&group, "open").await;
    assert_eq!(shop.tracker.with(|played| played.tickets.len()), 1);
    shop.world.stop().await;
}

#[tokio::test]
async fn a_ticket_that_is_gone_is_lost_and_found_again() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    shop.make_ticket(&group).await;
    shop.wait_until_idle().await;
    shop.tracker.fail_next("GET /repos/example/shop/issues/1", 404);
    shop.send_hook("1", "issues", &shop.ticket_hook()).await;
    shop.wait_for_state(&group, "lost").await;
    shop.send_hook("2", "issues", &shop.ticket_hook()).await;
    shop.wait_for_state(&group, "open").await;
    shop.world.stop().await;
}

#[tokio::test]
async fn a_removed_tracker_takes_its_links_and_no_ticket_with_it() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    let ticket = shop.make_ticket(&group).await;
    shop.wait_until_idle().await;
    shop.world.delete("/v1/trackers/main", &shop.key).await.expect_status(204);
    assert!(shop.read_ticket(&group).await.is_null());
    assert_eq!(shop.read_group(&group).await["ticket_url"], ticket["url"]);
    let gone = shop.send_hook("1", "issues", &shop.ticket_hook()).await;
    gone.expect_problem(404, "not-found");
    for table in ["trackers", "tickets", "ticket_requests", "tracker_deliveries"] {
        assert_eq!(shop.world.number(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
    shop.world.stop().await;
}

//! Turns: a tracker that is dead or slow, and a tenant with much work, cost the others nothing.

use crate::tickets::played::{PlayedTicket, Product, TrackerServer};
use crate::tickets::shop::Shop;
use serde_json::json;
use std::time::Duration;
use unslide_tickets::store;
use unslide_world::{tenant_id, wait_until};

/// Proves: fairness
#[tokio::test]
async fn a_tracker_that_does_not_answer_is_left_alone_for_a_growing_time() {
    let shop = Shop::open_with(Product::Github, |config| config.api.tickets.answer_millis = 300).await;
    let groups = [shop.crash(1, "1.0").await, shop.crash(2, "1.0").await, shop.crash(3, "1.0").await];
    shop.tracker.with(|played| played.is_dead = true);
    for group in &groups {
        shop.create_ticket(group).await;
    }
    let failures = async |count: u8| {
        let failed = format!("SELECT count(*) FROM trackers WHERE failures = {count} AND not_before > now()");
        assert!(wait_until(async || shop.world.number(&failed).await == 1).await, "{count}");
    };
    let pause = "SELECT extract(epoch FROM not_before - now())::bigint FROM trackers";
    failures(1).await;
    assert!(shop.world.number(pause).await <= 10);
    assert_eq!(shop.tracker.count_creations(), 1, "the others do not wait for it, too");
    let list = shop.world.get("/v1/trackers", &shop.key).await.expect_status(200);
    assert!(list["trackers"][0]["problem"].as_str().unwrap().contains("cannot be reached"), "{list}");
    shop.world.execute("UPDATE trackers SET not_before = now()").await;
    failures(2).await;
    assert!((11..=30).contains(&shop.world.number(pause).await));
    assert_eq!(shop.tracker.count_creations(), 2);
    // It answers again, and everything goes on.
    shop.tracker.with(|played| played.is_dead = false);
    shop.hurry().await;
    for group in &groups {
        shop.wait_for_state(group, "open").await;
    }
    let healthy =
        "SELECT count(*) FROM trackers WHERE failures = 0 AND not_before IS NULL AND problem IS NULL";
    assert!(wait_until(async || shop.world.number(healthy).await == 1).await);
    assert_eq!(shop.tracker.with(|played| played.tickets.len()), 3);
    shop.world.stop().await;
}

/// Proves: fairness
#[tokio::test]
async fn a_slow_tracker_gives_its_worker_to_the_next_tenant() {
    let slow = TrackerServer::start(Product::Github).await;
    let shop = Shop::open_with(Product::Github, |config| {
        config.api.tickets.ports.push(slow.port);
        config.api.tickets.answer_millis = 5_000;
        config.api.tickets.turn_millis = 1;
    })
    .await;
    let group = shop.crash(1, "1.0").await;
    slow.with(|played| played.delay = Duration::from_millis(700));
    // As many tenants as a process works for at once.
    for tenant in ["a1", "a2", "a3", "a4"] {
        let key = shop.add_tenant(tenant, &slow).await;
        for n in [1, 2, 3] {
            let group = shop.crash_of(tenant, n, "1.0").await;
            let path = format!("/v1/groups/{group}/ticket");
            shop.world.post_json(&path, &key, &json!({})).await.expect_status(202);
        }
    }
    assert!(wait_until(async || slow.count_creations() >= 4).await);
    shop.create_ticket(&group).await;
    shop.wait_for_state(&group, "open").await;
    assert!(slow.with(|played| played.tickets.len()) < 12, "the others are not done");
    shop.world.stop().await;
}

/// Proves: fairness
#[tokio::test]
async fn tenants_have_turns_in_a_circle() {
    let shop = Shop::open_with(Product::Github, |config| config.api.tickets.look_millis = 3_600_000).await;
    for tenant in ["a1", "a2", "a3"] {
        shop.add_tenant(tenant, &shop.tracker).await;
    }
    shop.world
        .execute(
            "INSERT INTO tickets (tenant, group_id, tracker, marker, state, asked_by, created_at)
             SELECT k.tenant, gen_random_uuid(), 'main', gen_random_uuid(), 'creating', 'x', now()
             FROM trackers k CROSS JOIN generate_series(1, 50) WHERE k.tenant <> 'a3'",
        )
        .await;
    // That of the first tenant has waited longest.
    let due = "INSERT INTO ticket_requests (tenant, group_id, action, tracker, asked_at, due_at)
               SELECT tenant, group_id, 'create', tracker, now(), now() - CASE tenant WHEN 'a1' THEN 2 ELSE 1 END * interval '1 hour'
               FROM tickets";
    shop.world.execute(due).await;
    let list = async |last: &str| {
        let due = store::list_due(&shop.world.store, last, 2).await.unwrap();
        due.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(list("").await, ["a1", "a2"]);
    assert_eq!(list("a2").await, ["acme", "a1"], "a3 has no work");
    assert_eq!(list("acme").await, ["a1", "a2"]);
    // A tracker that wants no request, and requests that others work on.
    shop.world
        .execute("UPDATE trackers SET not_before = now() + interval '1 hour' WHERE tenant = 'a1'")
        .await;
    shop.world
        .execute("UPDATE ticket_requests SET leased_until = now() + interval '1 hour' WHERE tenant = 'a2'")
        .await;
    assert_eq!(list("").await, ["acme"]);
    shop.world.stop().await;
}

#[tokio::test]
async fn what_is_asked_for_while_a_request_fails_is_done_at_once() {
    let shop = Shop::open_with(Product::Github, |config| config.api.tickets.look_millis = 3_600_000).await;
    let group = shop.crash(1, "1.0").await;
    shop.tracker.with(|played| played.tickets.push(PlayedTicket { number: 1, ..Default::default() }));
    shop.link_ticket(&group, "1").await.expect_status(200);
    let acme = tenant_id("acme");
    let due = "SELECT count(*) FROM ticket_requests WHERE due_at <= now() AND leased_until IS NULL";
    for ends in ["postponed", "dropped", "completed"] {
        let mut tx = shop.world.store.tenant(&acme).await.unwrap();
        let claimed = store::claim_request(&mut tx).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        // A hook tells of a change.
        let mut tx = shop.world.store.tenant(&acme).await.unwrap();
        store::request_read(&mut tx, "main", &["1".to_owned()]).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = shop.world.store.tenant(&acme).await.unwrap();
        let hour = time::Duration::hours(1);
        match ends {
            "postponed" => store::postpone_request(&mut tx, &claimed, hour, Some(1)).await.unwrap(),
            "dropped" => store::drop_request(&mut tx, &claimed).await.unwrap(),
            _ => store::complete_request(&mut tx, &claimed).await.unwrap(),
        }
        tx.commit().await.unwrap();
        assert_eq!(shop.world.number(due).await, 1, "{ends}");
    }
    shop.world.stop().await;
}

//! Hooks, and what follows from them: a closed ticket resolves its group, and a group that comes back opens its ticket.

use crate::tickets::played::Product;
use crate::tickets::shop::Shop;
use reqwest::Method;
use serde_json::json;
use unslide_harness::database::{arrival, grouping};
use unslide_model::{Clock, SystemClock};
use unslide_world::wait_until;

#[tokio::test]
async fn a_closed_ticket_resolves_in_the_next_version_and_a_reopened_one_opens() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    shop.make_ticket(&group).await;
    shop.wait_until_idle().await;
    shop.close_ticket("d1", Some("completed"), None).await;
    let resolved = shop.wait_for_status(&group, "resolved").await;
    assert_eq!(resolved["resolved_after"], "1.0");
    assert_eq!(shop.read_ticket(&group).await["state"], "done");
    shop.tracker.with(|played| played.tickets[0].is_closed = false);
    shop.send_hook("d2", "issues", &shop.ticket_hook()).await;
    shop.wait_for_status(&group, "open").await;
    let history = shop.world.get(&format!("/v1/groups/{group}/activity"), &shop.key).await.expect_status(200);
    let actors: Vec<_> =
        history["items"].as_array().unwrap().iter().map(|entry| (&entry["actor"], &entry["name"])).collect();
    assert!(actors.contains(&(&json!("tickets"), &json!("main"))), "{history}");
    shop.world.stop().await;
}

#[tokio::test]
async fn a_ticket_that_is_closed_without_a_fix_changes_no_group() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    shop.make_ticket(&group).await;
    shop.wait_until_idle().await;
    shop.close_ticket("d1", Some("not_planned"), None).await;
    shop.wait_for_state(&group, "dropped").await;
    assert_eq!(shop.read_group(&group).await["status"], "open");
    shop.world.stop().await;
}

#[tokio::test]
async fn a_group_that_comes_back_opens_its_ticket_with_one_comment() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    shop.make_ticket(&group).await;
    shop.wait_until_idle().await;
    shop.close_ticket("d1", Some("completed"), None).await;
    shop.wait_for_status(&group, "resolved").await;
    // The tracker's limit is reached, and then it takes the comment and its answer is lost.
    let limit = crate::tickets::played::FaultKind::Status(429, &[("retry-after", "1")], json!({}));
    shop.tracker.add_fault("/comments", limit);
    shop.tracker.add_fault("/comments", crate::tickets::played::FaultKind::LostAnswer);
    assert_eq!(shop.crash(4, "2.0").await, group);
    assert_eq!(shop.read_group(&group).await["status"], "regressed");
    assert!(wait_until(async || shop.tracker.count_requests("/comments") == 1).await);
    let is_open = async || {
        shop.tracker.with(|played| !played.tickets[0].is_closed && !played.tickets[0].comments.is_empty())
    };
    assert!(wait_until(is_open).await);
    shop.wait_until_idle().await;
    let comments = shop.tracker.with(|played| played.tickets[0].comments.clone());
    assert_eq!(comments.len(), 1, "{comments:?}");
    assert!(
        comments[0].contains("`2.0`")
            && comments[0].contains("2 reports")
            && comments[0].contains("crashes.example.com")
    );
    // The tracker tells of its own change, and a further report comes: nothing changes.
    shop.send_hook("d2", "issues", &shop.ticket_hook()).await;
    shop.crash(7, "2.0").await;
    shop.wait_until_idle().await;
    assert_eq!(shop.read_group(&group).await["status"], "regressed");
    assert_eq!(shop.tracker.with(|played| played.tickets[0].comments.len()), 1);
    assert_eq!(shop.tracker.count_requests("PATCH"), 1);
    shop.world.stop().await;
}

#[tokio::test]
async fn a_hook_that_is_late_repeated_or_forged_changes_nothing() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    shop.make_ticket(&group).await;
    shop.wait_until_idle().await;
    let asked = shop.tracker.count_requests("");
    // Forged: it says closed, and is signed with another secret or not at all.
    let hook = shop.ticket_hook();
    shop.send_signed("another-secret-of-the-test", "f1", "issues", &hook)
        .await
        .expect_problem(401, "unsigned-hook");
    let post = |path: &str| shop.world.request(Method::POST, path, "");
    let unsigned = post(&shop.hook_path).header("x-github-event", "issues").body(hook.to_string());
    shop.world.send(unsigned).await.expect_problem(401, "unsigned-hook");
    // Without the key of the service it is a stranger's mistake, too.
    let secret = shop.world.text("SELECT encode(sealed_hook_secret, 'hex') FROM trackers").await;
    shop.world.execute("UPDATE trackers SET sealed_hook_secret = sealed_token").await;
    let refused = shop.send_hook("f2", "issues", &hook).await.expect_problem(401, "unsigned-hook");
    assert!(refused.contains("made with another secret") && !refused.contains("sealing"), "{refused}");
    shop.world.execute(&format!("UPDATE trackers SET sealed_hook_secret = decode('{secret}', 'hex')")).await;
    let unknown = shop.hook_path.replace("acme.", "umbrella.");
    shop.world.send(post(&unknown).body("{}")).await.expect_problem(404, "not-found");
    let large = post(&shop.hook_path).body(vec![b' '; (2 << 20) + 1]);
    shop.world.send(large).await.expect_problem(413, "too-large");
    shop.wait_until_idle().await;
    assert_eq!(shop.tracker.count_requests(""), asked);
    // Signed, but not true: the ticket is read, and is open.
    shop.send_hook("d1", "issues", &hook).await;
    assert!(wait_until(async || shop.tracker.count_requests("") == asked + 1).await);
    shop.wait_until_idle().await;
    assert_eq!(shop.read_group(&group).await["status"], "open");
    // Repeated: it is not read again.
    for _ in 0..3 {
        assert_eq!(shop.send_hook("d1", "issues", &hook).await.status, 202);
    }
    shop.wait_until_idle().await;
    assert_eq!(shop.tracker.count_requests(""), asked + 1);
    // Late: the ticket was closed and opened again before its hooks come, in the wrong order.
    for delivery in ["d3", "d2"] {
        shop.send_hook(delivery, "issues", &hook).await;
        shop.wait_until_idle().await;
    }
    assert_eq!(shop.read_group(&group).await["status"], "open");
    // Of another repository.
    let mut foreign = hook.clone();
    foreign["repository"]["full_name"] = "example/other".into();
    let asked = shop.tracker.count_requests("");
    shop.send_hook("d4", "issues", &foreign).await;
    shop.wait_until_idle().await;
    assert_eq!(shop.tracker.count_requests(""), asked);
    shop.world.stop().await;
}

#[tokio::test]
async fn a_ticket_is_read_once_a_day_without_hooks() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    shop.make_ticket(&group).await;
    shop.wait_until_idle().await;
    shop.tracker.with(|played| played.tickets[0].is_closed = true);
    let later =
        "SELECT count(*) FROM ticket_requests WHERE action = 'read' AND due_at > now() + interval '23 hours'";
    assert_eq!(shop.world.number(later).await, 1);
    shop.hurry().await;
    shop.wait_for_status(&group, "resolved").await;
    shop.world.stop().await;
}

#[tokio::test]
async fn a_group_that_a_person_resolved_or_ignored_stays_as_it_is() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    shop.make_ticket(&group).await;
    shop.wait_until_idle().await;
    shop.world
        .patch(&format!("/v1/groups/{group}"), &shop.key, &json!({"status": "ignored"}))
        .await
        .expect_status(200);
    shop.close_ticket("d1", Some("completed"), None).await;
    shop.wait_for_state(&group, "done").await;
    assert_eq!(shop.read_group(&group).await["status"], "ignored");
    shop.world.stop().await;
}

/// Late symbols move the reports of a group to another one.
#[tokio::test]
async fn a_ticket_goes_with_its_reports_to_another_group() {
    let shop = Shop::open(Product::Github).await;
    let mut crash = arrival(1);
    crash.received_at = SystemClock.now();
    let group = shop.store(crash.clone()).await;
    let ticket = shop.make_ticket(&group).await;
    shop.wait_until_idle().await;
    crash.revision = 2;
    crash.facts.grouping = Some(grouping(1, false));
    let moved = shop.store(crash).await;
    assert_ne!(moved, group);
    assert_eq!(shop.read_ticket(&moved).await["url"], ticket["url"]);
    shop.close_ticket("d1", Some("completed"), None).await;
    shop.wait_for_status(&moved, "resolved").await;
    shop.world.stop().await;
}

#[tokio::test]
async fn a_ticket_of_a_merged_group_is_that_of_the_group_that_counts_its_reports() {
    let shop = Shop::open(Product::Github).await;
    let (merged, target) = (shop.crash(1, "1.0").await, shop.crash(2, "1.0").await);
    let ticket = shop.make_ticket(&merged).await;
    shop.wait_until_idle().await;
    let path = format!("/v1/groups/{target}/merge");
    shop.world.post_json(&path, &shop.key, &json!({"groups": [merged]})).await.expect_status(200);
    // It is the only one.
    assert_eq!(shop.read_ticket(&target).await["url"], ticket["url"]);
    let path = format!("/v1/groups/{target}/ticket");
    let again = shop.world.post_json(&path, &shop.key, &json!({})).await.expect_problem(409, "conflict");
    assert!(again.contains(ticket["url"].as_str().unwrap()), "{again}");
    let mut rule = crate::tickets::shop::new_tracker(&shop.tracker);
    rule["rule_reports"] = 1.into();
    crate::tickets::shop::put(&shop.world, &shop.key, "/v1/trackers", &rule).await.expect_status(200);
    shop.world
        .execute("UPDATE trackers SET rule_since = now() - interval '1 hour', next_look_at = now()")
        .await;
    let looked = "SELECT count(*) FROM trackers WHERE next_look_at > now()";
    assert!(wait_until(async || shop.world.number(looked).await == 1).await);
    assert_eq!(shop.world.number("SELECT count(*) FROM tickets").await, 1);
    // It is followed in both directions.
    shop.close_ticket("d1", Some("completed"), None).await;
    shop.wait_for_status(&target, "resolved").await;
    assert_eq!(shop.crash(4, "2.0").await, merged, "its own reports are its own");
    shop.wait_for_status(&target, "regressed").await;
    let is_open = async || {
        shop.tracker.with(|played| !played.tickets[0].is_closed && played.tickets[0].comments.len() == 1)
    };
    assert!(wait_until(is_open).await);
    shop.wait_until_idle().await;
    // A split gives it back.
    let path = format!("/v1/groups/{target}/split");
    shop.world.post_json(&path, &shop.key, &json!({"group": merged})).await.expect_status(200);
    assert!(shop.read_ticket(&target).await.is_null());
    assert_eq!(shop.read_ticket(&merged).await["url"], ticket["url"]);
    assert!(shop.read_group(&target).await["ticket_url"].is_null());
    // A group with a ticket of its own follows that one.
    shop.make_ticket(&target).await;
    shop.wait_until_idle().await;
    let path = format!("/v1/groups/{target}/merge");
    shop.world.post_json(&path, &shop.key, &json!({"groups": [merged]})).await.expect_status(200);
    let status = shop.read_group(&target).await["status"].clone();
    shop.close_ticket("d2", Some("completed"), None).await;
    shop.wait_until_idle().await;
    assert_eq!(shop.read_group(&target).await["status"], status);
    shop.world.stop().await;
}

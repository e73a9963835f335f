//! A ticket is made once: by a button, by a rule, by two processes, and whatever becomes of the tracker's answer.

use crate::tickets::played::{FaultKind, PlayedTicket, Product, TrackerServer};
use crate::tickets::shop::{APP, GROUP_LINK, Shop, new_tracker, put, settings, start_with};
use serde_json::json;
use std::time::Duration;
use unslide_world::{Browser, encode_form, redirect_location, wait_until};

/// Proves: one-outcome
#[tokio::test]
async fn a_ticket_has_the_report_and_the_link_and_is_made_once() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    shop.create_ticket(&group).await;
    // A second click changes nothing while it is made.
    shop.create_ticket(&group).await;
    let ticket = shop.wait_for_state(&group, "open").await;
    assert_eq!((&ticket["key"], &ticket["tracker"]), (&json!("#1"), &json!("main")));
    let (title, text) =
        shop.tracker.with(|played| (played.tickets[0].title.clone(), played.tickets[0].text.clone()));
    assert!(title.contains(": bug 1") && title.starts_with("SHOP-"), "{title}");
    assert!(text.contains(&format!("https://crashes.example.com/console/groups/{group}")), "{text}");
    assert!(
        text.contains("EXC_BAD_ACCESS") && text.contains("## Stack") && text.contains("1 report."),
        "{text}"
    );
    assert!(text.contains(&format!("[Compare the commits]({GROUP_LINK})")), "{text}");
    // Texts of devices stay in their quotations.
    assert!(text.contains("`hostile @channel\\n/close") && !text.contains("\n/close"), "{text}");
    let shown = shop.read_group(&group).await;
    assert_eq!(shown["ticket_url"], ticket["url"]);
    let again = shop.world.post_json(&format!("/v1/groups/{group}/ticket"), &shop.key, &json!({})).await;
    assert!(again.expect_problem(409, "conflict").contains("has the ticket"));
    shop.wait_until_idle().await;
    assert_eq!(shop.tracker.count_creations(), 1);
    shop.world.stop().await;
}

/// Proves: one-outcome
#[tokio::test]
async fn a_lost_or_late_answer_makes_no_second_ticket() {
    for product in
        [Product::Github, Product::Gitlab, Product::JiraCloud, Product::JiraDataCenter, Product::Linear]
    {
        let shop = Shop::open_with(product, |config| config.api.tickets.answer_millis = 300).await;
        let group = shop.crash(1, "1.0").await;
        shop.tracker.add_fault(shop.tracker.creation(), FaultKind::LostAnswer);
        shop.create_ticket(&group).await;
        let lost = "SELECT count(*) FROM ticket_requests WHERE attempts = 1 AND leased_until IS NULL";
        assert!(wait_until(async || shop.world.number(lost).await == 1).await, "{product:?}");
        shop.hurry().await;
        shop.wait_for_state(&group, "open").await;
        shop.wait_until_idle().await;
        assert_eq!(shop.tracker.with(|played| played.tickets.len()), 1, "{product:?}");
        assert_eq!(shop.tracker.count_creations(), 1, "{product:?}");
        shop.world.stop().await;
    }
}

/// Proves: one-outcome
#[tokio::test]
async fn a_ticket_that_appears_after_the_answers_time_is_waited_for() {
    let shop = Shop::open_with(Product::Github, |config| {
        config.api.tickets.answer_millis = 300;
        config.api.tickets.settle_millis = Some(60_000);
    })
    .await;
    let group = shop.crash(1, "1.0").await;
    shop.tracker.add_fault(shop.tracker.creation(), FaultKind::DoneLater(Duration::from_millis(900)));
    shop.create_ticket(&group).await;
    let sent = "SELECT count(*) FROM ticket_requests WHERE attempts = 1 AND leased_until IS NULL";
    assert!(wait_until(async || shop.world.number(sent).await == 1).await);
    // Until it is there, the tracker is asked, and no second one is made.
    shop.hurry().await;
    assert!(wait_until(async || shop.tracker.count_requests("GET /repos/example/shop/issues?") >= 1).await);
    let is_found = async || {
        shop.hurry().await;
        shop.read_ticket(&group).await["state"] == "open"
    };
    assert!(wait_until(is_found).await);
    shop.wait_until_idle().await;
    assert_eq!(shop.tracker.with(|played| played.tickets.len()), 1);
    assert_eq!(shop.tracker.count_creations(), 1);
    shop.world.stop().await;
}

/// Proves: one-outcome
#[tokio::test]
async fn two_processes_make_one_ticket_of_each_group() {
    let shop = Shop::open(Product::Github).await;
    // A second api on the same database.
    let settings = settings(&shop.tracker);
    let second = unslide_feature::for_api(&[unslide_tickets::feature(settings), unslide_console::feature()]);
    let mut config = shop.world.config.clone();
    config.api.cache_dir = shop.world.folder().join("second");
    let host = unslide_runtime::Host::local().unwrap();
    let listener = unslide_api::bind_listener(&config).await.unwrap();
    let running = tokio::spawn(unslide_api::run_on(listener, *config, second, host.clone()));
    let groups = [shop.crash(1, "1.0").await, shop.crash(2, "1.0").await, shop.crash(3, "1.0").await];
    for group in &groups {
        shop.create_ticket(group).await;
    }
    for group in &groups {
        shop.wait_for_state(group, "open").await;
    }
    shop.wait_until_idle().await;
    assert_eq!(shop.tracker.with(|played| played.tickets.len()), 3);
    host.shutdown.begin();
    running.await.unwrap().unwrap();
    shop.world.stop().await;
}

#[tokio::test]
async fn a_ticket_of_a_person_is_linked_and_no_other_is_made() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    let path = format!("/v1/groups/{group}/ticket");
    for wrong in ["", "https://example.com/other/issues/1", "SHOP"] {
        put(&shop.world, &shop.key, &path, &json!({"ticket": wrong}))
            .await
            .expect_problem(400, "invalid-body");
    }
    shop.tracker.with(|played| played.tickets.push(PlayedTicket { number: 1, ..Default::default() }));
    let linked = put(&shop.world, &shop.key, &path, &json!({"ticket": "#1"})).await.expect_status(200);
    assert_eq!(linked["ticket"]["key"], "#1");
    let is_read = async || !shop.read_ticket(&group).await["read_at"].is_null();
    assert!(wait_until(is_read).await);
    shop.world.post_json(&path, &shop.key, &json!({})).await.expect_problem(409, "conflict");
    // Nor for a group with the address of a ticket elsewhere.
    let other = shop.crash(2, "1.0").await;
    let linked = json!({"ticket_url": "https://tracker.example.com/5"});
    shop.world.patch(&format!("/v1/groups/{other}"), &shop.key, &linked).await.expect_status(200);
    let refused = shop.world.post_json(&format!("/v1/groups/{other}/ticket"), &shop.key, &json!({})).await;
    assert!(refused.expect_problem(409, "conflict").contains("tracker.example.com"));
    shop.wait_until_idle().await;
    assert_eq!(shop.tracker.count_creations(), 0);
    shop.world.stop().await;
}

#[tokio::test]
async fn a_rule_makes_tickets_of_new_groups_with_enough_reports() {
    let shop = Shop::open(Product::Github).await;
    let old = shop.crash(3, "1.0").await;
    let mut rule = new_tracker(&shop.tracker);
    (rule["rule_reports"], rule["rule_app"]) = (2.into(), APP.into());
    put(&shop.world, &shop.key, "/v1/trackers", &rule).await.expect_status(200);
    let group = shop.crash(1, "1.0").await;
    let rare = shop.crash(2, "1.0").await;
    for n in [4, 7] {
        assert_eq!(shop.crash(n, "1.0").await, group);
        assert_eq!(shop.crash(n + 2, "1.0").await, old, "it is not new");
    }
    shop.world.execute("UPDATE trackers SET next_look_at = now()").await;
    shop.wait_for_state(&group, "open").await;
    shop.world.execute("UPDATE trackers SET next_look_at = now()").await;
    let looked = "SELECT count(*) FROM trackers WHERE next_look_at > now()";
    assert!(wait_until(async || shop.world.number(looked).await == 1).await);
    shop.wait_until_idle().await;
    for without in [&rare, &old] {
        assert!(shop.read_ticket(without).await.is_null());
    }
    assert_eq!(shop.tracker.with(|played| played.tickets.len()), 1);
    shop.world.stop().await;
}

#[tokio::test]
async fn a_page_of_the_group_makes_and_links_tickets() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    let browser = Browser::signed_in(&shop.world, &shop.key).await;
    let page = browser.fetch_page(&format!("/console/groups/{group}")).await;
    let path = format!("/console/groups/{group}/ticket");
    assert!(page.contains(&path) && page.contains("Make or link a ticket"), "{page}");
    assert!(browser.fetch_page(&path).await.contains("Make one in main"));
    let made = browser.post(&path, encode_form(&[("tracker", "main")])).await;
    assert_eq!(redirect_location(&made), path);
    let ticket = shop.wait_for_state(&group, "open").await;
    let page = browser.fetch_page(&path).await;
    assert!(page.contains(ticket["url"].as_str().unwrap()) && !page.contains("Make one in"), "{page}");
    let other = shop.crash(2, "1.0").await;
    let path = format!("/console/groups/{other}/ticket");
    let linked = browser.post(&path, encode_form(&[("tracker", "main"), ("ticket", "1")])).await;
    assert_eq!(redirect_location(&linked), path);
    assert_eq!(shop.read_ticket(&other).await["key"], "#1");
    shop.world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn trackers_and_tickets_of_another_tenant_do_not_exist() {
    let shop = Shop::open(Product::Github).await;
    let group = shop.crash(1, "1.0").await;
    shop.make_ticket(&group).await;
    let other = shop.world.create_master_key("umbrella").await;
    let path = format!("/v1/groups/{group}/ticket");
    shop.world.get(&path, &other).await.expect_problem(404, "not-found");
    put(&shop.world, &other, &path, &json!({"ticket": "1"})).await.expect_problem(404, "not-found");
    let listed = shop.world.get("/v1/trackers", &other).await.expect_status(200);
    assert_eq!(listed, json!({"trackers": []}));
    // A sealed token of one tenant does not open for another.
    put(&shop.world, &other, "/v1/trackers", &new_tracker(&shop.tracker)).await.expect_status(200);
    let stolen = "UPDATE trackers k SET sealed_token = o.sealed_token FROM trackers o
                  WHERE k.tenant = 'umbrella' AND o.tenant = 'acme'";
    shop.world.execute(stolen).await;
    let asked = shop.tracker.count_requests("");
    let tested = shop.world.post("/v1/trackers/main/test", &other, "").await.expect_problem(404, "not-found");
    assert!(tested.contains("sealed with another"), "{tested}");
    assert_eq!(shop.tracker.count_requests(""), asked);
    shop.world.stop().await;
}

#[tokio::test]
async fn a_service_without_a_key_to_seal_with_takes_no_tracker() {
    let tracker = TrackerServer::start(Product::Github).await;
    let mut config = settings(&tracker);
    config.api.tickets.sealing_key = unslide_model::Secret::default();
    let world = start_with(config).await;
    let key = world.create_master_key("acme").await;
    let refused = put(&world, &key, "/v1/trackers", &new_tracker(&tracker)).await;
    assert!(refused.expect_problem(400, "invalid-body").contains("api.tickets.sealing_key"));
    assert_eq!(tracker.count_requests(""), 0);
    world.stop().await;
}

//! The trackers of a tenant: checked, sealed, tested, and never shown with their secrets.

use crate::tickets::played::{Product, TOKEN, TrackerServer};
use crate::tickets::shop::{HOOK_SECRET, Shop, new_tracker, put, settings, start_with};
use serde_json::{Value, json};
use unslide_model::Scope;
use unslide_world::{Browser, encode_form, redirect_location};

#[tokio::test]
async fn a_tracker_is_refused_with_what_is_wrong() {
    let tracker = TrackerServer::start(Product::Github).await;
    let world = start_with(settings(&tracker)).await;
    let key = world.create_master_key("acme").await;
    let refuse = async |change: Value| {
        let mut body = new_tracker(&tracker);
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        put(&world, &key, "/v1/trackers", &body).await.expect_problem(400, "invalid-body")
    };
    assert!(refuse(json!({"project": "shop"})).await.contains("owner/name"));
    assert!(refuse(json!({"project": "example/shop/../other"})).await.contains("owner/name"));
    assert!(refuse(json!({"token": null})).await.starts_with("token:"));
    assert!(refuse(json!({"token": "two words"})).await.starts_with("token:"));
    assert!(refuse(json!({"hook_secret": "short"})).await.starts_with("hook_secret:"));
    assert!(refuse(json!({"labels": [""]})).await.starts_with("labels:"));
    assert!(refuse(json!({"fields": "[1]"})).await.starts_with("fields:"));
    assert!(refuse(json!({"rule_reports": 0})).await.starts_with("rule_reports:"));
    assert!(refuse(json!({"kind": "jira_cloud", "project": "SHOP"})).await.starts_with("account:"));
    assert!(refuse(json!({"kind": "linear"})).await.starts_with("project:"));
    // Addresses that the operator has not allowed.
    for url in ["http://localhost:1/", "https://127.0.0.1:1/", "http://10.0.0.1/", "https://169.254.169.254/"]
    {
        assert!(refuse(json!({"url": url})).await.starts_with("url:"), "{url}");
    }
    assert_eq!(tracker.count_requests(""), 0);
    assert!(refuse(json!({"token": "wrong"})).await.contains("401"));
    tracker.fail_next("GET", 404);
    assert!(refuse(json!({})).await.contains("The tracker says no"));
    assert!(refuse(json!({"name": "Main One"})).await.starts_with("name:"));
    assert_eq!(world.number("SELECT count(*) FROM trackers").await, 0);
    // By force, with the problem.
    tracker.fail_next("GET", 403);
    let mut forced = new_tracker(&tracker);
    forced["force"] = true.into();
    let forced = put(&world, &key, "/v1/trackers", &forced).await.expect_status(200);
    assert!(forced["problem"].as_str().unwrap().contains("403"), "{forced}");
    // For administrators with all apps only.
    let lacking = world.create_key("acme", &[Scope::GroupsWrite]).await;
    put(&world, &lacking, "/v1/trackers", &new_tracker(&tracker))
        .await
        .expect_problem(403, "insufficient-scope");
    let limited = world.key_for("acme", &Scope::ALL, Some("com.acme.shop")).await;
    world.get("/v1/trackers", &limited).await.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

#[tokio::test]
async fn secrets_are_stored_sealed_and_never_shown() {
    let shop = Shop::open(Product::Github).await;
    let (world, key) = (&shop.world, &shop.key);
    let list = world.get("/v1/trackers", key).await.expect_status(200);
    let log = world.get("/v1/audit-log", key).await.expect_status(200);
    assert!(log.to_string().contains("tracker.set"));
    let browser = Browser::signed_in(world, key).await;
    let page = browser.fetch_page("/console/trackers").await;
    assert!(page.contains("example/shop") && page.contains(&shop.hook_path), "{page}");
    let test = world.post("/v1/trackers/main/test", key, "").await.expect_status(200);
    assert_eq!((&test["ok"], &test["status"], &test["method"]), (&json!(true), &json!(200), &json!("GET")));
    assert_eq!(test["url"], format!("{}/repos/example/shop", shop.tracker.url));
    assert!(test["answer"].as_str().unwrap().contains("it has issues"), "{test}");
    for secret in [TOKEN, HOOK_SECRET] {
        for shown in [list.to_string(), log.to_string(), page.clone(), test.to_string()] {
            assert!(!shown.contains(secret), "{shown}");
        }
        let stored = format!(
            "SELECT count(*) FROM trackers WHERE position('{secret}'::bytea IN sealed_token) > 0
                OR position('{secret}'::bytea IN sealed_hook_secret) > 0"
        );
        assert_eq!(world.number(&stored).await, 0);
    }
    // The same product and address keep the token; another address does not get it.
    let mut changed = new_tracker(&shop.tracker);
    changed.as_object_mut().unwrap().remove("token");
    changed["labels"] = json!(["crash"]);
    put(world, key, "/v1/trackers", &changed).await.expect_status(200);
    let asked = shop.tracker.count_requests("");
    changed["url"] = format!("{}/elsewhere", shop.tracker.url).into();
    let refused = put(world, key, "/v1/trackers", &changed).await.expect_problem(400, "invalid-body");
    assert!(refused.starts_with("token:"), "{refused}");
    assert_eq!(shop.tracker.count_requests(""), asked);
    shop.world.stop().await;
}

#[tokio::test]
async fn the_page_sets_tests_and_removes_a_tracker() {
    let tracker = TrackerServer::start(Product::Github).await;
    let world = start_with(settings(&tracker)).await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::signed_in(&world, &key).await;
    let form = |more: &[(&str, &str)]| {
        let mut fields = vec![
            ("name", "main"),
            ("kind", "github"),
            ("url", tracker.url.as_str()),
            ("project", "example/shop"),
            ("token", TOKEN),
            ("labels", "crash, bug"),
        ];
        fields.extend(more);
        encode_form(&fields)
    };
    let set = browser.post("/console/trackers", form(&[("action", "set")])).await;
    assert!(set.text.contains("The secret is not shown again"), "{}", set.text);
    let listed = world.get("/v1/trackers", &key).await.expect_status(200);
    assert_eq!(listed["trackers"][0]["labels"], json!(["crash", "bug"]));
    let again = browser.post("/console/trackers", form(&[("action", "set")])).await;
    assert_eq!(redirect_location(&again), "/console/trackers");
    tracker.fail_next("GET", 500);
    let failed =
        browser.post("/console/trackers", encode_form(&[("name", "main"), ("action", "test")])).await;
    assert!(failed.text.contains("It does not work") && failed.text.contains("500"), "{}", failed.text);
    let works = browser.post("/console/trackers", encode_form(&[("name", "main"), ("action", "test")])).await;
    assert!(works.text.contains("It works") && works.text.contains("/repos/example/shop"), "{}", works.text);
    let removed =
        browser.post("/console/trackers", encode_form(&[("name", "main"), ("action", "remove")])).await;
    assert_eq!(redirect_location(&removed), "/console/trackers");
    assert_eq!(world.number("SELECT count(*) FROM trackers").await, 0);
    world.stop().await;
}

#[tokio::test]
async fn a_tracker_with_tickets_stays_where_they_are() {
    let shop = Shop::open(Product::Github).await;
    let set = async |change: Value| {
        let mut body = new_tracker(&shop.tracker);
        body["force"] = true.into();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        put(&shop.world, &shop.key, "/v1/trackers", &body).await
    };
    // Without tickets it moves.
    set(json!({"project": "example/other"})).await.expect_status(200);
    set(json!({})).await.expect_status(200);
    let group = shop.crash(1, "1.0").await;
    shop.make_ticket(&group).await;
    shop.wait_until_idle().await;
    for change in [
        json!({"project": "example/other"}),
        json!({"url": format!("{}/api/v3", shop.tracker.url)}),
        json!({"kind": "gitlab"}),
    ] {
        let refused = set(change.clone()).await.expect_problem(409, "conflict");
        assert!(refused.contains("another name") && refused.contains("remove main"), "{change}: {refused}");
    }
    set(json!({"labels": ["crash"]})).await.expect_status(200);
    assert_eq!(shop.read_ticket(&group).await["key"], "#1");
    set(json!({"name": "second", "project": "example/other"})).await.expect_status(200);
    shop.world.stop().await;
}

#[tokio::test]
async fn a_rule_begins_when_it_is_changed() {
    let shop = Shop::open(Product::Github).await;
    let since = async |reports: Value, app: Value| {
        let mut body = new_tracker(&shop.tracker);
        (body["rule_reports"], body["rule_app"]) = (reports, app);
        put(&shop.world, &shop.key, "/v1/trackers", &body).await.expect_status(200);
        shop.world.text("SELECT rule_since::text FROM trackers").await
    };
    let first = since(json!(5), Value::Null).await;
    assert_eq!(since(json!(5), Value::Null).await, first, "the same rule");
    let fewer = since(json!(2), Value::Null).await;
    assert_ne!(fewer, first);
    assert_ne!(since(json!(2), json!("com.acme.shop")).await, fewer);
    shop.world.stop().await;
}

/// Proves: bounded-input
#[tokio::test]
async fn a_tenant_probes_two_trackers_at_once() {
    let shop = Shop::open(Product::Github).await;
    shop.tracker.with(|played| played.is_dead = true);
    let body = new_tracker(&shop.tracker);
    let test = || shop.world.post("/v1/trackers/main/test", &shop.key, "");
    let set = || put(&shop.world, &shop.key, "/v1/trackers", &body);
    let (one, two, three, four) = tokio::join!(test(), set(), test(), set());
    let answers = [one.status, two.status, three.status, four.status];
    assert_eq!(
        answers.iter().filter(|status| [429, 503].contains(&status.as_u16())).count(),
        2,
        "{answers:?}"
    );
    shop.world.stop().await;
}

/// Proves: bounded-input
#[tokio::test]
async fn an_answer_that_is_too_long_is_not_read() {
    let shop = Shop::open(Product::Github).await;
    let long = json!({"full_name": "example/shop", "text": "x".repeat(513 << 10)});
    shop.tracker.add_fault("GET", crate::tickets::played::FaultKind::Status(200, &[], long));
    let test = shop.world.post("/v1/trackers/main/test", &shop.key, "").await.expect_status(200);
    assert_eq!(test["ok"], false);
    shop.world.stop().await;
}

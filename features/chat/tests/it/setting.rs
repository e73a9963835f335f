//! Who sets the Slack app, and that its secrets stay in.

use crate::chat::played::{CHANNEL, Fault, SlackServer, TEAM, TOKEN};
use crate::chat::shop::{SIGNING_SECRET, Shop, new_app, put, settings, start_with};
use serde_json::json;
use unslide_model::Scope;
use unslide_world::{Browser, encode_form, redirect_location};

#[tokio::test]
async fn secrets_are_sealed_and_never_shown() {
    let shop = Shop::open().await;
    let (world, key) = (&shop.world, shop.key.as_str());
    let shown = world.get("/v1/chat/slack", key).await.expect_status(200);
    assert_eq!((&shown["slack"]["team"], &shown["slack"]["reports"]), (&json!(TEAM), &json!(1)));
    let test = world.post("/v1/chat/slack/test", key, "").await.expect_status(200);
    assert_eq!(
        (&test["ok"], &test["status"], &test["sent"]["channel"]),
        (&json!(true), &json!(200), &json!(CHANNEL))
    );
    let log = world.get("/v1/audit-log", key).await.expect_status(200);
    assert!(log.to_string().contains("slack.set"));
    let page = Browser::signed_in(world, key).await.fetch_page("/console/chat").await;
    assert!(page.contains(&shop.request_path), "{page}");
    for secret in [TOKEN, SIGNING_SECRET] {
        for shown in [shown.to_string(), log.to_string(), test.to_string(), page.clone()] {
            assert!(!shown.contains(secret), "{shown}");
        }
        let stored = format!(
            "SELECT count(*) FROM slack_apps WHERE position('{secret}'::bytea IN sealed_token) > 0
                OR position('{secret}'::bytea IN sealed_signing_secret) > 0"
        );
        assert_eq!(world.number(&stored).await, 0);
    }
    // Secrets stay if none are given.
    let changed = put(world, key, &json!({"channel": CHANNEL, "reports": 5})).await.expect_status(200);
    assert_eq!((&changed["reports"], &changed["request_url"]), (&json!(5), &shown["slack"]["request_url"]));
    shop.slack.fail_next("chat.postMessage", Fault::Word("not_in_channel"));
    let failed = world.post("/v1/chat/slack/test", key, "").await.expect_status(200);
    assert!(failed["ok"] == false && failed["answer"].to_string().contains("not_in_channel"), "{failed}");
    for _ in 0..2 {
        world.delete("/v1/chat/slack", key).await.expect_status(200);
    }
    let missing = world.post("/v1/chat/slack/test", key, "").await.expect_status(200);
    assert_eq!((&missing["ok"], missing["status"].is_null()), (&json!(false), true));
    shop.world.stop().await;
}

#[tokio::test]
async fn a_slack_app_that_cannot_work_is_refused() {
    let slack = SlackServer::start().await;
    let world = start_with(settings(&slack)).await;
    let key = world.create_master_key("acme").await;
    for (change, part) in [
        (json!({"bot_token": "xoxb-wrong"}), "invalid_auth"),
        (json!({"bot_token": null}), "bot_token"),
        (json!({"bot_token": "a b"}), "bot_token"),
        (json!({"signing_secret": null}), "signing_secret"),
        (json!({"signing_secret": "short"}), "signing_secret"),
        (json!({"channel": "#general"}), "channel"),
        (json!({"reports": 0}), "reports"),
        (json!({"team": "T9"}), "workspace"),
    ] {
        let mut body = new_app();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let detail = put(&world, &key, &body).await.expect_problem(400, "invalid-body");
        assert!(detail.contains(part) && !detail.contains("xoxb-wrong"), "{change}: {detail}");
    }
    let shop = world.key_for("acme", &[Scope::TenantAdmin], Some("shop")).await;
    put(&world, &shop, &new_app()).await.expect_problem(403, "insufficient-scope");
    world.get("/v1/chat/slack", &shop).await.expect_problem(403, "insufficient-scope");
    assert_eq!(world.number("SELECT count(*) FROM slack_apps").await, 0);
    world.stop().await;
}

#[tokio::test]
async fn the_page_sets_tests_and_removes_the_slack_app() {
    let slack = SlackServer::start().await;
    let world = start_with(settings(&slack)).await;
    let key = world.create_master_key("acme").await;
    let browser = Browser::signed_in(&world, &key).await;
    let form = encode_form(&[
        ("action", "set"),
        ("bot_token", TOKEN),
        ("signing_secret", SIGNING_SECRET),
        ("channel", CHANNEL),
        ("reports", "3"),
    ]);
    let set = browser.post("/console/chat", form).await;
    assert_eq!(redirect_location(&set), "/console/chat");
    let page = browser.fetch_page("/console/chat").await;
    assert!(page.contains(CHANNEL) && page.contains("3 reports"), "{page}");
    let works = browser.post("/console/chat", encode_form(&[("action", "test")])).await;
    assert!(works.text.contains("It works") && works.text.contains("chat.postMessage"), "{}", works.text);
    let removed = browser.post("/console/chat", encode_form(&[("action", "remove")])).await;
    assert_eq!(redirect_location(&removed), "/console/chat");
    assert_eq!(world.number("SELECT count(*) FROM slack_apps").await, 0);
    world.stop().await;
}

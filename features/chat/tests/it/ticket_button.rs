//! The button that makes a ticket, as the account of the person who pressed it, once.

use crate::chat::buttons::{ExpectEmpty, connect};
use crate::chat::shop::{APP, Shop};
use reqwest::Method;
use serde_json::{Value, json};
use unslide_model::Scope;
use unslide_store::keys::NewApiKey;

/// Sets a tracker that is not asked: its server is none.
async fn set_tracker(shop: &Shop, name: &str, rule_app: Option<&str>) {
    let body = json!({"name": name, "kind": "github", "url": "http://127.0.0.1:9/api/v3", "project": "example/shop", "token": "a-token-of-the-test",
        "rule_app": rule_app, "rule_reports": rule_app.map(|_| 1_000), "force": true});
    let request = shop.world.request(Method::PUT, "/v1/trackers", &shop.key).json(&body);
    shop.world.send(request).await.expect_status(200);
}

/// Presses the button, and returns the text that the person alone sees.
async fn press(shop: &Shop, group: &str, at: &str) -> String {
    let shown = shop.slack.with(|played| played.ephemeral.len());
    shop.send(&Shop::press("U1", "make_ticket", group, at)).await.expect_empty();
    shop.wait_for("an answer", |slack| slack.with(|played| played.ephemeral.len() == shown + 1)).await;
    shop.slack.with(|played| played.ephemeral.last().unwrap()["text"].as_str().unwrap().to_owned())
}

async fn count_tickets(shop: &Shop) -> i64 {
    shop.world.number("SELECT count(*) FROM tickets").await
}

fn button_ids(message: &Value) -> Vec<String> {
    let buttons = message["blocks"].as_array().unwrap().last().unwrap()["elements"].as_array().unwrap();
    buttons.iter().map(|button| button["action_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_ticket_is_made_in_the_tracker_of_the_app_and_a_refusal_says_why() {
    let shop = Shop::open().await;
    let group = shop.crash(1, "1.0").await;
    shop.wait_for("a first message", |slack| slack.parents().len() == 1).await;
    assert!(button_ids(&shop.slack.parents()[0]).contains(&"make_ticket".to_owned()));
    // Without an account nothing is made.
    shop.send(&Shop::press("U1", "make_ticket", &group, "0")).await.expect_empty();
    shop.wait_for("a link", |slack| slack.with(|played| played.ephemeral.len() == 1)).await;
    connect(&shop, &shop.key, &group).await;
    let text = press(&shop, &group, "1").await;
    assert!(text.contains("the tenant has no tracker: an administrator sets one"), "{text}");
    set_tracker(&shop, "main", None).await;
    set_tracker(&shop, "ops", None).await;
    let text = press(&shop, &group, "2").await;
    assert!(text.contains("several trackers (main, ops)"), "{text}");
    assert!(text.contains(&format!("<https://crashes.example.com/console/groups/{group}|")), "{text}");
    assert_eq!(count_tickets(&shop).await, 0);
    set_tracker(&shop, "shop", Some(APP)).await;
    let text = press(&shop, &group, "3").await;
    assert!(text.contains("is being made in shop"), "{text}");
    let account = shop.world.text("SELECT key_id::text FROM slack_people").await;
    let made = "SELECT concat_ws(' ', group_id, tracker, asked_by) FROM tickets";
    assert_eq!(shop.world.text(made).await, format!("{group} shop {account}"));
    shop.world.stop().await;
}

#[tokio::test]
async fn presses_at_once_and_presses_that_are_sent_again_make_one_ticket_and_do_not_hurry_it() {
    let shop = Shop::open().await;
    let group = shop.crash(1, "1.0").await;
    connect(&shop, &shop.key, &group).await;
    set_tracker(&shop, "main", None).await;
    let shown = shop.slack.with(|played| played.ephemeral.len());
    press(&shop, &group, "first").await;
    let later = "UPDATE ticket_requests SET due_at = now() + interval '1 hour'";
    shop.world.execute(later).await;
    let presses: Vec<Value> =
        (0..50).map(|n| Shop::press("U1", "make_ticket", &group, &format!("p{}", n % 25))).collect();
    let sent = presses.iter().map(|press| shop.send(press));
    for answer in futures::future::join_all(sent).await {
        answer.expect_empty();
    }
    shop.wait_for("answers", |slack| slack.with(|played| played.ephemeral.len() == shown + 26)).await;
    shop.wait_until_idle().await;
    assert_eq!(count_tickets(&shop).await, 1);
    let hurried = "SELECT count(*) FROM ticket_requests WHERE due_at < now() + interval '50 minutes'";
    assert_eq!(shop.world.number(hurried).await, 0);
    shop.world.stop().await;
}

#[tokio::test]
async fn a_group_with_a_ticket_shows_its_address_and_gets_no_second_one() {
    let shop = Shop::open().await;
    let group = shop.crash(1, "1.0").await;
    connect(&shop, &shop.key, &group).await;
    set_tracker(&shop, "main", None).await;
    let url = "https://tickets.example.com/SHOP-17?a=1&b=<x>";
    shop.change_group(&group, &json!({"ticket_url": url})).await;
    let text = press(&shop, &group, "1").await;
    assert!(text.contains("https://tickets.example.com/SHOP-17?a=1&amp;b=&lt;x&gt;"), "{text}");
    assert_eq!(count_tickets(&shop).await, 0);
    // The next change of the first message shows the address in place of the button.
    shop.change_group(&group, &json!({"status": "resolved"})).await;
    shop.wait_for_text("State: resolved").await;
    let parent = shop.slack.parents()[0].clone();
    let ids = button_ids(&parent);
    assert!(ids.contains(&"open_ticket".to_owned()) && !ids.contains(&"make_ticket".to_owned()), "{ids:?}");
    assert!(parent.to_string().contains("SHOP-17"));
    shop.world.stop().await;
}

#[tokio::test]
async fn a_ticket_needs_the_right_that_its_page_needs_and_the_app_of_the_account() {
    let shop = Shop::open().await;
    let group = shop.crash(1, "1.0").await;
    set_tracker(&shop, "main", None).await;
    let new = NewApiKey {
        name: "robin".to_owned(),
        scopes: vec![Scope::GroupsWrite, Scope::ReportsRead],
        app: Some("com.acme.other".to_owned()),
        expires_at: None,
    };
    let (id, key) = shop.world.make_key("acme", &new).await;
    connect(&shop, &key, &group).await;
    let text = press(&shop, &group, "1").await;
    assert!(text.contains("gone, or your account may not see it"), "{text}");
    let reduce = format!("UPDATE keys SET apps = '{{}}', scopes = '{{reports:read}}' WHERE id = '{id}'");
    shop.world.execute(&reduce).await;
    let text = press(&shop, &group, "2").await;
    assert!(text.contains("lacks the scope groups:write"), "{text}");
    assert_eq!(count_tickets(&shop).await, 0);
    shop.world.stop().await;
}

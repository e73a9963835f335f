//! Alerts by mail: who gets them, how many, and what tests cost.

use crate::alerts::alerts_api::{rule_with_message, start, start_with};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use unslide_alerts::Config;
use unslide_harness::receivers::{MailAnswer, MailReceiver, ReceivedMail};
use unslide_model::{Scope, Secret};
use unslide_store::tenants::QuotaLimits;
use unslide_world::{Browser, World, redirect_location, wait_until};

const PUBLIC_URL: &str = "https://crashes.example.com";

/// A world that sends mail to a server that takes all of it.
async fn world(domains: &[&str], mails_per_day: u32) -> (World, MailReceiver) {
    let mails = MailReceiver::start(|| MailAnswer::Taken).await;
    let mut config = Config::default();
    config.api.public_url = format!("{PUBLIC_URL}/");
    let alerts = &mut config.api.alerts;
    alerts.smtp_url = Secret::new(mails.url());
    alerts.mail_from = "unslide@example.com".to_owned();
    alerts.mail_domains = domains.iter().map(|domain| (*domain).to_owned()).collect();
    alerts.mails_per_day = mails_per_day;
    (start_with(config).await, mails)
}

async fn make_rule(world: &World, key: &str, address: &str) -> Value {
    let rule = json!({"name": "buy now", "condition": "new_group", "channel": "mail", "address": address});
    world.post_json("/v1/alert-rules", key, &rule).await.expect_status(201)
}

async fn test(world: &World, key: &str, rule: &Value) {
    let path = format!("/v1/alert-rules/{}/test", rule["id"].as_str().unwrap());
    world.post(&path, key, "").await.expect_status(204);
}

async fn status(world: &World, key: &str, rule: &Value) -> String {
    let path = format!("/v1/alert-rules/{}", rule["id"].as_str().unwrap());
    world.get(&path, key).await.expect_status(200)["recipients"][0]["status"].as_str().unwrap().to_owned()
}

/// The newest message of a rule, once it is as wanted.
async fn message(world: &World, key: &str, rule: &Value, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let path = format!("/v1/alert-messages?rule={}", rule["id"].as_str().unwrap());
    let is_there = wait_until(async || {
        last = world.get(&path, key).await.expect_status(200)["items"][0].clone();
        wanted(&last)
    });
    assert!(is_there.await, "{last}");
    last
}

fn confirmations(mails: &MailReceiver) -> Vec<ReceivedMail> {
    let mails = mails.received().into_iter();
    mails.filter(|mail| mail.header("Subject").unwrap().starts_with("[Unslide] Confirm alerts of")).collect()
}

/// The path of the link in a confirmation mail.
fn link(mail: &ReceivedMail) -> String {
    // Long lines are quoted-printable.
    let text = mail.text.replace("=\n", "");
    let line = text.lines().find(|line| line.starts_with(PUBLIC_URL));
    line.unwrap_or_else(|| panic!("{text}")).trim_start_matches(PUBLIC_URL).to_owned()
}

#[tokio::test]
async fn alerts_wait_until_their_recipient_has_confirmed_and_end_with_its_wish() {
    let (world, mails) = world(&["example.org"], 200).await;
    let key = world.create_master_key("acme").await;
    let rule = make_rule(&world, &key, "Buy Now <Kim@Example.com>").await;
    let waiting = json!([{"address": "kim@example.com", "status": "waiting_for_confirmation"}]);
    assert_eq!(rule["recipients"], waiting);
    assert!(wait_until(async || !confirmations(&mails).is_empty()).await);
    let asked = confirmations(&mails).remove(0);
    assert_eq!(asked.recipients, ["kim@example.com"]);
    let text = asked.text.replace("=\n", "").to_lowercase();
    assert!(!text.contains("buy now"), "no text of the tenant: {text}");
    test(&world, &key, &rule).await;
    let held = message(&world, &key, &rule, |one| one["last_error"].is_string()).await;
    assert_eq!(held["last_error"], "Waiting for confirmation: kim@example.com");
    assert_eq!(held["status"], "waiting");
    assert!(world.read_metric("unslide_api_alerts_total{outcome=\"unconfirmed\"}") >= 1.0);
    let admin = Browser::signed_in(&world, &key).await;
    assert!(admin.fetch_page("/console/alerts").await.contains("waiting for confirmation: kim@example.com"));
    // What only opens the link confirms nothing, and neither does a form of another site.
    let (recipient, link) = (Browser::new(&world), link(&asked));
    for _ in 0..2 {
        let page = recipient.fetch_page(&link).await;
        assert!(page.contains("acme") && page.contains("kim@example.com") && page.contains("/confirm\""));
    }
    let foreign =
        recipient.request(Method::POST, &format!("{link}/confirm")).header("origin", "https://evil.example");
    assert_eq!(recipient.send(foreign).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(status(&world, &key, &rule).await, "waiting_for_confirmation");
    assert_eq!(mails.received().len(), 1);
    assert_eq!(redirect_location(&recipient.post(&format!("{link}/confirm"), String::new()).await), link);
    assert_eq!(status(&world, &key, &rule).await, "confirmed");
    message(&world, &key, &rule, |one| one["status"] == "delivered").await;
    let alert = mails.received().pop().unwrap();
    assert_eq!(alert.header("Subject"), Some("[Unslide] Test of the alert rule buy now"));
    let text = alert.text.replace("=\n", "");
    assert!(text.contains("Sent for the tenant acme") && !text.contains(&link), "{text}");
    // It is asked once, whatever the tenant does, and not heard of again after it has said no.
    recipient.submit_form(&format!("{link}/stop")).await;
    let again = make_rule(&world, &key, "kim@example.com").await;
    assert_eq!(again["recipients"][0]["status"], "refused");
    test(&world, &key, &again).await;
    let refused = message(&world, &key, &again, |one| one["last_error"].is_string()).await;
    assert_eq!(refused["last_error"], "Refused by the recipient: kim@example.com");
    assert_eq!((mails.received().len(), confirmations(&mails).len()), (2, 1));
    for unknown in ["/console/mail/x".to_owned(), format!("/console/mail/{}", "0".repeat(64))] {
        assert_eq!(recipient.get(&unknown).await.status, StatusCode::NOT_FOUND);
        assert_eq!(
            recipient.post(&format!("{unknown}/confirm"), String::new()).await.status,
            StatusCode::NOT_FOUND
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn a_tenant_has_a_number_of_mails_for_each_day() {
    let (world, mails) = world(&["example.com"], 10).await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let six = ["a", "b", "c", "d", "e", "f"].map(|name| format!("{name}@example.com")).join(",");
    let (first, second) = (make_rule(&world, &key, &six).await, make_rule(&world, &key, &six).await);
    assert_eq!(first["recipients"][5], json!({"address": "f@example.com", "status": "allowed"}));
    test(&world, &key, &first).await;
    message(&world, &key, &first, |one| one["status"] == "delivered").await;
    test(&world, &key, &second).await;
    let held = message(&world, &key, &second, |one| one["last_error"].is_string()).await;
    assert_eq!(held["last_error"], "The tenant's 10 mails of this day are used up");
    assert!(world.read_metric("unslide_api_alerts_total{outcome=\"over_limit\"}") >= 1.0);
    // Another tenant has its own.
    let other = world.create_key("umbrella", &[Scope::TenantAdmin]).await;
    let rule = make_rule(&world, &other, &six).await;
    test(&world, &other, &rule).await;
    message(&world, &other, &rule, |one| one["status"] == "delivered").await;
    assert_eq!(mails.received().len(), 2);
    world.stop().await;
}

#[tokio::test]
async fn recipients_that_cannot_be_asked_are_refused() {
    let mut config = Config::default();
    config.api.alerts.smtp_url = Secret::new("smtp://127.0.0.1:9");
    config.api.alerts.mail_from = "unslide@example.com".to_owned();
    config.api.alerts.mail_domains = vec!["Example.com".to_owned()];
    let world = start_with(config).await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    make_rule(&world, &key, "a@EXAMPLE.com").await;
    let rule = json!({"name": "a", "condition": "new_group", "channel": "mail", "address": "a@example.com, b@sub.example.com"});
    let detail = world.post_json("/v1/alert-rules", &key, &rule).await.expect_problem(400, "invalid-body");
    assert!(detail.contains("b@sub.example.com has to confirm"), "{detail}");
    world.stop().await;
}

#[tokio::test]
async fn tests_and_repeats_cost_units_and_a_rule_has_one_test() {
    let world = start().await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let rule = json!({"name": "topic", "condition": "new_group", "channel": "kafka"});
    let rule = world.post_json("/v1/alert-rules", &key, &rule).await.expect_status(201);
    for _ in 0..10 {
        test(&world, &key, &rule).await;
    }
    let first = message(&world, &key, &rule, |one| one["status"] == "delivered").await;
    test(&world, &key, &rule).await;
    let second = message(&world, &key, &rule, |one| one["id"].is_string() && one["id"] != first["id"]).await;
    assert!(second["id"].is_string());
    let rows = "SELECT (SELECT count(*) FROM alert_events) * 10 + (SELECT count(*) FROM alert_messages)";
    assert_eq!(world.number(rows).await, 11);
    world.change_limits("umbrella", &QuotaLimits { units_per_second: 1, ..QuotaLimits::default() }).await;
    let key = world.create_key("umbrella", &[Scope::TenantAdmin]).await;
    let (rule, sent) = rule_with_message(&world, "umbrella").await;
    world.post(&format!("/v1/alert-rules/{rule}/test"), &key, "").await.expect_status(204);
    for path in [format!("/v1/alert-rules/{rule}/test"), format!("/v1/alert-messages/{sent}/send")] {
        world.post(&path, &key, "").await.expect_problem(429, "rate-limited");
    }
    world.stop().await;
}

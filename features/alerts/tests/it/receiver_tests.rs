//! A test of a rule shows what was sent and answered, receivers are stored encrypted, and the link of a message mutes its rule.

use crate::alerts::alerts_api::start_with;
use serde_json::{Value, json};
use std::time::Duration;
use unslide_alerts::Config;
use unslide_harness::receivers::{HttpAnswer, HttpReceiver, MailAnswer, MailReceiver};
use unslide_model::{Scope, Secret};
use unslide_world::{Browser, World, encode_form};

const ROUTING_KEY: &str = "0123456789abcdef0123456789abcdef";

async fn start_world(receiver: &HttpReceiver, mails: &MailReceiver) -> World {
    let mut config = Config::default();
    config.api.public_url = "https://crashes.example.com".to_owned();
    let alerts = &mut config.api.alerts;
    alerts.networks = vec!["127.0.0.0/8".to_owned()];
    alerts.ports = vec![receiver.port()];
    alerts.smtp_url = Secret::new(mails.url());
    alerts.mail_from = "Unslide <unslide@example.com>".to_owned();
    alerts.mail_domains = vec!["example.com".to_owned()];
    alerts.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    start_with(config).await
}

/// The test of a rule once it was tried.
async fn wait_for_test(world: &World, key: &str, rule: &str) -> Value {
    let mut last = Value::Null;
    for _ in 0..2_400 {
        let listed = world.get(&format!("/v1/alert-messages?rule={rule}"), key).await.expect_status(200);
        last = listed["items"][0].clone();
        if last["status"] == "delivered" || last["status"] == "failed" || last["last_error"].is_string() {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{last}");
}

#[tokio::test]
async fn a_test_of_each_channel_shows_what_was_sent_and_answered_without_secrets() {
    let receiver = HttpReceiver::start(|request, _| match request.path.as_str() {
        path if path.contains("gone") => HttpAnswer::Status(404, "no_service"),
        path if path.contains("feishu") => HttpAnswer::Status(200, r#"{"code":0}"#),
        path if path.contains("ding") => HttpAnswer::Status(200, r#"{"errcode":0}"#),
        _ => HttpAnswer::Status(202, "ok"),
    })
    .await;
    let mails = MailReceiver::start(|| MailAnswer::Taken).await;
    let (url, world) = (receiver.url(), start_world(&receiver, &mails).await);
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let genie = "eb243592-faa2-4ba2-a551-1afdf565c889";
    let signing = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    for (channel, address, secret, status) in [
        ("webhook", format!("{url}/hidden-path"), signing, Some(202)),
        ("slack", format!("{url}/hidden-gone"), "", Some(404)),
        ("feishu", format!("{url}/hidden-feishu"), "hidden-word", Some(200)),
        ("dingtalk", format!("{url}/hidden-ding"), "hidden-word", Some(200)),
        ("wecom", format!("{url}/hidden-ding"), "", Some(200)),
        ("teams", format!("{url}/hidden-path"), "", Some(202)),
        ("discord", format!("{url}/hidden-path"), "", Some(202)),
        ("google_chat", format!("{url}/hidden-path?key=hidden-key"), "", Some(202)),
        ("pagerduty", format!("{url}/hidden-path"), ROUTING_KEY, Some(202)),
        ("opsgenie", format!("{url}/hidden-path"), genie, Some(202)),
        ("mail", "a@example.com".to_owned(), "", None),
        ("kafka", String::new(), "", None),
    ] {
        let rule = json!({"name": channel, "condition": "new_group", "channel": channel, "address": address, "secret": secret});
        let made = world.post_json("/v1/alert-rules", &key, &rule).await.expect_status(201);
        assert_eq!(made["signed"], !secret.is_empty(), "{channel}");
        let id = made["id"].as_str().unwrap();
        world.post(&format!("/v1/alert-rules/{id}/test"), &key, "").await.expect_status(204);
        let test = wait_for_test(&world, &key, id).await;
        assert_eq!(test["test_status"], json!(status), "{test}");
        let request = test["test_request"].as_str().unwrap();
        assert!(request.contains(&format!("Test of the alert rule {channel}")), "{request}");
        assert!(request.contains("https://crashes.example.com/console/mute/acme."), "{channel}: {request}");
        for hidden in ["hidden-", secret].into_iter().filter(|text| !text.is_empty()) {
            assert!(!test.to_string().contains(hidden), "{channel}: {test}");
        }
        // A receiver in one of the operator's networks: its text is not shown.
        assert!(test["test_answer"].is_null(), "{test}");
        let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
        let page = browser.fetch_page(&format!("/console/alerts?tested={id}")).await;
        assert!(page.contains("<h3>Sent</h3>") && page.contains("<h3>Answered</h3>"), "{page}");
        assert!(!page.contains("hidden-"), "{page}");
    }
    // What the database holds opens with the key of the service alone.
    let plain = "SELECT count(*) FROM alert_rules WHERE secret <> '' OR address LIKE '%hidden-%'";
    assert_eq!(world.number(plain).await, 0);
    assert_eq!(world.number("SELECT count(*) FROM alert_rules WHERE sealed_address IS NOT NULL").await, 10);
    world.stop().await;
}

#[tokio::test]
async fn the_link_of_a_mail_mutes_the_rule_and_stops_the_mails_of_a_recipient() {
    let receiver = HttpReceiver::start(|_, _| HttpAnswer::Status(200, "ok")).await;
    let mails = MailReceiver::start(|| MailAnswer::Taken).await;
    let world = start_world(&receiver, &mails).await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let rule = json!({"name": "bugs", "condition": "new_group", "channel": "mail", "address": "a@example.com, b@example.com"});
    let made = world.post_json("/v1/alert-rules", &key, &rule).await.expect_status(201);
    let id = made["id"].as_str().unwrap();
    world.post(&format!("/v1/alert-rules/{id}/test"), &key, "").await.expect_status(204);
    let test = wait_for_test(&world, &key, id).await;
    let text = test["test_request"].as_str().unwrap();
    let path =
        text.split("https://crashes.example.com").find(|part| part.starts_with("/console/mute/")).unwrap();
    let path = path.split_whitespace().next().unwrap();
    let mail = &mails.received()[0];
    let header = format!("List-Unsubscribe: <https://crashes.example.com{path}>");
    let unfolded = mail.text.replace("\r\n ", " ").replace("\n ", " ");
    assert!(unfolded.contains(&header), "{}", mail.text);
    // Opening it changes nothing.
    let reader = Browser::new(&world);
    assert!(reader.fetch_page(path).await.contains("Mute for 24 h"));
    let state = async || world.get(&format!("/v1/alert-rules/{id}"), &key).await.expect_status(200);
    assert!(state().await["muted_until"].is_null());
    for forged in [path.replace("acme", "umbrella"), path.replace("/mute/", "/acknowledge/")] {
        assert_eq!(reader.get(&forged).await.status, 404, "{forged}");
    }
    reader.post(path, encode_form(&[("action", "mute")])).await;
    assert!(state().await["muted_until"].is_string());
    assert!(reader.fetch_page(path).await.contains(">in 1 d</time>"));
    reader.post(path, encode_form(&[("action", "unmute")])).await;
    assert!(reader.fetch_page(path).await.contains("Mute for 24 h"));
    // One recipient gets no more mails; an address that is none of the rule's is refused.
    reader.post(path, encode_form(&[("action", "stop"), ("address", "a@example.com")])).await;
    let recipients = state().await["recipients"].clone();
    assert_eq!(recipients[0], json!({"address": "a@example.com", "status": "refused"}));
    assert_eq!(recipients[1]["status"], "allowed");
    let other = reader.post(path, encode_form(&[("action", "stop"), ("address", "c@example.com")])).await;
    assert_eq!(other.status, 400);
    reader.post(path, encode_form(&[("action", "start"), ("address", "a@example.com")])).await;
    assert_eq!(state().await["recipients"][0]["status"], "confirmed");
    let audited =
        "SELECT count(*) FROM audit_log WHERE actor = 'link' AND starts_with(action, 'alert_rule.')";
    assert_eq!(world.number(audited).await, 4);
    world.stop().await;
}

//! Cards for Teams, Discord and Google Chat: against servers of this test that hold the limits of these chats.

use crate::alerts::alerts_api::start_with;
use serde_json::{Value, json};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_alerts::Config;
use unslide_alerts::store::events::{AlertCause, raise_events};
use unslide_alerts::store::rules::AlertCondition;
use unslide_harness::receivers::{HttpAnswer, HttpReceiver, ReceivedRequest};
use unslide_model::Scope;
use unslide_store::{GroupId, Uuid};
use unslide_world::{World, tenant_id};

/// Answers as the chat of a path does.
fn answer_as_chat(request: &ReceivedRequest) -> HttpAnswer {
    let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
    let is_json = request.headers.get("content-type").is_some_and(|value| value == "application/json");
    match request.path.split('?').next().unwrap_or_default() {
        "/teams" if is_json && request.body.len() <= 28 << 10 && body["type"] == "message" => {
            HttpAnswer::Status(202, "")
        }
        "/discord" => {
            let embed = &body["embeds"][0];
            let length = |name: &str| embed[name].as_str().map_or(0, |text| text.chars().count());
            let is_within = length("title") <= 256 && (1..=4_096).contains(&length("description"));
            if is_json && is_within {
                HttpAnswer::Status(200, r#"{"id":"1"}"#)
            } else {
                HttpAnswer::Status(400, "{}")
            }
        }
        "/google" if is_json && request.body.len() <= 32_000 && body["cardsV2"].is_array() => {
            HttpAnswer::Status(200, r#"{"name":"spaces/S/messages/1"}"#)
        }
        "/gone" => HttpAnswer::Status(404, r#"{"message":"Unknown Webhook","code":10015}"#),
        "/limited" => HttpAnswer::Limited(3_600),
        _ => HttpAnswer::Status(400, ""),
    }
}

/// Waits until the first message of a rule has been tried.
async fn wait_for_attempt(world: &World, key: &str, rule: &str) -> Value {
    for _ in 0..2_400 {
        let listed = world.get(&format!("/v1/alert-messages?rule={rule}"), key).await.expect_status(200);
        let message = &listed["items"][0];
        if message["status"] == "delivered" || message["last_error"].is_string() {
            return message.clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the rule {rule} has no message that was tried");
}

#[tokio::test]
async fn cards_reach_chats_and_end_at_a_webhook_that_is_gone() {
    let receiver = HttpReceiver::start(|request, _| answer_as_chat(request)).await;
    let mut config = Config::default();
    config.api.public_url = "https://crashes.example.com".to_owned();
    config.api.alerts.networks = vec!["127.0.0.0/8".to_owned()];
    config.api.alerts.ports = vec![receiver.port()];
    let world = start_with(config).await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let mut rules = Vec::new();
    for (channel, path) in [
        ("teams", "teams?sig=secret"),
        ("discord", "discord"),
        ("google_chat", "google?key=k&token=secret"),
        ("discord", "gone"),
        ("discord", "limited"),
    ] {
        let address = format!("{}/{path}", receiver.url());
        let rule = json!({"name": "bugs", "condition": "new_group", "channel": channel, "address": address});
        let answer = world.post_json("/v1/alert-rules", &key, &rule).await;
        assert!(!answer.text.contains("secret"), "{}", answer.text);
        rules.push(answer.expect_status(201)["id"].as_str().unwrap().to_owned());
    }
    let wrong = json!({"name": "bugs", "condition": "new_group", "channel": "teams", "secret": "word",
                       "address": "https://example.com/"});
    let detail = world.post_json("/v1/alert-rules", &key, &wrong).await.expect_problem(400, "invalid-body");
    assert!(detail.contains("teams has none"), "{detail}");
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let group = GroupId::from_uuid(Uuid::from_u128(7));
    let cause = AlertCause::new_group(group, &"boom @everyone ".repeat(20), "Cart.total", "shop", "2.0");
    assert_eq!(raise_events(&mut tx, AlertCondition::NewGroup, &[cause]).await.unwrap(), 5);
    tx.commit().await.unwrap();
    let mut messages = Vec::new();
    for rule in &rules {
        messages.push(wait_for_attempt(&world, &key, rule).await);
    }
    let statuses: Vec<_> = messages.iter().map(|message| message["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["delivered", "delivered", "delivered", "failed", "waiting"]);
    assert_eq!(messages[3]["attempts"], 1, "a webhook that is gone");
    let due = OffsetDateTime::parse(messages[4]["due_at"].as_str().unwrap(), &Rfc3339).unwrap();
    let made = OffsetDateTime::parse(messages[4]["created_at"].as_str().unwrap(), &Rfc3339).unwrap();
    assert!(due - made >= time::Duration::hours(1), "the pause that the chat asks for: {due} {made}");
    let sent = |path: &str| {
        let mut received = receiver.received().into_iter();
        received.find(|request| request.path.starts_with(path)).unwrap()
    };
    let id = messages[2]["id"].as_str().unwrap();
    let option = "messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD";
    assert_eq!(sent("/google").path, format!("/google?key=k&token=secret&{option}&requestId={id}"));
    assert_eq!(sent("/discord").path, "/discord?wait=true");
    let link = format!("https://crashes.example.com/console/groups/{group}");
    for path in ["/teams", "/discord", "/google"] {
        assert!(sent(path).body.contains(&link), "{}", sent(path).body);
    }
    world.stop().await;
}

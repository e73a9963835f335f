//! Alert rules and messages for the requests of [`crate::cases`], and groups that people send to receivers.

use crate::triage::two;
use crate::world::{Browser, FeatureSettings, World, encode_form, redirect_location, tenant_id};
use serde_json::{Value, json};
use std::time::Duration;
use unslide_alerts::store::events::{AlertCause, raise_for};
use unslide_alerts::store::messages::{collect_events, list_messages};
use unslide_alerts::store::{AlertMessageId, AlertRuleId, rule_table};
use unslide_harness::receivers::{HttpAnswer, HttpReceiver};
use unslide_model::Scope;
use unslide_store::{GroupId, Uuid};

/// A rule that tells a URL of new groups.
pub fn rule(address: &str) -> Value {
    json!({"name": "new bugs", "condition": "new_group", "channel": "webhook", "address": address})
}

/// A rule of a tenant, a message of it, and a firing with the id of the rule.
pub async fn rule_with_message(world: &World, of: &str) -> (AlertRuleId, AlertMessageId) {
    let mut tx = world.store.tenant(&tenant_id(of)).await.unwrap();
    let new = serde_json::from_value(rule("https://alerts.example.com/hook")).unwrap();
    let rule = rule_table::create_rule(&mut tx, &new, None).await.unwrap().unwrap();
    let cause =
        AlertCause::new_group(GroupId::from_uuid(Uuid::from_u128(1)), "title", "culprit", "app", "1.0");
    raise_for(&mut tx, rule.id, &[cause]).await.unwrap();
    assert!(collect_events(&mut tx, rule.id).await.unwrap());
    let message = list_messages(&mut tx, Some(rule.id), None, None, 1).await.unwrap().remove(0);
    tx.commit().await.unwrap();
    let firing = format!(
        "INSERT INTO alert_firings (id, tenant, rule, headline, began_at, link_key)
         VALUES ('{0}', '{of}', '{0}', 'a figure', now(), decode(repeat('07', 32), 'hex'))",
        rule.id
    );
    world.execute(&firing).await;
    (rule.id, message.id)
}

/// Reads a group until it has a ticket.
async fn wait_for_ticket(world: &World, key: &str, path: &str) -> Value {
    for _ in 0..2_400 {
        let group = world.get(path, key).await.expect_status(200);
        if group["ticket_url"].is_string() {
            return group;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let sent = world.get("/v1/alert-messages", key).await.text;
    panic!("no ticket: {sent}");
}

#[tokio::test]
async fn a_receiver_makes_a_ticket_of_the_group_that_a_person_sends() {
    let receiver = HttpReceiver::start(|request, _| match request.path.as_str() {
        "/tickets" => HttpAnswer::Status(201, r#"{"ticket_url":"https://tickets.example.com/SHOP-17"}"#),
        _ => HttpAnswer::Status(200, r#"{"ticket_url":"https://tickets.example.com/SHOP-18"}"#),
    })
    .await;
    let mut settings = FeatureSettings::default();
    settings.alerts.api.alerts.networks = vec!["127.0.0.0/8".to_owned()];
    settings.alerts.api.alerts.ports = vec![receiver.port()];
    let world = World::with_features(settings, |_| {}).await;
    let key = world.create_master_key("acme").await;
    let [group, other] = two(&world, &key).await;
    let made = async |name: &str, app: &str, path: &str| {
        let body = json!({"name": name, "app": app, "condition": "crash_free", "channel": "webhook",
                          "address": format!("{}{path}", receiver.url())});
        let made = world.post_json("/v1/alert-rules", &key, &body).await.expect_status(201);
        made["id"].as_str().unwrap().to_owned()
    };
    let app = group["app"].as_str().unwrap();
    let (tickets, chat) = (made("tickets", app, "/tickets").await, made("chat", app, "/chat").await);
    let board = made("board", app, "/board").await;
    let of_bank = made("of the bank", "com.example.bank", "/bank").await;
    // A rule that is off is a receiver for what people choose.
    world
        .patch(&format!("/v1/alert-rules/{tickets}"), &key, &json!({"enabled": false}))
        .await
        .expect_status(200);
    let triager = world.create_key("acme", &[Scope::ReportsRead, Scope::GroupsWrite]).await;
    let path = format!("/v1/groups/{}", group["short_id"].as_str().unwrap());
    let send = async |rule: &str, key: &str| {
        world.post_json(&format!("{path}/send"), key, &json!({ "rule": rule })).await
    };
    for _ in 0..2 {
        send(&tickets, &triager).await.expect_status(204);
    }
    let ticket = "https://tickets.example.com/SHOP-17";
    assert_eq!(wait_for_ticket(&world, &key, &path).await["ticket_url"], ticket);
    let activity = world.get(&format!("{path}/activity"), &key).await.expect_status(200);
    assert_eq!(
        (&activity["items"][0]["name"], &activity["items"][0]["text"]),
        (&json!("tickets"), &json!(ticket))
    );
    send(&of_bank, &triager).await.expect_problem(404, "not-found");
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    send(&tickets, &reader).await.expect_problem(403, "insufficient-scope");
    let stranger = world.create_master_key("umbrella").await;
    send(&tickets, &stranger).await.expect_problem(404, "not-found");
    // The page offers the rules for the app, without their addresses, and a later answer replaces no ticket.
    let browser = Browser::signed_in(&world, &triager).await;
    let page = format!("/console/groups/{}", group["id"].as_str().unwrap());
    assert!(browser.fetch_page(&page).await.contains(&format!("href=\"{page}/send\"")));
    let offered = browser.fetch_page(&format!("{page}/send")).await;
    assert!(offered.contains("Send to tickets") && !offered.contains("of the bank"), "{offered}");
    assert!(!offered.contains("127.0.0.1"), "{offered}");
    let sent = browser.post(&format!("{page}/send"), encode_form(&[("rule", &chat)])).await;
    assert!(browser.fetch_page(redirect_location(&sent)).await.contains("on its way to chat"));
    let second = format!("/v1/groups/{}", other["id"].as_str().unwrap());
    world.post_json(&format!("{second}/send"), &triager, &json!({"rule": board})).await.expect_status(204);
    let linked = wait_for_ticket(&world, &key, &second).await;
    assert_eq!(linked["ticket_url"], "https://tickets.example.com/SHOP-18");
    assert_eq!(world.get(&path, &key).await.expect_status(200)["ticket_url"], ticket);
    let received = receiver.received();
    let bodies: Vec<Value> = received
        .iter()
        .filter(|request| request.path == "/tickets")
        .map(|sent| serde_json::from_str(&sent.body).unwrap())
        .collect();
    // What was sent twice within a minute is one event; the clock may have passed into the next one.
    assert!((1..=2).contains(&bodies.len()), "{bodies:?}");
    assert_eq!(
        (&bodies[0]["events"][0]["condition"], &bodies[0]["events"][0]["group"]["id"]),
        (&json!("sent"), &group["id"])
    );
    world.stop().await;
}

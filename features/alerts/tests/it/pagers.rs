//! Pagers, and the link of a message that acknowledges: against a receiver of this test.
//!
//! The fields are those of <https://developer.pagerduty.com/docs/events-api-v2/trigger-events/> and
//! <https://docs.opsgenie.com/docs/alert-api>.

use crate::alerts::alerts_api::start_with;
use serde_json::{Value, json};
use std::time::Duration;
use unslide_alerts::Config;
use unslide_harness::receivers::{HttpAnswer, HttpReceiver, ReceivedRequest};
use unslide_model::{DistinctSketch, Scope};
use unslide_world::{Browser, World};

const ROUTING_KEY: &str = "0123456789abcdef0123456789abcdef";
const GENIE_KEY: &str = "eb243592-faa2-4ba2-a551-1afdf565c889";

async fn start_world(receiver: &HttpReceiver) -> World {
    let mut config = Config::default();
    config.api.public_url = "https://crashes.example.com".to_owned();
    config.api.alerts.networks = vec!["127.0.0.0/8".to_owned()];
    config.api.alerts.ports = vec![receiver.port()];
    start_with(config).await
}

/// Waits for the requests to a path that begins so, until there are this many.
async fn wait_for(receiver: &HttpReceiver, path: &str, count: usize) -> Vec<ReceivedRequest> {
    for _ in 0..6_000 {
        let received = receiver.received().into_iter().filter(|request| request.path.starts_with(path));
        let received: Vec<ReceivedRequest> = received.collect();
        if received.len() >= count {
            return received;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{count} requests to {path}");
}

fn parse_body(request: &ReceivedRequest) -> Value {
    serde_json::from_str(&request.body).unwrap()
}

async fn set_sessions(world: &World, crashed: u32) {
    let empty: String =
        DistinctSketch::default().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let statement = format!(
        "INSERT INTO session_days (tenant, app, version, day, sessions, crashed, squares, installations,
                                   crashed_installations, users, crashed_users)
         VALUES ('acme', 'shop', '2.0', (now() AT TIME ZONE 'UTC')::date, 1000, {crashed}, 1000, '\\x{empty}', '\\x{empty}', '\\x{empty}', '\\x{empty}')
         ON CONFLICT (tenant, app, version, day) DO UPDATE SET crashed = EXCLUDED.crashed;
         UPDATE alert_rules SET next_evaluation_at = now() - interval '1 minute',
                                next_message_at = now() - interval '1 minute'"
    );
    world.execute(&statement).await;
}

#[tokio::test]
async fn pagers_open_acknowledge_and_close_one_alert_and_a_link_acknowledges() {
    let receiver = HttpReceiver::start(|_, _| HttpAnswer::Status(202, r#"{"status":"success"}"#)).await;
    let (url, world) = (receiver.url(), start_world(&receiver).await);
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let figure = json!({"name": "crash_free_sessions", "comparison": "below"});
    let mut rules = Vec::new();
    for (channel, path, secret) in
        [("pagerduty", "/v2/enqueue", ROUTING_KEY), ("opsgenie", "/og", GENIE_KEY), ("webhook", "/hook", "")]
    {
        let rule = json!({"name": channel, "condition": "figure", "app": "shop", "threshold": 0.98, "figure": figure,
                          "channel": channel, "address": format!("{url}{path}"), "secret": secret});
        let answer = world.post_json("/v1/alert-rules", &key, &rule).await;
        assert!(secret.is_empty() || !answer.text.contains(secret), "{}", answer.text);
        rules.push(answer.expect_status(201)["id"].as_str().unwrap().to_owned());
    }
    set_sessions(&world, 30).await;
    let headline = "crash_free_sessions of shop is 97.00 %";
    let trigger = parse_body(&wait_for(&receiver, "/v2/enqueue", 1).await[0]);
    let dedup_key = format!("unslide-{}", rules[0]);
    assert_eq!(
        (&trigger["routing_key"], &trigger["event_action"], &trigger["dedup_key"], &trigger["client"]),
        (&json!(ROUTING_KEY), &json!("trigger"), &json!(dedup_key), &json!("Unslide"))
    );
    let payload = &trigger["payload"];
    assert_eq!(
        (&payload["summary"], &payload["source"], &payload["severity"]),
        (&json!(headline), &json!("shop"), &json!("error"))
    );
    assert!(payload["timestamp"].is_string() && payload["custom_details"].is_object(), "{payload}");
    assert_eq!(
        trigger["links"][0]["href"],
        "https://crashes.example.com/console/health/figure?app=shop&figure=crash_free_sessions&by=day"
    );
    let alias = format!("unslide-{}", rules[1]);
    let created = wait_for(&receiver, "/og/v2/alerts", 1).await.remove(0);
    assert_eq!(created.path, "/og/v2/alerts");
    assert_eq!(created.headers["authorization"], format!("GenieKey {GENIE_KEY}"));
    let created = parse_body(&created);
    assert_eq!(
        (&created["message"], &created["alias"], &created["source"]),
        (&json!(headline), &json!(alias), &json!("Unslide"))
    );
    assert!(created["description"].is_string() && created["details"]["app"] == "shop", "{created}");

    // Of the firing of each rule a message has a link, here that of the webhook.
    let hook = parse_body(&wait_for(&receiver, "/hook", 1).await[0]);
    let firing = &hook["events"][0]["firing"];
    assert_eq!((&firing["step"], &firing["rule"]), (&json!("began"), &json!(rules[2])));
    let link = firing["acknowledge_link"].as_str().unwrap();
    let path = link.strip_prefix("https://crashes.example.com").unwrap();
    // A mail server that opens it changes nothing.
    let reader = Browser::new(&world);
    let page = reader.get(path).await;
    assert!(page.text.contains("<button class=\"primary\">Acknowledge</button>"), "{}", page.text);
    let listed = world.get("/v1/alert-firings", &key).await.expect_status(200);
    let items = listed["items"].as_array().unwrap();
    assert!(items.len() == 3 && items.iter().all(|item| item["acknowledged_at"].is_null()), "{listed}");
    let (start, signature) = path.split_at(path.len() - 64);
    let forged = format!("{start}0{}", signature.get(1..).unwrap());
    let forged = if forged == path { path.replace("acme", "umbrella") } else { forged };
    assert_eq!(reader.post(&forged, String::new()).await.status, 404);
    assert!(reader.post(path, String::new()).await.status.is_redirection());
    assert!(reader.get(path).await.text.contains("It was acknowledged by the link of a message"));

    // By the API, audited; both pagers show it as acknowledged.
    for item in items.iter().filter(|item| item["rule"] != rules[2].as_str()) {
        let path = format!("/v1/alert-firings/{}/acknowledge", item["id"].as_str().unwrap());
        let acknowledged = world.post(&path, &key, "").await.expect_status(200);
        assert!(acknowledged["acknowledged_by"].is_string(), "{acknowledged}");
    }
    let audited = "SELECT count(*) FROM audit_log WHERE action = 'alert_firing.acknowledge'";
    assert_eq!(world.number(audited).await, 3);
    set_sessions(&world, 30).await;
    let acknowledged = parse_body(&wait_for(&receiver, "/v2/enqueue", 2).await[1]);
    let short = json!({"routing_key": ROUTING_KEY, "event_action": "acknowledge", "dedup_key": dedup_key});
    assert_eq!(acknowledged, short);
    let path = format!("/og/v2/alerts/{alias}/acknowledge?identifierType=alias");
    assert!(parse_body(&wait_for(&receiver, &path, 1).await[0])["note"].is_string());

    // Once the figure is good again, both close their alerts.
    set_sessions(&world, 10).await;
    let resolved = parse_body(&wait_for(&receiver, "/v2/enqueue", 3).await[2]);
    let short = json!({"routing_key": ROUTING_KEY, "event_action": "resolve", "dedup_key": dedup_key});
    assert_eq!(resolved, short);
    wait_for(&receiver, &format!("/og/v2/alerts/{alias}/close?identifierType=alias"), 1).await;
    world.stop().await;
}

#[tokio::test]
async fn figures_and_pagers_that_cannot_work_are_refused() {
    let receiver = HttpReceiver::start(|_, _| HttpAnswer::Status(202, "")).await;
    let world = start_world(&receiver).await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let rule = json!({"name": "slow", "condition": "figure", "app": "shop", "threshold": 1500,
                      "figure": {"name": "launch_time_p90", "comparison": "above"},
                      "channel": "pagerduty", "secret": ROUTING_KEY});
    for (change, part) in [
        (json!({"figure": {"name": "launch_time", "comparison": "above"}}), "figure.name"),
        (
            json!({"figure": {"name": "launch_time_p90", "comparison": "above", "host": "a.example.com"}}),
            "host",
        ),
        (json!({"figure": {"name": "energy_p50", "comparison": "worse"}}), "use above or below"),
        (json!({"figure": {"name": "launch_time_p90", "comparison": "above", "days": 29}}), "1 to 28"),
        (json!({"figure": {"name": "launch_time_p90", "comparison": "above", "hours": 25}}), "1 to 24"),
        (
            json!({"figure": {"name": "launch_time_p90", "comparison": "burn_rate", "objective": 0.9}}),
            "is no share",
        ),
        (
            json!({"figure": {"name": "request_failures", "comparison": "burn_rate"}}),
            "figure.objective: needed",
        ),
        (
            json!({"figure": {"name": "launch_time_p90", "comparison": "above", "objective": 0.9}}),
            "only with the comparison burn_rate",
        ),
        (json!({"figure": null}), "the condition figure needs one"),
        (json!({"app": null}), "has one"),
        (json!({"threshold": null}), "threshold: needed"),
        (json!({"condition": "new_group"}), "only with the condition figure"),
        (json!({"secret": "word"}), "integration key of PagerDuty"),
        (json!({"channel": "opsgenie", "secret": ""}), "Opsgenie"),
        (
            json!({"figure": {"name": "launch_time_p90", "comparison": "above",
                              "escalation": {"rule": "5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10", "minutes": 5}}}),
            "escalation.rule",
        ),
    ] {
        let mut body = rule.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let detail =
            world.post_json("/v1/alert-rules", &key, &body).await.expect_problem(400, "invalid-body");
        assert!(detail.contains(part), "{change}: {detail}");
    }
    let made = world.post_json("/v1/alert-rules", &key, &rule).await.expect_status(201);
    assert_eq!(made["address"], "https://events.pagerduty.com/…");
    let path = format!("/v1/alert-rules/{}", made["id"].as_str().unwrap());
    let slower =
        json!({"threshold": 2000, "figure": {"name": "hang_rate_p95", "comparison": "above", "days": 7}});
    let changed = world.patch(&path, &key, &slower).await.expect_status(200);
    assert_eq!(
        (&changed["figure"]["name"], &changed["figure"]["days"]),
        (&json!("hang_rate_p95"), &json!(7))
    );
    world.patch(&path, &key, &json!({"app": ""})).await.expect_problem(400, "invalid-body");
    world.stop().await;
}

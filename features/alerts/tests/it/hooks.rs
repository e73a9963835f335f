//! Hooks of pagers that acknowledge, as PagerDuty and Opsgenie send them: this test plays the two.
//!
//! The bodies have the members of <https://developer.pagerduty.com/docs/webhooks/v3-overview/> and
//! <https://support.atlassian.com/opsgenie/docs/opsgenie-edge-connector-alert-action-data/>.

use crate::alerts::alerts_api::start_with;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use unslide_alerts::Config;
use unslide_model::{Clock, Scope, Secret, SystemClock};
use unslide_world::World;

const ROUTING_KEY: &str = "0123456789abcdef0123456789abcdef";
const HOOK_SECRET: &str = "the-secret-of-one-webhook";

async fn start_world() -> World {
    let mut config = Config::default();
    config.api.public_url = "https://crashes.example.com".to_owned();
    config.api.alerts.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    config.api.alerts.every_millis = 3_600_000;
    start_with(config).await
}

/// Makes a rule with a figure and a receiver at a pager, and returns its id and the path of its hooks.
async fn make_rule(world: &World, key: &str, channel: &str, secret: &str, more: Value) -> (String, String) {
    let mut rule = json!({"name": channel, "condition": "figure", "app": "shop", "threshold": 0.98, "channel": channel,
                          "figure": {"name": "crash_free_sessions", "comparison": "below"}, "secret": secret});
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = world.post_json("/v1/alert-rules", key, &rule).await.expect_status(201);
    let url = made["hook_url"].as_str().unwrap().strip_prefix("https://crashes.example.com").unwrap();
    (made["id"].as_str().unwrap().to_owned(), url.to_owned())
}

async fn set_hook(world: &World, key: &str, rule: &str) {
    let change = json!({"hook_secret": HOOK_SECRET});
    let answer = world.patch(&format!("/v1/alert-rules/{rule}"), key, &change).await;
    assert!(!answer.text.contains(HOOK_SECRET), "{}", answer.text);
    assert_eq!(answer.expect_status(200)["takes_hooks"], true);
}

/// Begins a firing of a rule so many seconds ago, and returns its id.
async fn begin_firing(world: &World, tenant: &str, rule: &str, seconds: u32) -> String {
    let statement = format!(
        "INSERT INTO alert_firings (id, tenant, rule, headline, began_at, link_key)
         VALUES (gen_random_uuid(), '{tenant}', '{rule}', 'bad', now() - interval '{seconds} seconds', decode(repeat('07', 32), 'hex'))"
    );
    world.execute(&statement).await;
    let newest =
        format!("SELECT id::text FROM alert_firings WHERE rule = '{rule}' ORDER BY began_at DESC LIMIT 1");
    world.text(&newest).await
}

/// Ends the open firing of a rule.
async fn end_firing(world: &World, rule: &str) {
    world
        .execute(&format!(
            "UPDATE alert_firings SET ended_at = now() WHERE rule = '{rule}' AND ended_at IS NULL"
        ))
        .await;
}

/// Who has acknowledged the newest firing of a rule.
async fn acknowledged_by(world: &World, rule: &str) -> String {
    let newest = format!(
        "SELECT coalesce(acknowledged_by, '') FROM alert_firings WHERE rule = '{rule}' ORDER BY began_at DESC LIMIT 1"
    );
    world.text(&newest).await
}

fn incident(kind: &str, key: &str, at: OffsetDateTime) -> String {
    json!({"event": {"id": "01EXAMPLE", "event_type": kind, "resource_type": "incident",
                     "occurred_at": at.format(&Rfc3339).unwrap(),
                     "data": {"id": "PEXAMPLE", "type": "incident", "incident_key": key, "status": "acknowledged"}}})
    .to_string()
}

fn signature(body: &str, secret: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v1={digits}")
}

async fn send(world: &World, path: &str, header: (&str, &str), body: String) -> u16 {
    let request = reqwest::Client::new().post(format!("{}{path}", world.url)).header(header.0, header.1);
    request.body(body).send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_signed_hook_of_pagerduty_acknowledges_the_firing_once() {
    let world = start_world().await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let (rule, path) = make_rule(&world, &key, "pagerduty", ROUTING_KEY, json!({})).await;
    let now = SystemClock.now();
    begin_firing(&world, "acme", &rule, 60).await;
    let body = incident("incident.acknowledged", &format!("unslide-{rule}"), now);
    let signed = signature(&body, HOOK_SECRET);
    let pager = "x-pagerduty-signature";
    assert_eq!(
        send(&world, &path, (pager, &signed), body.clone()).await,
        404,
        "the rule has no secret of hooks"
    );
    set_hook(&world, &key, &rule).await;
    // Forged, not signed, of another kind, and about another subject.
    assert_eq!(send(&world, &path, (pager, &signature(&body, "another-secret")), body.clone()).await, 401);
    assert_eq!(send(&world, &path, ("x-other", &signed), body.clone()).await, 401);
    let unsigned = world.request(reqwest::Method::POST, &path, "").body(body.clone());
    world.send(unsigned).await.expect_problem(401, "unsigned-hook");
    for other in [
        incident("incident.triggered", &format!("unslide-{rule}"), now),
        incident("incident.acknowledged", "someone-elses-key", now),
        json!({"event": {"event_type": "pagey.ping"}}).to_string(),
    ] {
        assert_eq!(send(&world, &path, (pager, &signature(&other, HOOK_SECRET)), other.clone()).await, 202);
    }
    let long = " ".repeat(300 << 10);
    assert_eq!(send(&world, &path, (pager, &signature(&long, HOOK_SECRET)), long.clone()).await, 413);
    assert_eq!(acknowledged_by(&world, &rule).await, "");
    // While a secret is replaced, PagerDuty sends two signatures. The delivery comes twice.
    let both = format!("{},{signed}", signature(&body, "the-next-secret"));
    for _ in 0..2 {
        assert_eq!(send(&world, &path, (pager, &both), body.clone()).await, 202);
    }
    assert_eq!(acknowledged_by(&world, &rule).await, "pagerduty");
    let audited =
        "SELECT count(*) FROM audit_log WHERE action = 'alert_firing.acknowledge' AND actor = 'pagerduty'";
    assert_eq!(world.number(audited).await, 1);
    let told = "SELECT count(*) FROM alert_events WHERE starts_with(cause, 'acknowledged:')";
    assert_eq!(world.number(told).await, 1);
    // The same delivery, late, does not acknowledge the next time in which the figure is bad.
    end_firing(&world, &rule).await;
    begin_firing(&world, "acme", &rule, 0).await;
    assert_eq!(send(&world, &path, (pager, &both), body.clone()).await, 202);
    assert_eq!(acknowledged_by(&world, &rule).await, "");
    // Another receiver has no secret of hooks, and an empty one removes it.
    let rule_path = format!("/v1/alert-rules/{rule}");
    let changed =
        world.patch(&rule_path, &key, &json!({"channel": "pagerduty", "secret": ROUTING_KEY})).await;
    assert_eq!(changed.expect_status(200)["takes_hooks"], false);
    world.stop().await;
}

#[tokio::test]
async fn a_hook_of_opsgenie_acknowledges_by_its_token() {
    let world = start_world().await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let genie = "eb243592-faa2-4ba2-a551-1afdf565c889";
    let (rule, path) = make_rule(&world, &key, "opsgenie", genie, json!({})).await;
    set_hook(&world, &key, &rule).await;
    begin_firing(&world, "acme", &rule, 60).await;
    let at = i64::try_from(SystemClock.now().unix_timestamp_nanos()).unwrap();
    let alert = |action: &str| {
        json!({"action": action, "alert": {"alertId": "1", "alias": format!("unslide-{rule}"), "updatedAt": at}}).to_string()
    };
    let token = format!("Bearer {HOOK_SECRET}");
    assert_eq!(
        send(&world, &path, ("authorization", "Bearer another-secret-of-one"), alert("Acknowledge")).await,
        401
    );
    assert_eq!(send(&world, &path, ("authorization", &token), alert("Create")).await, 202);
    assert_eq!(acknowledged_by(&world, &rule).await, "");
    assert_eq!(send(&world, &path, ("authorization", &token), alert("Acknowledge")).await, 202);
    assert_eq!(acknowledged_by(&world, &rule).await, "opsgenie");
    world.stop().await;
}

#[tokio::test]
async fn a_hook_acknowledges_no_firing_of_another_tenant_app_or_channel() {
    let world = start_world().await;
    let (acme, umbrella) = (
        world.create_key("acme", &[Scope::TenantAdmin]).await,
        world.create_key("umbrella", &[Scope::TenantAdmin]).await,
    );
    let (own, path) = make_rule(&world, &acme, "pagerduty", ROUTING_KEY, json!({})).await;
    set_hook(&world, &acme, &own).await;
    let (foreign, _) = make_rule(&world, &umbrella, "pagerduty", ROUTING_KEY, json!({})).await;
    let (other_app, _) = make_rule(&world, &acme, "pagerduty", ROUTING_KEY, json!({"app": "bank"})).await;
    let genie = "eb243592-faa2-4ba2-a551-1afdf565c889";
    let (other_channel, _) = make_rule(&world, &acme, "opsgenie", genie, json!({})).await;
    // Another rule of the same app at the same pager is acknowledged by the same webhook: a service of PagerDuty needs one.
    let (same, _) = make_rule(&world, &acme, "pagerduty", ROUTING_KEY, json!({})).await;
    for (tenant, rule, expected) in [
        ("umbrella", &foreign, ""),
        ("acme", &other_app, ""),
        ("acme", &other_channel, ""),
        ("acme", &same, "pagerduty"),
    ] {
        begin_firing(&world, tenant, rule, 60).await;
        let at = SystemClock.now() + Duration::seconds(1);
        let body = incident("incident.acknowledged", &format!("unslide-{rule}"), at);
        let signed = signature(&body, HOOK_SECRET);
        assert_eq!(send(&world, &path, ("x-pagerduty-signature", &signed), body.clone()).await, 202);
        assert_eq!(acknowledged_by(&world, rule).await, expected, "{rule}");
        // The path of a tenant with a rule of another one names nothing.
        let wrong = path.replace("acme", "umbrella");
        assert_eq!(send(&world, &wrong, ("x-pagerduty-signature", &signed), body).await, 404);
    }
    world.stop().await;
}

#[tokio::test]
async fn the_hook_of_a_second_receiver_acknowledges_the_firing_that_went_there() {
    let world = start_world().await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let genie = "eb243592-faa2-4ba2-a551-1afdf565c889";
    let (first, _) = make_rule(&world, &key, "opsgenie", genie, json!({})).await;
    let (second, path) = make_rule(&world, &key, "pagerduty", ROUTING_KEY, json!({})).await;
    set_hook(&world, &key, &second).await;
    let firing = begin_firing(&world, "acme", &first, 60).await;
    let body = incident("incident.acknowledged", &format!("unslide-{first}"), SystemClock.now());
    let signed = signature(&body, HOOK_SECRET);
    let header = ("x-pagerduty-signature", signed.as_str());
    assert_eq!(send(&world, &path, header, body.clone()).await, 202);
    assert_eq!(acknowledged_by(&world, &first).await, "", "the second receiver was not told");
    let escalated = format!(
        "UPDATE alert_firings SET escalated_at = now(), escalated_to = '{second}', escalate_at = NULL WHERE id = '{firing}'"
    );
    world.execute(&escalated).await;
    assert_eq!(send(&world, &path, header, body).await, 202);
    assert_eq!(acknowledged_by(&world, &first).await, "pagerduty");
    world.stop().await;
}

#[tokio::test]
async fn a_secret_of_hooks_is_refused_without_a_key_that_seals_it() {
    let mut config = Config::default();
    config.api.public_url = "https://crashes.example.com".to_owned();
    let world = start_with(config).await;
    let key = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let rule =
        json!({"name": "pager", "condition": "new_group", "channel": "pagerduty", "secret": ROUTING_KEY});
    let made = world.post_json("/v1/alert-rules", &key, &rule).await.expect_status(201);
    let path = format!("/v1/alert-rules/{}", made["id"].as_str().unwrap());
    let refused = world.patch(&path, &key, &json!({"hook_secret": HOOK_SECRET})).await;
    assert!(refused.text.contains("api.alerts.sealing_key"), "{}", refused.text);
    assert!(!refused.text.contains(HOOK_SECRET), "{}", refused.text);
    refused.expect_status(400);
    let stored = "SELECT count(*) FROM alert_rules WHERE sealed_hook_secret IS NOT NULL";
    assert_eq!(world.number(stored).await, 0);
    world.stop().await;
}

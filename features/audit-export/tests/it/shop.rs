//! An api whose tenants' receivers are on this machine.

use reqwest::Method;
use serde_json::{Value, json};
use unslide_audit_export::Config;
use unslide_model::Secret;
use unslide_store::audit::append_entry;
use unslide_world::{Answer, World, tenant_id, wait_until};

pub const RECEIVERS: &str = "/v1/audit-log/receivers";
/// The secret of webhooks.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Starts an api that reaches these ports of this machine.
pub async fn start(ports: &[u16]) -> World {
    let mut config = Config::default();
    config.api.public_url = "https://crashes.example.com/".to_owned();
    let settings = &mut config.api.audit_export;
    settings.sealing_key = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    settings.networks = vec!["127.0.0.0/8".to_owned()];
    settings.ports = ports.to_vec();
    settings.look_millis = 30;
    settings.answer_millis = 2_000;
    let feature = unslide_audit_export::feature(config);
    assert_eq!(feature.settings.as_ref().unwrap().problems, []);
    World::start(unslide_feature::for_api(&[feature, unslide_console::feature()]), |_| {}).await
}

pub async fn put(world: &World, key: &str, body: &Value) -> Answer {
    world.send(world.request(Method::PUT, RECEIVERS, key).json(body)).await
}

/// Sets a webhook.
pub async fn set_webhook(world: &World, key: &str, url: &str) {
    let body = json!({"name": "siem", "kind": "webhook", "address": url, "secret": SECRET});
    put(world, key, &body).await.expect_status(200);
}

/// Returns the only receiver of a tenant.
pub async fn read_receiver(world: &World, key: &str) -> Value {
    world.get(RECEIVERS, key).await.expect_status(200)["receivers"][0].clone()
}

/// Writes entries `subject 1` and so on into the log of a tenant, each in a transaction of its own.
pub async fn write_entries(world: &World, tenant: &str, numbers: std::ops::RangeInclusive<usize>) {
    for number in numbers {
        let mut tx = world.store.tenant(&tenant_id(tenant)).await.unwrap();
        let subject = format!("subject {number}");
        append_entry(&mut tx, "test", "thing.change", &subject, &json!({"number": number})).await.unwrap();
        tx.commit().await.unwrap();
    }
}

/// Returns the places in the log of the entries that a receiver got.
pub fn positions(entries: &[Value]) -> Vec<i64> {
    entries.iter().map(|entry| entry["position"].as_i64().unwrap()).collect()
}

/// Waits until the receiver of a tenant has all entries, and its turn has ended.
pub async fn wait_until_sent(world: &World, key: &str) {
    let is_sent = async || {
        let receiver = read_receiver(world, key).await;
        receiver["waiting"] == 0 && receiver["problem"].is_null()
    };
    assert!(wait_until(is_sent).await, "{}", read_receiver(world, key).await);
}

/// Waits until the receiver of a tenant has a problem with these words.
pub async fn wait_for_problem(world: &World, key: &str, words: &str) {
    let is_named = async || {
        read_receiver(world, key).await["problem"].as_str().is_some_and(|problem| problem.contains(words))
    };
    assert!(wait_until(is_named).await, "{words}: {}", read_receiver(world, key).await);
}

/// Waits until this many turns of the receiver of a tenant have failed in a row.
pub async fn wait_for_failures(world: &World, key: &str, failures: usize) {
    let has_failed = async || read_receiver(world, key).await["failures"] == json!(failures);
    assert!(wait_until(has_failed).await, "{}", read_receiver(world, key).await);
}

/// Ends the pauses after failures.
pub async fn send_now(world: &World) {
    world.execute("UPDATE audit_receivers SET next_send_at = now() - interval '1 minute'").await;
}

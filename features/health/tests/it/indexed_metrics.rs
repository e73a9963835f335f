//! Metric payloads from Kafka to Postgres.

use crate::health::health_indexer::World;
use time::format_description::well_known::Rfc3339;
use unslide_model::{Clock, SystemClock};

/// A payload of a period that ended now.
fn payload(id: &str, launch: u32) -> String {
    let at = SystemClock.now().replace_nanosecond(0).unwrap().format(&Rfc3339).unwrap();
    format!(
        r#"{{"id":"{id}","app":"com.acme.shop","version":"1.0","measured_at":"{at}",
           "measurements":[{{"name":"launch_time","unit":"ms","value":{launch}}}]}}"#
    )
}

/// Proves: replay
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_counted_once_and_a_replay_changes_nothing() {
    let world = World::new().await;
    let first = payload("m1", 800);
    world.send_metrics("acme", &first).await;
    world.send_metrics("acme", &first).await;
    world.send_metrics("acme", &payload("m2", 900)).await;
    let running = world.start();
    world
        .wait_for_number(
            "SELECT coalesce(sum(observations), 0)::bigint FROM metric_days WHERE tenant = 'acme'",
            2,
        )
        .await;
    world.wait_until_caught_up().await;
    running.wait_until_ready().await;
    running.wait_for_counter(r#"unslide_indexer_records_total{kind="metrics""#, 3).await;
    running.stop().await;
    let before = world.dump().await;
    world
        .execute(&format!("UPDATE positions SET next_offset = 0 WHERE topic = '{}'", world.topics().metrics))
        .await;
    let again = world.start();
    world.wait_until_caught_up().await;
    again.wait_for_counter(r#"unslide_indexer_records_total{kind="metrics""#, 3).await;
    again.stop().await;
    assert_eq!(world.dump().await, before);
    world.end().await;
}

/// Proves: isolation
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_that_may_not_be_counted_are_noted_and_hold_nobody_up() {
    let world = World::new().await;
    world.send_metrics("acme", "{").await;
    world.send_metrics("nobody", &payload("m1", 800)).await;
    world.send_metrics("acme", &payload("m2", 800)).await;
    let running = world.start();
    world.wait_for_number("SELECT count(*) FROM metric_payloads WHERE payload_id = 'm2'", 1).await;
    world.wait_for_number("SELECT count(*) FROM dead_letters WHERE stage = 'read'", 2).await;
    let reasons = "SELECT string_agg(reason, ' ' ORDER BY reason) FROM dead_letters WHERE stage = 'read'";
    assert_eq!(world.text(reasons).await, "bad_metrics unknown_tenant");
    world.execute("UPDATE tenants SET state = 'suspended' WHERE slug = 'acme'").await;
    world.send_metrics("acme", &payload("m3", 800)).await;
    world
        .wait_for_number(
            "SELECT count(*) FROM dead_letters WHERE stage = 'read' AND reason = 'tenant_suspended'",
            1,
        )
        .await;
    running.wait_until_ready().await;
    running.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_of_an_app_that_keeps_none_are_dropped_and_counted() {
    let world = World::new().await;
    world
        .execute(
            "INSERT INTO app_settings (tenant, app, source_url, source_root, signals)
             VALUES ('acme', 'com.acme.shop', '', '', '{\"metrics\": false}')",
        )
        .await;
    world.send_metrics("acme", &payload("m1", 800)).await;
    world.send_metrics("acme", &payload("m2", 800)).await;
    let running = world.start();
    world
        .wait_for_number(
            "SELECT coalesce(sum(dropped), 0)::bigint FROM signal_drops WHERE signal = 'metrics'",
            2,
        )
        .await;
    running.wait_until_ready().await;
    running.wait_for_counter(r#"unslide_indexer_records_total{kind="metrics""#, 2).await;
    running.stop().await;
    world.wait_for_number("SELECT count(*) FROM metric_payloads", 0).await;
    world.end().await;
}

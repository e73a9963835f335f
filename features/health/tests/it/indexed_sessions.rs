//! Session events from Kafka to Postgres.

use crate::health::health_indexer::World;
use time::format_description::well_known::Rfc3339;
use unslide_model::{Clock, SystemClock};
use unslide_stream::OutRecord;

const CRASHED: &str = r#","end_reason":"crashed""#;

/// An event of a session that began now.
fn event(id: &str, installation: &str, more: &str) -> String {
    let at = SystemClock.now().replace_nanosecond(0).unwrap().format(&Rfc3339).unwrap();
    format!(
        r#"{{"id":"{id}","installation":"{installation}","app":"com.acme.shop","version":"1.0","started_at":"{at}"{more}}}"#
    )
}

/// Proves: replay
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_stored_once_and_a_replay_changes_nothing() {
    let world = World::new().await;
    let first = event("s1", "i1", "");
    world.send_session("acme", &first).await;
    world.send_session("acme", &first).await;
    world.send_session("acme", &event("s2", "i2", CRASHED)).await;
    world.send_session("acme", &first.replace('}', r#","end_reason":"crashed"}"#)).await;
    let running = world.start();
    world
        .wait_for_number("SELECT count(*) FROM sessions WHERE tenant = 'acme' AND end_reason = 'crashed'", 2)
        .await;
    world.wait_until_caught_up().await;
    running.wait_until_ready().await;
    assert_eq!(world.number("SELECT sum(sessions)::bigint FROM session_days").await, 2);
    assert_eq!(world.number("SELECT sum(crashed)::bigint FROM session_days").await, 2);
    running.wait_for_counter(r#"unslide_indexer_records_total{kind="sessions""#, 4).await;
    running.stop().await;
    let before = world.dump().await;
    world
        .execute(&format!("UPDATE positions SET next_offset = 0 WHERE topic = '{}'", world.topics().sessions))
        .await;
    let again = world.start();
    world.wait_until_caught_up().await;
    again.wait_for_counter(r#"unslide_indexer_records_total{kind="sessions""#, 4).await;
    again.stop().await;
    assert_eq!(world.dump().await, before);
    world.end().await;
}

/// Proves: isolation
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_stored_is_noted_and_holds_nobody_up() {
    let world = World::new().await;
    world.send_session("acme", "{").await;
    world.send_session("nobody", &event("s1", "i1", "")).await;
    let without = OutRecord::for_topic(world.topics().sessions, event("s1", "i1", ""));
    world.producer.send_record(&without).await.unwrap();
    world.send_session("acme", &event("s2", "i1", "")).await;
    let running = world.start();
    world.wait_for_number("SELECT count(*) FROM sessions WHERE session_id = 's2'", 1).await;
    world.wait_for_number("SELECT count(*) FROM dead_letters WHERE stage = 'read'", 3).await;
    let reasons = "SELECT string_agg(reason, ' ' ORDER BY reason) FROM dead_letters WHERE stage = 'read'";
    assert_eq!(world.text(reasons).await, "bad_session no_tenant unknown_tenant");
    assert_eq!(world.number("SELECT count(*) FROM dead_letters WHERE stage = 'store'").await, 0);
    world.execute("UPDATE tenants SET state = 'suspended' WHERE slug = 'acme'").await;
    world.send_session("acme", &event("s3", "i1", "")).await;
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

/// A record that was refused because its tenant was suspended is stored by a replay once the tenant is active.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_of_a_refused_record_fails_until_its_tenant_is_active() {
    let world = World::new().await;
    world.execute("UPDATE tenants SET state = 'suspended' WHERE slug = 'acme'").await;
    world.send_session("acme", &event("s1", "i1", "")).await;
    let running = world.start();
    let of_status = |status: &str| {
        format!(
            "SELECT count(*) FROM dead_letters WHERE reason = 'tenant_suspended' AND tenant = 'acme'
             AND stage = 'read' AND status = '{status}'"
        )
    };
    world.wait_for_number(&of_status("waiting"), 1).await;
    let ask = "UPDATE dead_letters SET status = 'requested', replayed_at = now()";
    world.execute(ask).await;
    world.wait_for_number(&of_status("failed"), 1).await;
    world.execute("UPDATE tenants SET state = 'active' WHERE slug = 'acme'").await;
    world.execute(ask).await;
    world.wait_for_number(&of_status("replayed"), 1).await;
    world.wait_for_number("SELECT count(*) FROM sessions", 1).await;
    running.stop().await;
    world.end().await;
}

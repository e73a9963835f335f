//! One tenant's receivers hold up no other tenant, and get its log alone.

use crate::audit_export::shop::{put, set_webhook, start, wait_until_sent, write_entries};
use crate::audit_export::syslog_server::{AUTHORITY, Ending, SyslogServer};
use crate::audit_export::webhook_server::WebhookServer;
use serde_json::json;

#[tokio::test]
async fn a_slow_receiver_holds_up_neither_another_tenant_nor_another_receiver() {
    let (slow, fine, other) =
        (WebhookServer::start().await, SyslogServer::start().await, WebhookServer::start().await);
    let world = start(&[slow.port, fine.port, other.port]).await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    slow.hold_answers(true);
    set_webhook(&world, &acme, &slow.url()).await;
    slow.wait_for_entries(1).await;
    set_webhook(&world, &umbrella, &other.url()).await;
    write_entries(&world, "umbrella", 1..=10).await;
    let taken = other.wait_for_entries(11).await;
    assert!(taken.iter().all(|entry| entry["subject"] == "siem" || entry["detail"]["number"].is_number()));
    wait_until_sent(&world, &umbrella).await;
    slow.hold_answers(false);
    wait_until_sent(&world, &acme).await;
    // Two receivers of one tenant: the one that never closes costs the other nothing.
    let body = json!({"name": "second", "kind": "syslog", "address": format!("localhost:{}", fine.port), "authority": AUTHORITY});
    fine.end_with(Ending::Never);
    put(&world, &acme, &body).await.expect_status(200);
    let before = slow.entries().len();
    write_entries(&world, "acme", 1..=5).await;
    slow.wait_for_entries(before + 5).await;
    world.stop().await;
}

#[tokio::test]
async fn a_receiver_gets_the_log_of_its_tenant_alone() {
    let (first, second) = (WebhookServer::start().await, WebhookServer::start().await);
    let world = start(&[first.port, second.port]).await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    set_webhook(&world, &acme, &first.url()).await;
    set_webhook(&world, &umbrella, &second.url()).await;
    write_entries(&world, "acme", 1..=20).await;
    write_entries(&world, "umbrella", 101..=120).await;
    wait_until_sent(&world, &acme).await;
    wait_until_sent(&world, &umbrella).await;
    let numbers = |server: &WebhookServer| -> Vec<u64> {
        server.entries().iter().filter_map(|entry| entry["detail"]["number"].as_u64()).collect()
    };
    assert_eq!(numbers(&first), (1..=20).collect::<Vec<_>>());
    assert_eq!(numbers(&second), (101..=120).collect::<Vec<_>>());
    let removed = world.delete("/v1/audit-log/receivers/siem", &umbrella).await;
    assert_eq!(removed.status, 204);
    assert_eq!(world.number("SELECT count(*) FROM audit_receivers WHERE tenant = 'acme'").await, 1);
    world.stop().await;
}

//! Outages of receivers and of the service: entries come late, and none is lost.

use crate::audit_export::shop::{
    positions, read_receiver, send_now, set_webhook, start, wait_for_failures, wait_for_problem,
    wait_until_sent, write_entries,
};
use crate::audit_export::webhook_server::WebhookServer;
use serde_json::json;
use std::collections::BTreeSet;
use unslide_world::wait_until;

#[tokio::test]
async fn an_outage_delays_entries_and_loses_none() {
    let server = WebhookServer::start().await;
    let world = start(&[server.port]).await;
    let key = world.create_master_key("acme").await;
    server.answer_with(503);
    set_webhook(&world, &key, &server.url()).await;
    write_entries(&world, "acme", 1..=5).await;
    wait_for_problem(&world, &key, "HTTP 503").await;
    let receiver = read_receiver(&world, &key).await;
    assert!(receiver["waits_until"].is_string() && receiver["sent_at"].is_null(), "{receiver}");
    send_now(&world).await;
    wait_for_failures(&world, &key, 2).await;
    assert!(world.read_metric("unslide_api_audit_export_total{outcome=\"failed\"}") >= 2.0);
    server.answer_with(200);
    let refused = server.requests().len();
    send_now(&world).await;
    wait_until_sent(&world, &key).await;
    let taken = server.requests().split_off(refused).concat();
    let begin = positions(&taken)[0];
    assert_eq!(positions(&taken), (begin..begin + 6).collect::<Vec<_>>());
    world.stop().await;
}

#[tokio::test]
async fn the_lag_is_the_age_of_the_oldest_entry_that_a_receiver_lacks() {
    let server = WebhookServer::start().await;
    let world = start(&[server.port]).await;
    let key = world.create_master_key("acme").await;
    server.answer_with(503);
    set_webhook(&world, &key, &server.url()).await;
    wait_for_problem(&world, &key, "HTTP 503").await;
    world
        .execute("UPDATE audit_log SET at = now() - interval '3 hours' WHERE action = 'audit_receiver.set'")
        .await;
    let lag = async || world.read_metric("unslide_api_audit_export_lag_seconds") >= 3.0 * 3_600.0;
    assert!(wait_until(lag).await);
    world.stop().await;
}

#[tokio::test]
async fn entries_that_were_taken_and_not_recorded_are_sent_again_with_their_ids() {
    let server = WebhookServer::start().await;
    let world = start(&[server.port]).await;
    let key = world.create_master_key("acme").await;
    server.hold_answers(true);
    set_webhook(&world, &key, &server.url()).await;
    server.wait_for_entries(1).await;
    // The process ends before it records: its lease is over, and another one has the turn.
    world.execute("UPDATE audit_receivers SET leased_until = leased_until - interval '1 second'").await;
    server.hold_answers(false);
    assert!(wait_until(async || server.requests().len() == 1).await);
    assert_eq!(
        read_receiver(&world, &key).await["position"],
        json!(server.entries()[0]["position"].as_i64().unwrap() - 1)
    );
    write_entries(&world, "acme", 1..=2).await;
    world.execute("UPDATE audit_receivers SET leased_until = NULL").await;
    wait_until_sent(&world, &key).await;
    let (all, ids) = (server.entries(), server.ids());
    let distinct: BTreeSet<i64> = positions(&all).into_iter().collect();
    let first = all[0]["position"].as_i64().unwrap();
    assert_eq!(distinct, (first..first + 3).collect());
    let copies = all.iter().filter(|entry| entry["id"] == all[0]["id"]).count();
    assert_eq!(copies, 2, "{all:?}");
    // A request with more entries is another one: a receiver that knows the id of the first drops none of them.
    assert_ne!(ids[0], ids[1]);
    world.stop().await;
}

#[tokio::test]
async fn a_turn_under_way_ends_with_its_settings() {
    let (old, new) = (WebhookServer::start().await, WebhookServer::start().await);
    let world = start(&[old.port, new.port]).await;
    let key = world.create_master_key("acme").await;
    old.hold_answers(true);
    set_webhook(&world, &key, &old.url()).await;
    write_entries(&world, "acme", 1..=150).await;
    old.wait_for_entries(1).await;
    set_webhook(&world, &key, &new.url()).await;
    old.hold_answers(false);
    wait_until_sent(&world, &key).await;
    assert_eq!(old.requests().len(), 1, "the old one gets nothing more");
    let taken = positions(&new.entries());
    assert_eq!(taken, (taken[0]..taken[0] + 152).collect::<Vec<_>>());
    assert_eq!(taken[0], positions(&old.entries())[0], "the new one gets what the old one did not confirm");
    world.stop().await;
}

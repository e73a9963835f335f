//! Webhooks: each entry is sent as it is written, signed, in order.

use crate::audit_export::shop::{
    RECEIVERS, positions, read_receiver, set_webhook, start, wait_until_sent, write_entries,
};
use crate::audit_export::webhook_server::WebhookServer;
use serde_json::json;
use unslide_world::wait_until;

#[tokio::test]
async fn each_entry_is_sent_in_order_as_it_is_written() {
    let server = WebhookServer::start().await;
    let world = start(&[server.port]).await;
    let key = world.create_master_key("acme").await;
    write_entries(&world, "acme", 1..=3).await;
    set_webhook(&world, &key, &server.url()).await;
    // The first one is about the receiver: it begins with what comes.
    let first = server.wait_for_entries(1).await.remove(0);
    assert_eq!(
        (&first["action"], &first["subject"]),
        (&json!("audit_receiver.set"), &json!("siem")),
        "{first}"
    );
    write_entries(&world, "acme", 4..=250).await;
    let entries = server.wait_for_entries(248).await;
    let begin = first["position"].as_i64().unwrap();
    assert_eq!(positions(&entries), (begin..begin + 248).collect::<Vec<_>>());
    assert_eq!(
        (&entries[247]["subject"], &entries[247]["detail"]["number"]),
        (&json!("subject 250"), &json!(250))
    );
    wait_until_sent(&world, &key).await;
    let log = world.get("/v1/audit-log?limit=500", &key).await.expect_status(200);
    for entry in &entries {
        assert!(log["items"].as_array().unwrap().contains(entry), "{entry}");
    }
    let receiver = read_receiver(&world, &key).await;
    assert!(receiver["sent_at"].is_string() && receiver["position"] == begin + 247, "{receiver}");
    let ids = server.ids();
    assert_eq!(ids[0], format!("{0}_{0}", first["id"].as_str().unwrap()));
    world.wait_for_metric("unslide_api_audit_export_total{outcome=\"sent\"}", 248.0).await;
    assert!(wait_until(async || world.read_metric("unslide_api_audit_export_lag_seconds") == 0.0).await);
    world.stop().await;
}

#[tokio::test]
async fn a_receiver_can_begin_with_the_first_entry() {
    let server = WebhookServer::start().await;
    let world = start(&[server.port]).await;
    let key = world.create_master_key("acme").await;
    write_entries(&world, "acme", 1..=3).await;
    let body = json!({"name": "siem", "kind": "webhook", "address": server.url(), "secret": crate::audit_export::shop::SECRET, "from_start": true});
    crate::audit_export::shop::put(&world, &key, &body).await.expect_status(200);
    let entries = server.wait_for_entries(4).await;
    assert_eq!(positions(&entries)[0], 1);
    assert_eq!(positions(&entries), (1..=i64::try_from(entries.len()).unwrap()).collect::<Vec<_>>());
    // A change of one that is set goes on where it is.
    wait_until_sent(&world, &key).await;
    set_webhook(&world, &key, &server.url()).await;
    wait_until_sent(&world, &key).await;
    let all = positions(&server.entries());
    assert_eq!(all, (1..=i64::try_from(all.len()).unwrap()).collect::<Vec<_>>());
    world.stop().await;
}

#[tokio::test]
async fn a_test_shows_what_was_sent_and_answered() {
    let server = WebhookServer::start().await;
    let world = start(&[server.port]).await;
    let key = world.create_master_key("acme").await;
    set_webhook(&world, &key, &server.url()).await;
    server.wait_for_entries(1).await;
    let path = format!("{RECEIVERS}/siem/test");
    let test = world.post(&path, &key, "").await.expect_status(200);
    assert_eq!((&test["ok"], &test["status"]), (&json!(true), &json!(204)), "{test}");
    let sent = test["sent"].as_str().unwrap();
    assert!(sent.starts_with(&format!("POST http://127.0.0.1:{}/…\n", server.port)), "{sent}");
    assert!(sent.contains("webhook-signature: v1,") && sent.contains("audit_log.test"), "{sent}");
    assert!(!sent.contains("hidden-path") && !sent.contains(crate::audit_export::shop::SECRET), "{sent}");
    server.answer_with(500);
    let test = world.post(&path, &key, "").await.expect_status(200);
    assert_eq!((&test["ok"], &test["status"]), (&json!(false), &json!(500)), "{test}");
    assert!(test["answer"].as_str().unwrap().contains("HTTP 500"), "{test}");
    world.post(&format!("{RECEIVERS}/other/test"), &key, "").await.expect_problem(404, "not-found");
    world.stop().await;
}

//! The settings of a tenant: checked, sealed, and never shown.

use crate::otlp::otlp_api::start;
use reqwest::Method;
use serde_json::json;
use unslide_model::Scope;
use unslide_otlp::store::remove_settings;
use unslide_world::{tenant_id, wait_until};

#[tokio::test]
async fn headers_are_sealed_and_stay_for_the_same_url_only() {
    let world = start(4_318).await;
    let admin = world.create_master_key("acme").await;
    let put = async |body: serde_json::Value| {
        world.send(world.request(Method::PUT, "/v1/otlp", &admin).json(&body)).await
    };
    let url = "https://otlp.example.com/v1/logs";
    let headers = json!({"Authorization": "Bearer very-secret"});
    let set = put(json!({"export": {"url": url, "headers": headers}})).await.expect_status(200);
    assert_eq!(set["export"]["headers"], json!(["authorization"]));
    let log = world.get("/v1/audit-log", &admin).await.expect_status(200);
    for shown in [set.to_string(), log.to_string()] {
        assert!(!shown.contains("very-secret"), "{shown}");
    }
    assert!(log.to_string().contains("otlp.set"));
    let stored =
        "SELECT count(*) FROM otlp_settings WHERE position('very-secret'::bytea IN sealed_headers) > 0";
    assert_eq!(world.number(stored).await, 0);
    let same = put(json!({"other_records": "refuse", "export": {"url": url}})).await.expect_status(200);
    assert_eq!(same["export"]["headers"], json!(["authorization"]));
    let other = put(json!({"export": {"url": "https://other.example.com/v1/logs"}})).await.expect_status(200);
    assert_eq!(other["export"]["headers"], json!([]), "a secret goes to no other address");
    for (body, named) in [
        (json!({"export": {"url": "ftp://otlp.example.com"}}), "export.url"),
        (json!({"export": {"url": "https://10.0.0.1/v1/logs"}}), "api.otlp.networks"),
        (json!({"export": {"url": "https://otlp.example.com/v1/logs?key=a"}}), "secrets are headers"),
        (json!({"export": {"url": url, "headers": {"host": "x"}}}), "export.headers"),
        (json!({"export": {"url": url, "headers": {"x": "a\nb"}}}), "export.headers.x"),
        (json!({"other_records": "maybe"}), "other_records"),
    ] {
        let refused = put(body).await.expect_problem(400, "invalid-body");
        assert!(refused.contains(named), "{named}: {refused}");
    }
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    world.get("/v1/otlp", &reader).await.expect_problem(403, "insufficient-scope");
    let removed = world.send(world.request(Method::DELETE, "/v1/otlp", &admin)).await.expect_status(200);
    assert!(removed["export"].is_null());
    assert_eq!(world.number("SELECT count(*) FROM otlp_settings").await, 0);
    world.stop().await;
}

#[tokio::test]
async fn headers_that_are_removed_do_not_come_back_with_a_change_at_the_same_time() {
    let world = start(4_318).await;
    let admin = world.create_master_key("acme").await;
    let export = json!({"url": "https://otlp.example.com/v1/logs"});
    let put = async |headers: Option<&serde_json::Value>| {
        let mut body = json!({ "export": export });
        if let Some(headers) = headers {
            body["export"]["headers"] = headers.clone();
        }
        let set = world.request(Method::PUT, "/v1/otlp", &admin).json(&body);
        world.send(set).await.expect_status(200)["export"]["headers"].clone()
    };
    assert_eq!(put(Some(&json!({"authorization": "Bearer a"}))).await, json!(["authorization"]));
    let mut removing = world.store.tenant(&tenant_id("acme")).await.unwrap();
    assert!(remove_settings(&mut removing).await.unwrap());
    let commit = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        assert!(wait_until(async || world.number(waiting).await == 1).await);
        removing.commit().await.unwrap();
    };
    let (headers, ()) = tokio::join!(put(None), commit);
    assert_eq!(headers, json!([]));
    world.stop().await;
}

#[tokio::test]
async fn a_new_collector_gets_nothing_that_was_stored_without_one() {
    let world = start(4_318).await;
    let admin = world.create_master_key("acme").await;
    // A report that was stored while the collector was removed.
    let orphan =
        "INSERT INTO otlp_outbox VALUES ('acme', '01010101-0101-0101-0101-010101010101', 0, 1, now())";
    let set = json!({"export": {"url": "https://otlp.example.com/v1/logs"}});
    let put = async |body: &serde_json::Value| {
        world.send(world.request(Method::PUT, "/v1/otlp", &admin).json(body)).await.expect_status(200)
    };
    for before in [json!({}), json!({"other_records": "refuse"})] {
        put(&before).await;
        world.execute(orphan).await;
        assert_eq!(put(&set).await["export"]["waiting"], 0, "{before}");
    }
    world.send(world.request(Method::DELETE, "/v1/otlp", &admin)).await.expect_status(200);
    world.execute(orphan).await;
    assert_eq!(put(&set).await["export"]["waiting"], 0);
    world.execute(orphan).await;
    assert_eq!(put(&set).await["export"]["waiting"], 1, "what waits stays if the collector does");
    world.stop().await;
}

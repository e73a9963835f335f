//! The settings of a tenant: checked, sealed, and never shown.

use crate::otlp_api::start;
use reqwest::Method;
use serde_json::json;
use unslide_model::Scope;

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

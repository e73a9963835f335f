//! Settings of a tenant's provider.

use crate::person::{Person, put_settings, settings_for, start_world};
use crate::provider::Provider;
use reqwest::StatusCode;
use serde_json::{Value, json};
use unslide_model::Scope;

#[tokio::test]
async fn a_provider_is_refused_that_may_not_be_reached_or_gives_more_than_its_key_may() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    let set = async |key: &str, change: &dyn Fn(&mut Value)| {
        let mut body = settings_for(&provider);
        change(&mut body);
        put_settings(&world, key, &body).await
    };
    let operator =
        set(&admin, &|body| body["rules"][0] = json!({"group": "a", "scopes": ["operator"]})).await;
    assert!(operator.expect_problem(400, "invalid-body").contains("no rule gives the scope operator"));
    let private = set(&admin, &|body| body["issuer"] = "https://10.0.0.1".into()).await;
    assert!(private.expect_problem(400, "invalid-body").contains("api.sign_in.networks"));
    let plain = set(&admin, &|body| body["issuer"] = "ftp://login.example.com".into()).await;
    assert!(plain.expect_problem(400, "invalid-body").contains("https://"));
    let lacking = world.create_key("acme", &[Scope::TenantAdmin]).await;
    set(&lacking, &|_| {}).await.expect_problem(403, "insufficient-scope");
    let limited = world.key_for("acme", &Scope::ALL, Some("com.example.shop")).await;
    set(&limited, &|_| {}).await.expect_problem(403, "insufficient-scope");
    assert!(world.get("/v1/sign-in", &admin).await.expect_status(200)["provider"].is_null());
    let mut robin = Person::new(&world, "acme");
    assert_eq!(robin.open_page("/console/sso/acme").await.status, StatusCode::NOT_FOUND);
    assert_eq!(robin.open_page("/console/sso/unknown").await.status, StatusCode::NOT_FOUND);
    assert!(robin.open_page("/console/sso?tenant=acme").await.text.contains("url=/console/sso/acme"));
    assert!(robin.open_page("/console/sign-in").await.text.contains("href=\"/console/sso\""));
    world.stop().await;
}

#[tokio::test]
async fn a_provider_that_cannot_be_read_is_set_and_named_as_a_problem() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    let mut body = settings_for(&provider);
    // The document names another issuer.
    body["issuer"] = format!("http://localhost:{}", provider.port).into();
    body["client_secret"] = "s3cret".into();
    let set = put_settings(&world, &admin, &body).await.expect_status(200);
    let problem = set["problem"].as_str().unwrap();
    assert!(problem.contains("issuer"), "{problem}");
    assert_eq!(set["provider"]["has_client_secret"], true);
    assert!(!set.to_string().contains("s3cret"));
    let failed = Person::new(&world, "acme").open_page("/console/sso/acme").await;
    assert_eq!(failed.status, StatusCode::BAD_GATEWAY, "{}", failed.text);
    // Another client has no secret of the one before; the same client keeps it.
    body.as_object_mut().unwrap().remove("client_secret");
    let kept = put_settings(&world, &admin, &body).await.expect_status(200);
    assert_eq!(kept["provider"]["has_client_secret"], true);
    body["client_id"] = "another".into();
    let changed = put_settings(&world, &admin, &body).await.expect_status(200);
    assert_eq!(changed["provider"]["has_client_secret"], false);
    world.stop().await;
}

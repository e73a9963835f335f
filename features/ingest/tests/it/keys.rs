//! Public keys from their creation to their end.

use crate::world::{A, APP, public_key, send, start};
use serde_json::json;
use unslide_model::Scope;
use unslide_store::tenants::{self, QuotaLimits, TenantStanding};
use unslide_world::{report_json, tenant_id, wait_until};

#[tokio::test]
async fn a_key_is_retired_closed_and_opened_again() {
    let world = start().await;
    let admin = world.create_master_key("acme").await;
    let key = public_key(&world, "acme", &[APP]).await;
    let text = key["key"].as_str().unwrap();
    let path = format!("/v1/public-keys/{}", key["id"].as_str().unwrap());
    let body = report_json(A).to_string();
    for (state, status) in [("active", 202), ("retired", 202), ("closed", 401), ("active", 202)] {
        let changed = world.patch(&path, &admin, &json!({"state": state})).await.expect_status(200);
        assert_eq!(changed["state"], state);
        assert_eq!(changed["closed_at"].is_string(), state == "closed");
        assert_eq!(send(&world, text, body.clone()).await.status.as_u16(), status, "{state}");
    }
    assert_eq!(world.get(&path, &admin).await.expect_status(200)["key"], text);
    let listed = world.get("/v1/public-keys", &admin).await;
    assert!(!listed.text.contains("usp_") && listed.text.contains(key["id"].as_str().unwrap()));
    let used = async || world.number("SELECT count(*) FROM ingest_keys WHERE last_used_at IS NOT NULL").await;
    assert!(wait_until(async || used().await == 1).await);
    world.execute("UPDATE ingest_keys SET state = 'closed', closed_at = now() - interval '31 days'").await;
    world.patch(&path, &admin, &json!({"state": "active"})).await.expect_problem(404, "not-found");
    assert_eq!(unslide_ingest::store::purge_closed(&world.store).await.unwrap(), 1);
    assert_eq!(world.number("SELECT count(*) FROM ingest_keys").await, 0);
    world.stop().await;
}

#[tokio::test]
async fn a_wrong_key_is_refused_with_the_field_that_is_wrong() {
    let world = start().await;
    let admin = world.create_master_key("acme").await;
    let make = async |apps: &[&str]| {
        let new = json!({"name": "app", "apps": apps});
        world.post_json("/v1/public-keys", &admin, &new).await.expect_problem(400, "invalid-body")
    };
    assert!(make(&[]).await.contains("apps: 1 to 20"));
    assert!(make(&[APP, "com.*"]).await.contains("apps.1: a pattern needs at least two parts"));
    assert!(make(&["no app"]).await.contains("apps.0: a bundle identifier"));
    let lacking = world.create_key("acme", &[Scope::ReportsWrite, Scope::ReportsRead]).await;
    let new = json!({"name": "app", "apps": [APP]});
    world.post_json("/v1/public-keys", &lacking, &new).await.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

/// Proves: keys
#[tokio::test]
async fn a_key_for_one_app_makes_and_sees_public_keys_of_that_app_alone() {
    let world = start().await;
    let other = public_key(&world, "acme", &["com.example.other"]).await;
    let both = public_key(&world, "acme", &[APP, "com.example.other"]).await;
    let admin = world.key_for("acme", &Scope::ALL, Some(APP)).await;
    let new = |app: &str| json!({"name": "app", "apps": [app]});
    let made = world.post_json("/v1/public-keys", &admin, &new(APP)).await.expect_status(201);
    let refused = world.post_json("/v1/public-keys", &admin, &new("com.example.*")).await;
    refused.expect_problem(403, "insufficient-scope");
    let listed = world.get("/v1/public-keys", &admin).await.expect_status(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(listed["items"][0]["id"], made["id"]);
    for key in [&other, &both] {
        let path = format!("/v1/public-keys/{}", key["id"].as_str().unwrap());
        world.get(&path, &admin).await.expect_problem(404, "not-found");
        world.patch(&path, &admin, &json!({"state": "closed"})).await.expect_problem(404, "not-found");
    }
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn a_public_key_does_nothing_but_send() {
    let world = start().await;
    let key = public_key(&world, "acme", &[APP]).await;
    let text = key["key"].as_str().unwrap();
    for path in ["/v1/reports", "/v1/key", "/v1/public-keys", "/v1/symbols"] {
        world.get(path, text).await.expect_problem(401, "unauthorized");
    }
    world.post_json("/v1/reports", text, &report_json(A)).await.expect_problem(401, "unauthorized");
    // A key of the API is no public key.
    let master = world.create_master_key("acme").await;
    assert_eq!(send(&world, &master, report_json(A).to_string()).await.status, 401);
    world.stop().await;
}

#[tokio::test]
async fn the_app_of_a_suspended_tenant_is_told_so() {
    let world = start().await;
    let key = public_key(&world, "acme", &[APP]).await;
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    tenants::change_tenant(&mut tx, "acme", TenantStanding::Suspended, &QuotaLimits::default())
        .await
        .unwrap()
        .unwrap();
    tx.commit().await.unwrap();
    let answer = send(&world, key["key"].as_str().unwrap(), report_json(A).to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (403, "the tenant is suspended"));
    world.stop().await;
}

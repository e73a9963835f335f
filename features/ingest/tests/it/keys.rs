//! Public keys from their creation to their end.

use crate::ingest::ingest_api::{A, APP, B, public_key, report_of, send, start};
use serde_json::json;
use unslide_ingest::store::{self, CountedVersion, VersionUses};
use unslide_model::Scope;
use unslide_store::keys;
use unslide_store::tenants::{self, QuotaLimits, TenantStanding};
use unslide_world::{Browser, World, report_json, tenant_id, wait_until};

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
    let used = async || {
        world.number("SELECT count(*) FROM keys WHERE kind = 'public' AND last_used_at IS NOT NULL").await
    };
    assert!(wait_until(async || used().await == 1).await);
    world.execute("UPDATE keys SET revoked_at = now() - interval '31 days' WHERE kind = 'public'").await;
    world.patch(&path, &admin, &json!({"state": "active"})).await.expect_problem(404, "not-found");
    assert_eq!(keys::purge_keys(&world.store).await.unwrap(), 1);
    assert_eq!(world.number("SELECT count(*) FROM keys WHERE kind = 'public'").await, 0);
    world.stop().await;
}

#[tokio::test]
async fn a_key_shows_the_versions_of_apps_that_use_it() {
    let world = start().await;
    let admin = world.create_master_key("acme").await;
    let key = public_key(&world, "acme", &[APP]).await;
    let (text, id) = (key["key"].as_str().unwrap(), key["id"].as_str().unwrap());
    let mut newer = report_json(B);
    newer["system"]["CFBundleShortVersionString"] = "1.3".into();
    let body = format!("[{},{newer},{newer},{}]", report_json(A), report_of("com.example.other", A));
    assert_eq!(send(&world, text, body).await.status, 202);
    let run = json!({"schema_version": 1, "run_id": A, "started_at_ms": 1, "ended_at_ms": 2, "device_id": "d",
        "outcome": {"termination_reason": "clean"}, "app": {"bundle_id": APP, "short_version": "1.3"}});
    assert_eq!(send(&world, &format!("{text}/runs"), run.to_string()).await.status, 202);
    let counted = async || {
        world.number("SELECT coalesce(sum(reports + runs), 0)::bigint FROM ingest_key_versions").await
    };
    assert!(wait_until(async || counted().await == 4).await);
    let path = format!("/v1/public-keys/{id}");
    let shown = world.get(&path, &admin).await.expect_status(200);
    let versions = shown["versions"].as_array().unwrap();
    let facts = |at: usize| json!([versions[at]["version"], versions[at]["reports"], versions[at]["runs"]]);
    assert_eq!(versions.len(), 2);
    assert_eq!((facts(0), facts(1)), (json!(["1.3", 2, 1]), json!(["1.2", 1, 0])));
    assert_eq!(versions[0]["app"], APP);
    assert_eq!(shown["today"], json!({"reports": 3, "all_reports": 0}));
    let foreign = world.create_master_key("umbrella").await;
    world.get(&path, &foreign).await.expect_problem(404, "not-found");
    let hour =
        "INSERT INTO app_hours VALUES ('acme', 'com.example.shop', '1.3', date_trunc('hour', now()), 60, 0)";
    world.execute(hour).await;
    let browser = Browser::signed_in(&world, &admin).await;
    let page = browser.fetch_page("/console/public-keys").await;
    assert!(page.contains("Closing it loses 5.0 % of today"), "{page}");
    assert!(page.contains("<b>1.3</b>") && page.contains("2 reports, 1 run in 30 days"), "{page}");
    count_many_versions(&world, id).await;
    let rows = world.number("SELECT count(*) FROM ingest_key_versions").await;
    assert!((100..200).contains(&rows), "{rows}");
    let shown = world.get(&path, &admin).await.expect_status(200);
    assert_eq!(shown["versions"].as_array().unwrap().len(), 100);
    world.execute("UPDATE ingest_key_versions SET day = day - 91").await;
    assert_eq!(
        i64::try_from(unslide_store::tables::purge_old_rows(&world.store).await.unwrap()).unwrap(),
        rows
    );
    world.stop().await;
}

/// Counts versions without end, as a stranger may send them.
async fn count_many_versions(world: &World, id: &str) {
    let day = world.store.now().date();
    let many: Vec<CountedVersion> = (0..300)
        .map(|number| CountedVersion {
            key_id: id.to_owned(),
            day,
            app: APP.to_owned(),
            version: format!("0.{number}"),
            uses: VersionUses { reports: 1, runs: 0 },
        })
        .collect();
    for some in many.chunks(50) {
        store::count_versions(&world.store, &tenant_id("acme"), some).await.unwrap();
    }
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

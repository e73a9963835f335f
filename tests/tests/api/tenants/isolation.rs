//! One tenant's requests next to another's.
//! Proves: isolation

use crate::reports::{A, crash, store};
use crate::world::{World, tenant_id};
use reqwest::Method;
use serde_json::json;
use unslide_model::{Owner, Scope};

const FILE: &[u8] = b"\xcf\xfa\xed\xfe some bytes";

#[tokio::test]
async fn the_figures_name_no_tenant_and_no_id() {
    let world = World::start().await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let mut ids = vec!["acme".to_owned(), "umbrella".to_owned(), A.to_owned(), "com.example.shop".to_owned()];
    for key in [&acme, &umbrella] {
        let upload = world.post("/v1/symbols", key, FILE.to_vec()).await.expect_status(202);
        ids.push(upload["id"].as_str().unwrap().to_owned());
        ids.push(key.split('_').nth(1).unwrap().to_owned());
        world.post_json("/v1/reports", key, &crash(A, "1.0")).await.expect_status(202);
        world.get(&format!("/v1/reports/{A}"), key).await.expect_problem(404, "not-found");
        world.get("/v1/apps/com.example.shop/versions", key).await.expect_problem(404, "not-found");
        world.get("/v1/tenants/acme", key).await.expect_status(200);
        world.get("/v1/acme/nowhere", key).await.expect_problem(404, "not-found");
    }
    let page = world.host.process_metrics().render_page().unwrap();
    assert!(page.contains("unslide_api_requests_total"), "{page}");
    for id in ids {
        assert!(!page.contains(&id), "{id} is in\n{page}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_cursor_is_of_no_use_to_another_tenant() {
    let world = World::start().await;
    let now = world.host.clock.now();
    for n in 1..=3 {
        let id = format!("{n}{}", A.get(1..).unwrap());
        store(&world, "acme", &crash(&id, "1.0"), 1, now).await;
        store(&world, "umbrella", &crash(&id, "1.0"), 1, now).await;
    }
    let acme = world.create_key("acme", &[Scope::ReportsRead]).await;
    let umbrella = world.create_key("umbrella", &[Scope::ReportsRead]).await;
    let first = world.get("/v1/reports?limit=1", &acme).await.expect_status(200);
    let path = format!("/v1/reports?limit=1&cursor={}", first["next_cursor"].as_str().unwrap());
    let foreign = world.get(&path, &umbrella).await;
    // Word for word what is said of a cursor for other filters of the same tenant.
    let other = world.get(&format!("{path}&app=com.example.other"), &acme).await;
    assert_eq!(foreign.parse_json()["detail"], other.parse_json()["detail"]);
    foreign.expect_problem(400, "invalid-parameter");
    world.get(&path, &acme).await.expect_status(200);
    // Nor to a key for one app of the same tenant.
    let narrow = world.key_for("acme", &[Scope::ReportsRead], Some("com.example.other")).await;
    world.get(&path, &narrow).await.expect_problem(400, "invalid-parameter");
    world.stop().await;
}

/// What makes a request the same as an earlier one, the bytes of a file or a report's id, counts within
/// one tenant.
#[tokio::test]
async fn the_same_bytes_and_ids_are_each_tenants_own() {
    let world = World::start().await;
    let (acme, umbrella) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let mut uploads = Vec::new();
    for key in [&acme, &umbrella] {
        let upload = world.post("/v1/symbols", key, FILE.to_vec()).await.expect_status(202);
        assert_eq!(upload["existing"], false);
        uploads.push(upload["id"].as_str().unwrap().to_owned());
        world.post_json("/v1/reports", key, &crash(A, "1.0")).await.expect_status(202);
    }
    assert_ne!(uploads[0], uploads[1]);
    for of in ["acme", "umbrella"] {
        assert_eq!(world.list_objects(of).await.len(), 1);
        store(&world, of, &crash(A, of), 1, world.host.clock.now()).await;
    }
    for (key, of) in [(&acme, "acme"), (&umbrella, "umbrella")] {
        let report = world.get(&format!("/v1/reports/{A}"), key).await;
        assert!(report.text.contains(&format!("\"{of}\"")), "{}", report.text);
        assert_eq!(report.headers["x-report-variants"], "1");
    }
    world.stop().await;
}

/// A key for one app sends, sees and deletes what is of that app alone, in every operation on symbols.
/// Proves: keys
#[tokio::test]
async fn a_key_for_one_app_has_the_symbols_of_that_app() {
    let world = World::start().await;
    let shop = world.key_for("acme", &Scope::ALL, Some("com.example.shop")).await;
    let other = world.key_for("acme", &Scope::ALL, Some("com.example.other")).await;
    let sent = world.post("/v1/symbols", &shop, FILE.to_vec()).await.expect_status(202);
    let path = format!("/v1/symbols/uploads/{}", sent["id"].as_str().unwrap());
    assert_eq!(world.get(&path, &shop).await.expect_status(200)["app"], "com.example.shop");
    world.get(&path, &other).await.expect_problem(404, "not-found");
    let forged = "/v1/symbols?app=com.example.shop";
    world.post(forged, &other, FILE.to_vec()).await.expect_problem(403, "insufficient-scope");
    // The same bytes: the answer does not say that they are there.
    let again = world.post("/v1/symbols", &other, FILE.to_vec()).await.expect_status(202);
    assert_eq!(again["existing"], false);
    // And in parts: neither sees the other's, nor adds to it.
    let new = json!({"size": 15, "sha256": "1".repeat(64)});
    let begin = async |key: &str| {
        let begun = world.post_json("/v1/symbols/uploads", key, &new).await.expect_status(200);
        format!("/v1/symbols/uploads/{}", begun["id"].as_str().unwrap())
    };
    let (ours, theirs) = (begin(&shop).await, begin(&other).await);
    assert_eq!((begin(&shop).await == ours, ours == theirs), (true, false));
    let part = world.request(Method::PUT, &format!("{ours}/parts/1"), &other).body(FILE.to_vec());
    world.send(part).await.expect_problem(404, "not-found");
    world.post(&format!("{ours}/complete"), &other, "").await.expect_problem(404, "not-found");
    let forged = json!({"size": 15, "sha256": "2".repeat(64), "app": "com.example.shop"});
    world.post_json("/v1/symbols/uploads", &other, &forged).await.expect_problem(403, "insufficient-scope");
    let acme = Owner::Tenant(tenant_id("acme"));
    let debug_id = crate::symbols::stored_by(&world, &acme, Some("com.example.shop")).await;
    let one = format!("/v1/symbols/{debug_id}");
    let check = json!({"debug_ids": [debug_id]});
    for (key, seen) in [(&shop, true), (&other, false)] {
        let listed = world.get("/v1/symbols", key).await.expect_status(200);
        assert_eq!(listed["items"].as_array().unwrap().len(), usize::from(seen));
        let checked = world.post_json("/v1/symbols/check", key, &check).await.expect_status(200);
        assert_eq!(checked["ready"], seen);
        assert_eq!(world.get(&one, key).await.status.as_u16(), if seen { 200 } else { 404 });
    }
    world.delete(&one, &other).await.expect_problem(404, "not-found");
    // Once another app has brought the same object, neither takes it away from the other.
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let second =
        unslide_store::uploads::create_upload(&mut tx, None, Some("com.example.other")).await.unwrap();
    tx.commit().await.unwrap();
    crate::symbols::object(&world, &acme, second, &debug_id, true).await;
    world.delete(&one, &shop).await.expect_problem(403, "insufficient-scope");
    world.get(&one, &other).await.expect_status(200);
    world.stop().await;
}

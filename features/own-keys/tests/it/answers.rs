//! The operations, their files, and the pages.

use crate::own_keys::keyed_reports::{APP, group_of, with_keys};
use serde_json::{Value, json};
use unslide_model::Scope;
use unslide_store::partitions;
use unslide_store::reports::{Effects, store_arrivals};
use unslide_world::{Browser, World, tenant_id};

/// Starts an api, with reports of two groups, and makes a key that reads them.
async fn start_world() -> (World, String) {
    let features = [unslide_console::feature(), unslide_own_keys::feature(), unslide_export::feature()];
    let world = World::start(unslide_feature::for_api(&features), |_| {}).await;
    let key = world.create_key("acme", &[Scope::ReportsRead]).await;
    let now = world.host.clock.now();
    partitions::ensure_partitions(&world.store, now.date(), now.date()).await.unwrap();
    let reports: Vec<_> = (0..12)
        .map(|n| {
            let bug = if n < 6 { 1 } else { 2 };
            let plan = if n < 6 { "pro, yearly" } else { "free" };
            let mut report = with_keys(n, bug, json!({"plan": plan, "flags.checkout/new": "<b>"}));
            report.received_at = now;
            report
        })
        .collect();
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    store_arrivals(&mut tx, &reports, Effects::Now, None).await.unwrap();
    tx.commit().await.unwrap();
    (world, key)
}

#[tokio::test]
async fn keys_and_values_have_their_counts_and_reports_are_found_by_them() {
    let (world, key) = start_world().await;
    let keys = format!("/v1/apps/{APP}/keys");
    let found = world.get(&keys, &key).await.expect_status(200);
    assert_eq!((&found["sample"], &found["other_keys"]), (&json!(12), &json!(0)));
    let plan = json!({"name": "plan", "reports": 12, "share": 100.0, "values": 2});
    assert_eq!(found["items"][1], plan);
    let found = world.get(&format!("{keys}/plan"), &key).await.expect_status(200);
    let value = |value: &str| json!({"value": value, "reports": 6, "share": 50.0});
    assert_eq!(found["items"], json!([value("free"), value("pro, yearly")]));
    assert_eq!((&found["reports"], &found["other"]), (&json!(12), &Value::Null));
    let encoded = world.get(&format!("{keys}/flags.checkout%2Fnew"), &key).await.expect_status(200);
    assert_eq!(encoded["items"][0]["value"], "<b>");
    let group = group_of(1);
    let of_group = world.get(&format!("{keys}/plan?group={group}"), &key).await.expect_status(200);
    assert_eq!((&of_group["sample"], &of_group["items"][0]["value"]), (&json!(6), &json!("pro, yearly")));
    let reports = world.get("/v1/reports?key=plan=pro,%20yearly", &key).await.expect_status(200);
    assert_eq!(reports["items"].as_array().unwrap().len(), 6);
    let csv = world.get(&format!("{keys}?format=csv"), &key).await;
    assert_eq!(csv.text, "name,reports,share,values\r\nflags.checkout/new,12,100.0,1\r\nplan,12,100.0,2\r\n");
    let lines = world.get(&format!("{keys}/plan?format=ndjson"), &key).await;
    assert!(lines.text.starts_with(r#"{"value":"free","#), "{}", lines.text);
    world.stop().await;
}

#[tokio::test]
async fn foreign_apps_and_groups_are_not_found() {
    let (world, key) = start_world().await;
    let foreign = world.create_key("umbrella", &[Scope::ReportsRead]).await;
    let other_app = world.key_for("acme", &[Scope::ReportsRead], Some("com.acme.other")).await;
    let uploader = world.create_key("acme", &[Scope::SymbolsWrite]).await;
    let group = group_of(1);
    for path in ["keys", "keys/plan"] {
        let path = format!("/v1/apps/{APP}/{path}");
        for foreign in [&foreign, &other_app] {
            world.get(&path, foreign).await.expect_problem(404, "not-found");
            world.get(&format!("{path}?group={group}"), foreign).await.expect_problem(404, "not-found");
        }
        world.get(&path, &uploader).await.expect_problem(403, "insufficient-scope");
        let both = format!("{path}?group={group}&version=1.0");
        world.get(&both, &key).await.expect_problem(400, "invalid-parameter");
        world.get(&format!("{path}?group=!"), &key).await.expect_problem(400, "invalid-parameter");
    }
    world.get(&format!("/v1/apps/{APP}/keys/none"), &key).await.expect_problem(404, "not-found");
    let other = format!("/v1/apps/com.acme.other/keys?group={group}");
    world.get(&other, &key).await.expect_problem(404, "not-found");
    world.stop().await;
}

#[tokio::test]
async fn a_person_gets_from_a_key_to_its_reports() {
    let (world, key) = start_world().await;
    let browser = Browser::signed_in(&world, &key).await;
    let page = browser.fetch_page("/console/own-keys").await;
    for words in ["Own keys", "newest 12 reports", "flags.checkout/new", "key=plan"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let page = browser.fetch_page(&format!("/console/own-keys?app={APP}&version=1.0&key=plan")).await;
    for words in ["pro, yearly", "50 %", "key=plan%3Dpro%2C+yearly", "counted=true"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let page = browser.fetch_page(&format!("/console/own-keys?app={APP}&key=flags.checkout%2Fnew")).await;
    assert!(page.contains("&lt;b&gt;") || page.contains("&#60;b&#62;"), "{page}");
    let page = browser.fetch_page("/console/own-keys?app=com.acme.none").await;
    assert!(page.contains("No report of this app and version is stored"), "{page}");
    let page = browser.fetch_page(&format!("/console/groups/{}", group_of(1))).await;
    for words in ["Own keys that stand out", "plan: pro, yearly", "key=plan%3Dpro"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let page = browser.fetch_page("/console/reports?key=plan%3Dfree").await;
    assert!(page.contains("6 reports") && page.contains("value=\"plan=free\""), "{page}");
    world.stop().await;
}

//! The switch, and who sees which source lines.

use crate::source_context::source_world::{APP, BUNDLES, SourceWorld, bundle};
use serde_json::{Value, json};
use unslide_model::Scope;
use unslide_store::tenants::QuotaLimits;
use unslide_world::{Browser, tenant_id};

const TEXT: &str = "one\ntwo\n  let total = <b>\nfour\n";

async fn frames(world: &SourceWorld, report: &str, key: &str) -> Value {
    world.get(&format!("{report}/source-context"), key).await.expect_status(200)["frames"].clone()
}

#[tokio::test]
async fn lines_are_shown_while_the_tenant_keeps_source_files() {
    let world = SourceWorld::start().await;
    let key = world.create_master_key("acme").await;
    let report = world.store_report("acme").await;
    let sent = world.post(BUNDLES, &key, bundle(TEXT)).await.expect_status(200);
    assert_eq!(
        (sent["stored"].clone(), world.number("SELECT count(*) FROM source_bundles").await),
        (json!(false), 0)
    );
    assert!(sent["detail"].as_str().unwrap().contains("PUT /v1/sources"), "{sent}");

    world.switch(&key, true).await.expect_status(200);
    for _ in 0..2 {
        let sent = world.post(&format!("{BUNDLES}?app={APP}"), &key, bundle(TEXT)).await.expect_status(200);
        assert_eq!(sent, json!({"stored": true, "files": 1}));
    }
    let lines = ["one", "two", "  let total = <b>", "four"];
    let expected = json!([{"thread": 0, "javascript": false, "frame": 0, "function": "Cart.total()",
        "path": crate::source_context::source_world::PATH, "line": 3, "context": {"first_line": 1, "lines": lines}}]);
    assert_eq!(frames(&world, &report, &key).await, expected);
    let markdown = world.get(&format!("{report}?format=markdown"), &key).await.text;
    assert!(markdown.contains("    >     3 |   let total = <b>"), "{markdown}");
    let browser = Browser::signed_in(&world, &key).await;
    let page = format!("/console{}", report.trim_start_matches("/v1"));
    let shown = browser.fetch_page(&page).await;
    assert!(shown.contains("let total = &#60;b&#62;") && shown.matches("line own").count() == 1, "{shown}");
    assert!(browser.fetch_page("/console/sources").await.contains("1 bundle with 1 source file stored"));

    // At once, and the bundle stays.
    assert_eq!(browser.post("/console/sources", String::new()).await.status, 303);
    let stored = "SELECT count(*) FROM source_switches WHERE NOT enabled";
    assert_eq!(world.number(stored).await, 1, "the choice is stored, whatever the default is");
    assert_eq!(frames(&world, &report, &key).await, json!([]));
    assert!(!browser.fetch_page(&page).await.contains("let total"));
    assert!(!world.get(&format!("{report}?format=markdown"), &key).await.text.contains("let total"));
    let state = world.get("/v1/sources", &key).await.expect_status(200);
    assert_eq!(
        (&state["enabled"], &state["bundles"], &state["files"]),
        (&json!(false), &json!(1), &json!(1))
    );
    let log = world.get("/v1/audit-log", &key).await.expect_status(200);
    assert_eq!(log["items"][0]["action"], "sources.set", "{log}");
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn a_tenant_and_a_key_for_one_app_see_their_own_source_files_only() {
    let world = SourceWorld::start().await;
    let (acme, other) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    let (report, same) = (world.store_report("acme").await, world.store_report("umbrella").await);
    for key in [&acme, &other] {
        world.switch(key, true).await.expect_status(200);
    }
    world.post(&format!("{BUNDLES}?app=com.acme.other"), &acme, bundle(TEXT)).await.expect_status(200);
    assert_eq!(frames(&world, &report, &acme).await.as_array().unwrap().len(), 1);
    assert_eq!(frames(&world, &same, &other).await, json!([]));
    let app = world.key_for("acme", &[Scope::ReportsRead, Scope::SymbolsWrite], Some(APP)).await;
    assert_eq!(frames(&world, &report, &app).await, json!([]), "the bundle is of another app");
    world
        .post(&format!("{BUNDLES}?app=com.acme.other"), &app, bundle(TEXT))
        .await
        .expect_problem(403, "insufficient-scope");
    world.post(BUNDLES, &app, bundle("1\n2\nits own\n")).await.expect_status(200);
    assert_eq!(frames(&world, &report, &app).await[0]["context"]["lines"][2], "its own");
    assert_eq!(
        frames(&world, &report, &acme).await[0]["context"]["lines"][2],
        "its own",
        "the app's own is preferred"
    );
    let reader = world.create_key("acme", &[Scope::ReportsRead]).await;
    assert_eq!(world.get("/v1/sources", &reader).await.status, 403);
    assert_eq!(world.post(BUNDLES, &reader, bundle(TEXT)).await.status, 403);
    world.stop().await;
}

#[tokio::test]
async fn bundles_count_against_the_limit_and_go_with_symbols_and_by_age() {
    let world = SourceWorld::start().await;
    let key = world.create_master_key("acme").await;
    world.switch(&key, true).await.expect_status(200);
    world.post(BUNDLES, &key, "SYSB no bundle").await.expect_problem(400, "invalid-upload");
    world.post(BUNDLES, &key, bundle(TEXT)).await.expect_status(200);
    assert!(world.number("SELECT sum(size)::bigint FROM source_bundles").await > 100);
    world.change_limits("acme", &QuotaLimits { symbol_bytes: 200, ..QuotaLimits::default() }).await;
    let limited = world.create_master_key("acme").await;
    world.post(BUNDLES, &limited, bundle("another\n")).await.expect_problem(507, "symbol-quota");

    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    assert_eq!(unslide_store::feature_files(&mut tx).await.unwrap().len(), 1);
    let today = tx.now().date();
    assert_eq!(unslide_store::expire_features(&mut tx, today, 10).await.unwrap(), 0);
    assert_eq!(unslide_store::expire_features(&mut tx, today.next_day().unwrap(), 10).await.unwrap(), 1);
    tx.rollback().await.unwrap();

    let id = crate::source_context::source_world::ID;
    world
        .execute(&format!(
            "INSERT INTO objects (tenant, content_hash, debug_id, name, arch, kind, size, status, created_at, updated_at)
             VALUES ('acme', sha256('x'), '{id}', 'Shop', 'arm64', 'dsym', 1, 'ready', now(), now())"
        ))
        .await;
    assert_eq!(world.delete(&format!("/v1/symbols/{id}"), &key).await.status, 204);
    assert_eq!(world.number("SELECT count(*) FROM source_bundles").await, 0);
    let stored = world.list_objects("acme").await;
    let bundles: Vec<&String> = stored.iter().filter(|key| key.contains("/source-bundles/")).collect();
    let condemned =
        world.number("SELECT count(*) FROM condemned_objects WHERE key LIKE '%/source-bundles/%'").await;
    assert!(!bundles.is_empty() && condemned >= 1, "{stored:?}");
    world.stop().await;
}

//! What tenants use, as operators see it over HTTP and in the console.

use crate::world::Browser;
use crate::world::{World, tenant_id};
use reqwest::StatusCode;
use serde_json::{Value, json};
use unslide_model::Scope;
use unslide_store::erasure;

/// Gives umbrella 950 of its 1,000 bytes of symbols, and both tenants reports in this hour.
async fn fill(world: &World) {
    world.execute("UPDATE tenants SET limits = '{\"symbol_bytes\": 1000}' WHERE slug = 'umbrella'").await;
    world
        .execute(
            "INSERT INTO objects (tenant, content_hash, name, arch, kind, size, status, created_at, updated_at)
             VALUES ('umbrella', decode(repeat('ab', 32), 'hex'), 'Shop', 'arm64', 'dsym', 950, 'ready', now(), now())",
        )
        .await;
    world
        .execute(
            "INSERT INTO app_hours (tenant, app, version, hour, reports, fatal)
             VALUES ('acme', 'shop', '1.0', date_trunc('hour', now()), 1234, 0),
                    ('umbrella', 'shop', '1.0', date_trunc('hour', now()), 7, 0)",
        )
        .await;
}

fn slugs(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|tenant| tenant["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn operators_list_the_loudest_or_fullest_tenants_first() {
    let world = World::start().await;
    fill(&world).await;
    let operator = world.create_key("acme", &[Scope::Operator]).await;
    let loudest = world.get("/v1/tenant-usage", &operator).await.expect_status(200);
    assert_eq!(slugs(&loudest), ["acme", "umbrella"]);
    assert_eq!(loudest["items"][0]["reports_last_hour"], 1_234);
    for sort in ["full", "symbols"] {
        let fullest = world.get(&format!("/v1/tenant-usage?sort={sort}"), &operator).await.expect_status(200);
        assert_eq!(slugs(&fullest), ["umbrella", "acme"], "{sort}");
        let full = &fullest["items"][0];
        assert_eq!((&full["symbol_bytes"], &full["symbol_limit_bytes"]), (&950.into(), &1_000.into()));
        let default = &fullest["items"][1];
        assert_eq!((&default["symbol_limit_bytes"], &default["keys"]), (&(1_u64 << 40).into(), &1.into()));
    }
    let first = world.get("/v1/tenant-usage?sort=full&limit=1", &operator).await.expect_status(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = world.get(&format!("/v1/tenant-usage?sort=full&cursor={cursor}"), &operator).await;
    assert_eq!(slugs(&second.expect_status(200)), ["acme"]);
    for query in ["sort=size", "sort=", "limit=0", "limit=501", "cursor=zz", &format!("cursor={cursor}")] {
        let answer = world.get(&format!("/v1/tenant-usage?{query}"), &operator).await;
        answer.expect_problem(400, "invalid-parameter");
    }
    let others: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Operator).collect();
    let admin = world.create_key("acme", &others).await;
    world.get("/v1/tenant-usage", &admin).await.expect_problem(403, "insufficient-scope");
    let narrow = world.key_for("acme", &Scope::ALL, Some("com.example.shop")).await;
    world.get("/v1/tenant-usage", &narrow).await.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

#[tokio::test]
async fn a_tenant_may_be_called_as_the_list_is() {
    let world = World::start().await;
    let operator = world.create_key("acme", &[Scope::Operator]).await;
    for slug in ["usage", "tenant-usage"] {
        world.post_json("/v1/tenants", &operator, &json!({"id": slug})).await.expect_status(201);
        let path = format!("/v1/tenants/{slug}");
        assert_eq!(world.get(&path, &operator).await.expect_status(200)["id"], slug);
        world.delete(&path, &operator).await.expect_status(202);
    }
    world.stop().await;
}

/// The texts of the table's rows.
fn rows(page: &str) -> Vec<&str> {
    page.split("<tr data-row>").skip(1).map(|row| row.split("</tr>").next().unwrap()).collect()
}

#[tokio::test]
async fn the_page_of_tenants_shows_usage_beside_limits() {
    let world = World::start().await;
    fill(&world).await;
    let name = "<script>alert(1)</script>\u{202e}\" onmouseover=\"x";
    world
        .execute(&format!("UPDATE tenants SET name = '{name}', state = 'suspended' WHERE slug = 'umbrella'"))
        .await;
    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let page = browser.fetch_page("/console/tenants").await;
    let loudest = rows(&page);
    assert!(loudest[0].contains("1\u{202f}234 in 1 h") && loudest[0].contains(" 0 %"), "{}", loudest[0]);
    for wanted in ["7 in 1 h", "950 B of 1000 B, 95 %", "bar-share warn", "near its limit", "suspended"] {
        assert!(loudest[1].contains(wanted), "{wanted}: {}", loudest[1]);
    }
    assert!(page.contains("&#60;script&#62;alert(1)") && page.contains(r"\u{202e}"), "{page}");
    for raw in ["<script>alert", "\u{202e}", "\" onmouseover"] {
        assert!(!page.contains(raw), "{raw}: {page}");
    }
    let page = browser.fetch_page("/console/tenants?sort=full").await;
    assert!(rows(&page)[0].contains("95 %") && page.contains("<option value=\"full\" selected>"), "{page}");
    world.execute("UPDATE objects SET size = 1000 WHERE tenant = 'umbrella'").await;
    let page = browser.fetch_page("/console/tenants?sort=full").await;
    assert!(rows(&page)[0].contains("100 %") && rows(&page)[0].contains("bar-share bad"), "{page}");
    assert_eq!(browser.get("/console/tenants?sort=size").await.status, StatusCode::BAD_REQUEST);
    world.stop().await;
}

#[tokio::test]
async fn the_page_of_tenants_is_for_operators_and_may_be_empty() {
    let world = World::start().await;
    let others: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Operator).collect();
    let keys = [
        world.create_key("acme", &others).await,
        world.key_for("acme", &Scope::ALL, Some("com.example.shop")).await,
    ];
    for key in keys {
        let browser = Browser::signed_in(&world, &key).await;
        assert!(!browser.fetch_page("/console").await.contains("/console/tenants"));
        assert_eq!(browser.get("/console/tenants").await.status, StatusCode::FORBIDDEN);
    }
    let operator = world.create_master_key("acme").await;
    let browser = Browser::signed_in(&world, &operator).await;
    assert!(browser.fetch_page("/console").await.contains("href=\"/console/tenants\""));
    assert!(
        browser
            .fetch_page("/console/tenants")
            .await
            .contains("href=\"/console/tenants\" aria-current=\"page\"")
    );
    let first = world.get("/v1/tenant-usage?limit=1", &operator).await.expect_status(200);
    let path = format!("/console/tenants?cursor={}", first["next_cursor"].as_str().unwrap());
    assert!(browser.fetch_page(&path).await.contains("umbrella"));
    let mut tx = world.store.tenant(&tenant_id("umbrella")).await.unwrap();
    erasure::begin_erasure(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert!(browser.fetch_page(&path).await.contains("There are no further tenants"));
    world.stop().await;
}

//! Source files of source maps.

use crate::source_context::source_world::{APP, ID, SourceWorld};
use serde_json::json;
use unslide_artifacts::Put;
use unslide_artifacts::keys::for_object;
use unslide_model::{ContentHash, Scope};
use unslide_world::{Browser, tenant_id};

/// Proves: isolation
#[tokio::test]
async fn a_source_of_a_map_is_an_attachment_for_keys_that_may_download() {
    let world = SourceWorld::start().await;
    let map = json!({"version": 3, "sourceRoot": "src", "sources": ["cart.ts"], "mappings": "",
        "sourcesContent": ["let a;\n<script>\n"]});
    let bytes = map.to_string().into_bytes();
    let key = for_object(tenant_id("acme").scope(ContentHash([7; 32])));
    let size = bytes.len();
    world.bucket().await.put(&key, bytes.into(), &Put::default()).await.unwrap();
    world
        .execute(&format!(
            "INSERT INTO objects (tenant, content_hash, debug_id, name, arch, kind, size, status, created_at, updated_at)
             VALUES ('acme', decode(repeat('07', 32), 'hex'), '{ID}', 'main.map', 'javascript', 'source_map', {size}, 'ready', now(), now())"
        ))
        .await;
    let path = format!("/v1/symbols/{ID}/source?path=src/cart.ts");
    let reader = world.create_key("acme", &[Scope::SymbolsDownload]).await;
    let answer = world.get(&path, &reader).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "let a;\n<script>\n"));
    assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    assert_eq!(answer.headers["content-disposition"], "attachment; filename=\"cart.ts\"");
    let other = world.create_key("umbrella", &[Scope::SymbolsDownload]).await;
    world.get(&path, &other).await.expect_problem(404, "not-found");
    let one_app = world.key_for("acme", &[Scope::SymbolsDownload], Some(APP)).await;
    world.get(&path, &one_app).await.expect_problem(404, "not-found");
    let lister = world.create_key("acme", &[Scope::SymbolsRead, Scope::ReportsRead]).await;
    assert_eq!(world.get(&path, &lister).await.status, 403);
    world
        .get(&format!("/v1/symbols/{ID}/source?path=cart.ts"), &reader)
        .await
        .expect_problem(404, "not-found");

    let browser = Browser::signed_in(&world, &world.create_master_key("acme").await).await;
    let page =
        browser.fetch_page(&format!("/console/source-file?debug_id={ID}&path=src/cart.ts&line=2")).await;
    assert!(
        page.contains("<span class=\"line own\" id=\"L2\">") && page.contains("&#60;script&#62;"),
        "{page}"
    );
    world.stop().await;
}

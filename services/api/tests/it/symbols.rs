//! Symbols: list, look, check, delete.

use crate::world::{World, tenant};
use serde_json::json;
use sha2::{Digest, Sha256};
use unslide_model::{ContentHash, DebugId, Quality};
use unslide_store::{Uuid, objects, slots, uploads};

async fn object(world: &World, of: &str, upload: Uuid, debug_id: &DebugId, dwarf: bool) -> ContentHash {
    let mut tx = world.store.tenant(&tenant(of)).await.unwrap();
    let hash = ContentHash(Sha256::digest(format!("{of} {debug_id} {dwarf}")).into());
    let new = objects::NewObject {
        content_hash: hash,
        debug_id: Some(*debug_id),
        name: "Shop".to_owned(),
        arch: "arm64".to_owned(),
        kind: "dsym".to_owned(),
        has_dwarf: dwarf,
        has_symtab: true,
        has_exports: false,
        has_sources: false,
        size: 1_000,
    };
    objects::found(&mut tx, upload, "Shop.dSYM/Shop", &new).await.unwrap();
    tx.commit().await.unwrap();
    hash
}

/// Puts one object of a tenant into the store, published, as a builder does; gives its debug id.
pub async fn stored(world: &World, of: &str) -> DebugId {
    let debug_id: DebugId = "c0ffee00-4b5a-6978-8796-a5b4c3d2e1f0".parse().unwrap();
    let mut tx = world.store.tenant(&tenant(of)).await.unwrap();
    let upload = uploads::create(&mut tx, Some("Shop.zip"), None).await.unwrap();
    tx.commit().await.unwrap();
    let hash = object(world, of, upload, &debug_id, true).await;
    publish(world, of, debug_id, hash, Quality::DwarfSymtab).await;
    debug_id
}

async fn publish(world: &World, of: &str, debug_id: DebugId, content_hash: ContentHash, quality: Quality) {
    let mut tx = world.store.tenant(&tenant(of)).await.unwrap();
    let symcache = objects::Symcache { size: 77, sha256: ContentHash([7; 32]), version: 1 };
    objects::ready(&mut tx, &content_hash, quality, &symcache).await.unwrap();
    let published = slots::Published { debug_id, quality, content_hash, symcache_version: 1, generation: 1 };
    slots::publish(&mut tx, &published).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn the_better_object_answers_and_deleting_takes_all() {
    let world = World::start().await;
    let key = world.master("acme").await;
    let debug_id = stored(&world, "acme").await;
    let mut tx = world.store.tenant(&tenant("acme")).await.unwrap();
    let upload = uploads::create(&mut tx, None, None).await.unwrap();
    tx.commit().await.unwrap();
    object(&world, "acme", upload, &debug_id, false).await;
    let path = format!("/v1/symbols/{}", debug_id.compact().to_uppercase());
    let symbols = world.get(&path, &key).await.expect(200);
    assert_eq!((&symbols["generation"], &symbols["quality"]), (&1.into(), &"dwarf_symtab".into()));
    let states: Vec<_> = symbols["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| (o["offers"]["dwarf"].clone(), o["active"].clone()))
        .collect();
    assert_eq!(states, [(true.into(), true.into()), (false.into(), false.into())]);
    assert_eq!(
        (&symbols["objects"][0]["status"], &symbols["objects"][0]["symcache_size"]),
        (&"ready".into(), &77.into())
    );

    let first = world.get("/v1/symbols?limit=1", &key).await.expect(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = world.get(&format!("/v1/symbols?limit=1&cursor={cursor}"), &key).await.expect(200);
    assert_ne!(first["items"][0]["sha256"], second["items"][0]["sha256"]);
    assert_eq!(second.get("next_cursor"), None);
    world.get("/v1/symbols?cursor=01", &key).await.expect_problem(400, "invalid-parameter");

    world.delete(&path, &key).await.expect(204);
    world.delete(&path, &key).await.expect_problem(404, "not-found");
    world.get(&path, &key).await.expect_problem(404, "not-found");
    world.get("/v1/symbols/xyz", &key).await.expect_problem(400, "invalid-parameter");
    world.delete("/v1/symbols/xyz", &key).await.expect_problem(400, "invalid-parameter");
    world.stop().await;
}

#[tokio::test]
async fn a_pipeline_learns_whether_symbols_are_ready() {
    let world = World::start().await;
    let key = world.master("acme").await;
    let ready = stored(&world, "acme").await;
    let building: DebugId = "bb000000000000000000000000000000".parse().unwrap();
    let mut tx = world.store.tenant(&tenant("acme")).await.unwrap();
    let upload = uploads::create(&mut tx, None, None).await.unwrap();
    tx.commit().await.unwrap();
    object(&world, "acme", upload, &building, true).await;
    let ids = [ready.compact(), building.to_string(), "0".repeat(32)];
    let checked = world.post_json("/v1/symbols/check", &key, &json!({"debug_ids": ids})).await.expect(200);
    let states: Vec<_> =
        checked["items"].as_array().unwrap().iter().map(|i| i["status"].as_str().unwrap()).collect();
    assert_eq!((states, &checked["ready"]), (vec!["ready", "building", "missing"], &false.into()));
    let all = world.post_json("/v1/symbols/check", &key, &json!({"debug_ids": [ready]})).await.expect(200);
    assert_eq!(all["ready"], true);
    for bad in [json!({"debug_ids": []}), json!({"debug_ids": vec![ready; 1_001]}), json!({"ids": []})] {
        world.post_json("/v1/symbols/check", &key, &bad).await.expect_problem(400, "invalid-body");
    }
    let detail = world
        .post_json("/v1/symbols/check", &key, &json!({"debug_ids": ["7"]}))
        .await
        .expect_problem(400, "invalid-parameter");
    assert!(detail.starts_with("debug_ids: 7"), "{detail}");
    world.stop().await;
}

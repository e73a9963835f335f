//! Symbols: list, look, check, delete; uploads are beside this file.

mod builds;
mod parts;
mod uploading;

use crate::world::{World, tenant_id};
use serde_json::json;
use sha2::{Digest, Sha256};
use unslide_artifacts::{AliasMeta, Put, keys};
use unslide_model::{ContentHash, DebugId, Owner, Quality, Scope};
use unslide_store::{UploadId, objects, slots, uploads};
use unslide_symbolicate::object::{build_symcache, list_objects};
use unslide_testkit::fixtures;

pub async fn object(
    world: &World,
    of: &Owner,
    upload: UploadId,
    debug_id: &DebugId,
    dwarf: bool,
) -> ContentHash {
    let mut tx = world.store.owner(of).await.unwrap();
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
    objects::record_found(&mut tx, upload, &[("Shop.dSYM/Shop", &new)]).await.unwrap();
    tx.commit().await.unwrap();
    hash
}

/// Puts one object of a tenant into the store, published, as a builder does; gives its debug id.
pub async fn stored(world: &World, of: &str) -> DebugId {
    stored_by(world, &Owner::Tenant(tenant_id(of)), None).await
}

/// The same for any owner, uploaded for an app.
pub async fn stored_by(world: &World, of: &Owner, app: Option<&str>) -> DebugId {
    let debug_id: DebugId = "c0ffee00-4b5a-6978-8796-a5b4c3d2e1f0".parse().unwrap();
    let mut tx = world.store.owner(of).await.unwrap();
    let upload = uploads::create_upload(&mut tx, Some("Shop.zip"), app).await.unwrap();
    tx.commit().await.unwrap();
    let hash = object(world, of, upload, &debug_id, true).await;
    publish(world, of, debug_id, hash, Quality::DwarfSymtab).await;
    debug_id
}

/// Puts a source map with the text of `src/cart.ts` into the store and object storage, and returns its debug id.
pub async fn put_source_map(world: &World, of: &str) -> DebugId {
    let debug_id: DebugId = "50ace000-4b5a-6978-8796-a5b4c3d2e1f0".parse().unwrap();
    let map = r#"{"version":3,"sources":["src/cart.ts"],"mappings":"","sourcesContent":["let a;"]}"#;
    let hash = ContentHash(Sha256::digest(map).into());
    let key = keys::for_object(tenant_id(of).scope(hash));
    world.bucket().await.put(&key, map.into(), &unslide_artifacts::Put::default()).await.unwrap();
    world
        .execute(&format!(
            "INSERT INTO objects (tenant, content_hash, debug_id, name, arch, kind, size, status, created_at, updated_at)
             VALUES ('{of}', decode('{hash}', 'hex'), '{debug_id}', 'main.map', 'javascript', 'source_map', {}, 'ready', now(), now())",
            map.len()
        ))
        .await;
    debug_id
}

/// Puts the bytes of a stored object into object storage.
pub async fn put_file(world: &World, of: &str, debug_id: &DebugId) {
    let hash = ContentHash(Sha256::digest(format!("{of} {debug_id} true")).into());
    let key = keys::for_object(tenant_id(of).scope(hash));
    let bytes = vec![b'a'; 1_000].into();
    world.bucket().await.put(&key, bytes, &unslide_artifacts::Put::default()).await.unwrap();
}

/// Puts the symcaches of two builds of an app into object storage, and returns their debug ids.
pub async fn put_builds(world: &World, of: &str) -> [DebugId; 2] {
    let mut debug_ids = Vec::new();
    for name in ["app", "app-next"] {
        let dsym = std::fs::read(fixtures::dsym(name)).unwrap();
        let range = list_objects(&dsym).unwrap().remove(0).range;
        let built = build_symcache(&dsym[range]).unwrap();
        let meta = AliasMeta {
            generation: 1,
            quality: built.quality,
            sha256: ContentHash(Sha256::digest(&built.symcache).into()),
            object: ContentHash([1; 32]),
        };
        let key = keys::for_symbols(tenant_id(of).scope(built.debug_id)).alias(1);
        let put = Put { metadata: meta.to_metadata(), ..Put::default() };
        world.bucket().await.put(&key, built.symcache.into(), &put).await.unwrap();
        debug_ids.push(built.debug_id);
    }
    debug_ids.try_into().unwrap()
}

async fn publish(world: &World, of: &Owner, debug_id: DebugId, content_hash: ContentHash, quality: Quality) {
    let mut tx = world.store.owner(of).await.unwrap();
    let symcache = objects::Symcache { size: 77, sha256: ContentHash([7; 32]), version: 1 };
    objects::mark_ready(&mut tx, &content_hash, quality, None, &symcache).await.unwrap();
    let published =
        slots::PublishedSymbols { debug_id, quality, content_hash, symcache_version: 1, generation: 1 };
    slots::publish_symbols(&mut tx, &published).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn the_better_object_answers_and_deleting_takes_all() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let debug_id = stored(&world, "acme").await;
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let upload = uploads::create_upload(&mut tx, None, None).await.unwrap();
    tx.commit().await.unwrap();
    object(&world, &tenant_id("acme").into(), upload, &debug_id, false).await;
    let path = format!("/v1/symbols/{}", debug_id.to_compact().to_uppercase());
    let symbols = world.get(&path, &key).await.expect_status(200);
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

    let first = world.get("/v1/symbols?limit=1", &key).await.expect_status(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = world.get(&format!("/v1/symbols?limit=1&cursor={cursor}"), &key).await.expect_status(200);
    assert_ne!(first["items"][0]["sha256"], second["items"][0]["sha256"]);
    assert_eq!(second.get("next_cursor"), None);
    world.get("/v1/symbols?cursor=01", &key).await.expect_problem(400, "invalid-parameter");

    world.delete(&path, &key).await.expect_status(204);
    world.delete(&path, &key).await.expect_problem(404, "not-found");
    world.get(&path, &key).await.expect_problem(404, "not-found");
    world.get("/v1/symbols/xyz", &key).await.expect_problem(400, "invalid-parameter");
    world.delete("/v1/symbols/xyz", &key).await.expect_problem(400, "invalid-parameter");
    world.stop().await;
}

#[tokio::test]
async fn a_pipeline_learns_whether_symbols_are_ready() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    let ready = stored(&world, "acme").await;
    let building: DebugId = "bb000000000000000000000000000000".parse().unwrap();
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let upload = uploads::create_upload(&mut tx, None, None).await.unwrap();
    tx.commit().await.unwrap();
    object(&world, &tenant_id("acme").into(), upload, &building, true).await;
    let ids = [ready.to_compact(), building.to_string(), "0".repeat(32)];
    let checked =
        world.post_json("/v1/symbols/check", &key, &json!({"debug_ids": ids})).await.expect_status(200);
    let states: Vec<_> =
        checked["items"].as_array().unwrap().iter().map(|i| i["status"].as_str().unwrap()).collect();
    assert_eq!((states, &checked["ready"]), (vec!["ready", "building", "missing"], &false.into()));
    let all =
        world.post_json("/v1/symbols/check", &key, &json!({"debug_ids": [ready]})).await.expect_status(200);
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

#[tokio::test]
async fn a_list_of_symbols_is_filtered_and_its_cursor_is_for_its_filters() {
    let world = World::start().await;
    let key = world.create_master_key("acme").await;
    stored(&world, "acme").await;
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    let upload = uploads::create_upload(&mut tx, None, None).await.unwrap();
    tx.commit().await.unwrap();
    for n in 1..=3 {
        let debug_id = DebugId([0xc0 + n; 16]);
        object(&world, &tenant_id("acme").into(), upload, &debug_id, true).await;
    }
    let count = async |filter: &str| {
        let page = world.get(&format!("/v1/symbols?{filter}"), &key).await.expect_status(200);
        page["items"].as_array().unwrap().len()
    };
    let cases = [
        ("", 4),
        ("name=Shop", 4),
        ("name=Sho", 0),
        ("arch=arm64", 4),
        ("arch=x86_64", 0),
        ("status=ready", 1),
        ("status=queued", 3),
        ("debug_id=c", 4),
        ("debug_id=C0FF", 1),
        ("debug_id=c1c1c1c1-c1c1-c1c1-c1c1-c1c1c1c1c1c1", 1),
        ("debug_id=c&status=queued", 3),
        ("from=2020-01-01T00:00:00Z", 4),
        ("to=2020-01-01T00:00:00Z", 0),
    ];
    for (filter, wanted) in cases {
        assert_eq!(count(filter).await, wanted, "{filter}");
    }
    let first = world.get("/v1/symbols?status=queued&limit=2", &key).await.expect_status(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = world
        .get(&format!("/v1/symbols?status=queued&limit=2&cursor={cursor}"), &key)
        .await
        .expect_status(200);
    assert_eq!((rest["items"].as_array().unwrap().len(), rest.get("next_cursor")), (1, None));
    for bad in
        [&format!("status=ready&cursor={cursor}"), "status=done", "debug_id=xyz", "from=soon", "nam=Shop"]
    {
        world.get(&format!("/v1/symbols?{bad}"), &key).await.expect_problem(400, "invalid-parameter");
    }
    world.stop().await;
}

/// Proves: isolation
#[tokio::test]
async fn system_symbols_are_the_operators_and_lie_apart_from_every_tenants() {
    let world = World::start().await;
    let operator = world.create_key("acme", &[Scope::Operator]).await;
    let own: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Operator).collect();
    let tenants = world.create_key("acme", &own).await;
    let file = b"\xcf\xfa\xed\xfe some bytes".to_vec();
    world.post("/v1/system/symbols", &tenants, file.clone()).await.expect_problem(403, "insufficient-scope");
    let sent = world.post("/v1/system/symbols?name=UIKit", &operator, file.clone()).await.expect_status(202);
    let id = sent["id"].as_str().unwrap();
    let upload = world.get(&format!("/v1/system/symbols/uploads/{id}"), &operator).await.expect_status(200);
    assert_eq!((&upload["status"], &upload["file_name"]), (&"queued".into(), &"UIKit".into()));
    world.get(&format!("/v1/symbols/uploads/{id}"), &tenants).await.expect_problem(404, "not-found");
    // The same bytes of a tenant are another upload, under its own prefix.
    let own = world.post("/v1/symbols", &tenants, file).await.expect_status(202);
    assert_eq!(own["existing"], false);
    let own = own["id"].as_str().unwrap();
    assert_eq!(world.list_objects("acme").await, [format!("t/acme/uploads/{own}")]);
    let page = world.bucket().await.list(&keys::system_prefix(), None, 10).await.unwrap();
    let kept: Vec<String> = page.entries.into_iter().map(|entry| entry.key.to_string()).collect();
    assert_eq!(kept, [format!("system/uploads/{id}")]);
    // Looked at and deleted by operators; a tenant with the same debug id keeps its own.
    let debug_id = stored_by(&world, &Owner::System, None).await;
    stored(&world, "acme").await;
    let path = format!("/v1/system/symbols/{debug_id}");
    let found = world.get(&path, &operator).await.expect_status(200);
    assert_eq!((&found["generation"], &found["objects"][0]["active"]), (&1.into(), &true.into()));
    let listed = world.get("/v1/system/symbols?status=ready", &operator).await.expect_status(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    world.delete(&path, &operator).await.expect_status(204);
    world.get(&path, &operator).await.expect_problem(404, "not-found");
    world.get(&format!("/v1/symbols/{debug_id}"), &tenants).await.expect_status(200);
    world.stop().await;
}

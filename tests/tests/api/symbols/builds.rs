//! Builds of operating systems: the page of those that lack names, and the removal of names that only one build has.

use crate::reports::{A, crash, store};
use crate::world::{Browser, World};
use reqwest::Method;
use serde_json::{Value, json};
use unslide_model::Scope;

const ONLY_HERE: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const IN_TWO_BUILDS: &str = "aaaaaaaa-0000-4000-8000-000000000002";
const WITH_DSYM: &str = "aaaaaaaa-0000-4000-8000-000000000003";

#[tokio::test]
async fn the_page_has_a_command_for_each_build_that_lacks_names() {
    let world = World::start().await;
    let browser = Browser::signed_in(&world, &world.create_key("acme", &[Scope::ReportsRead]).await).await;
    let path = "/console/system-symbols";
    let empty = browser.fetch_page(path).await;
    assert!(empty.contains("No report of this period") && empty.contains("unslide system-symbols import"));
    store(&world, "acme", &crash(A, "1.0"), 1, world.host.clock.now()).await;
    let system = format!(
        "UPDATE reports SET os_name = 'iOS', os_version = '26.2', os_build = '23B87',
                            system_images = ARRAY['{ONLY_HERE}', '{IN_TWO_BUILDS}']::uuid[]"
    );
    world.execute(&system).await;
    let page = browser.fetch_page(path).await;
    assert!(page.contains("iOS 26.2 (23B87)") && page.contains("no names"), "{page}");
    assert!(page.contains("~/Library/Developer/Xcode/iOS\\ DeviceSupport/"), "{page}");
    add_symbols(&world, "~system", ONLY_HERE, "names").await;
    let page = browser.fetch_page(path).await;
    assert!(page.contains("some named") && page.contains("1 of 2") && page.contains(IN_TWO_BUILDS), "{page}");
    add_symbols(&world, "acme", IN_TWO_BUILDS, "names").await;
    let page = browser.fetch_page(path).await;
    assert!(page.contains("all named") && !page.contains("--build"), "{page}");
    let stranger =
        Browser::signed_in(&world, &world.create_key("umbrella", &[Scope::ReportsRead]).await).await;
    assert!(!stranger.fetch_page(path).await.contains("23B87"));
    world.stop().await;
}

/// Adds symbols of a kind that answer for a debug id of an owner.
async fn add_symbols(world: &World, owner: &str, debug_id: &str, kind: &str) {
    let added = format!(
        "INSERT INTO objects (tenant, content_hash, debug_id, name, arch, kind, quality, size, status, created_at, updated_at)
         VALUES ('{owner}', sha256('{debug_id} {kind}'), '{debug_id}', 'Kit', 'arm64e', '{kind}', 2, 1, 'ready', now(), now());
         INSERT INTO symbol_slots (tenant, debug_id, generation, quality, content_hash, updated_at)
         VALUES ('{owner}', '{debug_id}', 1, 2, sha256('{debug_id} {kind}'), now()) ON CONFLICT DO NOTHING"
    );
    world.execute(&added).await;
}

async fn record(world: &World, key: &str, path: &str, ids: &[&str]) -> Value {
    let images = json!({"arch": "arm64e", "debug_ids": ids});
    world.send(world.request(Method::PUT, path, key).body(images.to_string())).await.expect_status(200)
}

/// Proves: isolation
#[tokio::test]
async fn a_removed_build_takes_the_names_that_only_it_has_of_its_own_owner() {
    let world = World::start().await;
    let operator = world.create_key("acme", &[Scope::Operator]).await;
    let acme = world.create_key("acme", &[Scope::SymbolsWrite]).await;
    let umbrella = world.create_key("umbrella", &[Scope::SymbolsWrite]).await;
    for owner in ["acme", "umbrella", "~system"] {
        add_symbols(&world, owner, ONLY_HERE, "names").await;
        add_symbols(&world, owner, IN_TWO_BUILDS, "names").await;
        add_symbols(&world, owner, WITH_DSYM, "names").await;
        add_symbols(&world, owner, WITH_DSYM, "dsym").await;
    }
    let build = "/v1/symbols/builds/23B87";
    let (later, systems) = ("/v1/symbols/builds/23B90", "/v1/system/symbols/builds/23B87");
    for (key, path) in [(&acme, build), (&umbrella, build), (&operator, systems)] {
        let recorded = record(&world, key, path, &[ONLY_HERE, IN_TWO_BUILDS, WITH_DSYM]).await;
        assert_eq!(recorded["images"], 3);
    }
    // The same images again are no more.
    assert_eq!(record(&world, &acme, build, &[ONLY_HERE]).await["images"], 3);
    record(&world, &acme, later, &[IN_TWO_BUILDS]).await;
    let counted = json!({"removed": 1, "kept": 2, "remaining": 0});
    let delete = async |path: &str, key: &str| world.delete(path, key).await;
    assert_eq!(delete(&format!("{build}?dry_run=true"), &acme).await.expect_status(200), counted);
    delete(&format!("{build}?arch=arm64"), &acme).await.expect_problem(404, "not-found");
    assert_eq!(delete(build, &acme).await.expect_status(200), counted);
    delete(build, &acme).await.expect_problem(404, "not-found");
    let objects = async |owner: &str| {
        world.number(&format!("SELECT count(*) FROM objects WHERE tenant = '{owner}'")).await
    };
    assert_eq!((objects("acme").await, objects("umbrella").await, objects("~system").await), (3, 4, 4));
    let emptied = format!(
        "SELECT count(*) FROM symbol_slots WHERE tenant = 'acme' AND debug_id = '{ONLY_HERE}' AND quality = 0 AND generation = 2"
    );
    assert_eq!(world.number(&emptied).await, 1);
    assert_eq!(world.number("SELECT count(*) FROM jobs WHERE tenant = 'acme' AND kind = 'purge'").await, 1);
    assert_eq!(
        world.number("SELECT count(*) FROM audit_log WHERE action = 'system_symbols.remove'").await,
        1
    );
    // The last build that lists an image takes its names.
    let last = delete(later, &acme).await.expect_status(200);
    assert_eq!((&last["removed"], objects("acme").await), (&1.into(), 2));
    assert_eq!(
        delete(systems, &operator).await.expect_status(200),
        json!({"removed": 2, "kept": 1, "remaining": 0})
    );
    assert_eq!((objects("umbrella").await, objects("~system").await), (4, 2));
    world.stop().await;
}

#[tokio::test]
async fn a_key_for_one_app_records_and_finds_no_build() {
    let world = World::start().await;
    let master = world.create_master_key("acme").await;
    let path = "/v1/symbols/builds/23B87";
    record(&world, &master, path, &[ONLY_HERE]).await;
    let narrow = world.key_for("acme", &Scope::ALL, Some("com.example.shop")).await;
    let images = json!({"arch": "arm64e", "debug_ids": [ONLY_HERE]}).to_string();
    let put = async |path: &str, key: &str, body: &str| {
        world.send(world.request(Method::PUT, path, key).body(body.to_owned())).await
    };
    put(path, &narrow, &images).await.expect_problem(403, "insufficient-scope");
    world.delete(path, &narrow).await.expect_problem(404, "not-found");
    let wrong = put("/v1/symbols/builds/iOS", &master, &images).await.expect_problem(404, "not-found");
    assert_eq!(wrong, "there is no such build: a build looks like 23B87");
    put(path, &master, r#"{"arch": "arm64e", "debug_ids": []}"#).await.expect_problem(400, "invalid-body");
    world.stop().await;
}

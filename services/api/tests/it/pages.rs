//! Every list in pages of one entry gives what one page of all gives.

use crate::reports::{A, crash, store};
use crate::symbols::object;
use crate::world::{World, tenant};
use serde_json::Value;
use time::Duration;
use unslide_model::{DebugId, Scope};
use unslide_store::uploads;

/// The entries of a page. When a key was used last is noted beside the requests.
fn entries_of(page: &Value, entries: &str) -> Vec<Value> {
    let mut found = page[entries].as_array().unwrap().clone();
    found.iter_mut().for_each(|entry| drop(entry.as_object_mut().unwrap().remove("last_used_at")));
    found
}

/// The entries of a list, a page of `limit` at a time.
async fn all(world: &World, path: &str, key: &str, entries: &str, limit: usize) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let and = if path.contains('?') { '&' } else { '?' };
        let page = world.get(&format!("{path}{and}limit={limit}{cursor}"), key).await.expect(200);
        let page_entries = entries_of(&page, entries);
        assert!(page_entries.len() <= limit, "{path}");
        found.extend(page_entries);
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

#[tokio::test]
async fn every_list_can_be_read_in_small_pages() {
    let world = World::start().await;
    let key = world.master("acme").await;
    for scope in [Scope::ReportsRead, Scope::SymbolsRead] {
        world.key("acme", &[scope]).await;
    }
    for (n, app) in ["com.example.shop", "com.example.bank", "com.example.shop"].into_iter().enumerate() {
        let mut crash = crash(&A.replace('1', &(n + 4).to_string()), &format!("{n}.0"));
        crash["system"]["CFBundleIdentifier"] = app.into();
        store(&world, "acme", &crash, 1, world.host.clock.now() - Duration::days(n as i64 % 2)).await;
    }
    let owner = tenant("acme").into();
    let mut tx = world.store.owner(&owner).await.unwrap();
    let upload = uploads::create(&mut tx, Some("Shop.zip"), None).await.unwrap();
    tx.commit().await.unwrap();
    for n in 1..=3 {
        object(&world, &owner, upload, &DebugId([n; 16]), true).await;
    }
    for (path, entries, number) in [
        ("/v1/keys", "items", 3),
        ("/v1/tenants/acme/keys", "items", 3),
        ("/v1/tenants", "items", 2),
        ("/v1/apps", "items", 2),
        ("/v1/groups", "items", 2),
        ("/v1/groups?sort=reports", "items", 2),
        ("/v1/apps/com.example.shop/versions", "items", 2),
        // Their reports all lack the same image.
        ("/v1/missing-symbols", "items", 1),
        ("/v1/reports", "items", 3),
        ("/v1/symbols", "items", 3),
        (&format!("/v1/symbols/uploads/{upload}"), "objects", 3),
    ] {
        let whole = world.get(path, &key).await.expect(200);
        assert_eq!(whole.get("next_cursor"), None, "{path}");
        assert_eq!(entries_of(&whole, entries).len(), number, "{path}: {whole}");
        for limit in [1, 2] {
            let found = all(&world, path, &key, entries, limit).await;
            assert_eq!(found, entries_of(&whole, entries), "{path}");
        }
        let foreign = world
            .get(&format!("{path}{}cursor=01ff", if path.contains('?') { '&' } else { '?' }), &key)
            .await;
        foreign.expect_problem(400, "invalid-parameter");
    }
    world.stop().await;
}

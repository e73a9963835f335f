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

/// The cursor with another time in the place of the one that it ends at.
fn forged(cursor: &str, micros: i64) -> String {
    let bytes: Vec<u8> =
        (0..cursor.len()).step_by(2).map(|at| u8::from_str_radix(&cursor[at..at + 2], 16).unwrap()).collect();
    let (head, position) = bytes.split_at(9);
    let (_, rest) = std::str::from_utf8(position).unwrap().split_once('.').unwrap();
    head.iter().copied().chain(format!("{micros}.{rest}").bytes()).map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_time_that_the_database_cannot_hold_is_refused() {
    let world = World::start().await;
    let now = world.host.clock.now();
    for n in 1..=3 {
        let mut crash = crash(&format!("{n}{}", &A[1..]), "1.0");
        crash["system"]["CFBundleIdentifier"] = format!("com.example.shop{n}").into();
        store(&world, "acme", &crash, 1, now).await;
        world.key("acme", &[Scope::ReportsRead]).await;
    }
    let key = world.master("acme").await;
    for path in ["/v1/reports?limit=1", "/v1/groups?limit=1", "/v1/keys?limit=1"] {
        let first = world.get(path, &key).await.expect(200);
        let cursor = first["next_cursor"].as_str().unwrap();
        world.get(&format!("{path}&cursor={}", forged(cursor, 0)), &key).await.expect(200);
        for micros in [i64::MIN, -300_000_000_000_000_000, 253_402_300_800_000_000, i64::MAX] {
            let path = format!("{path}&cursor={}", forged(cursor, micros));
            world.get(&path, &key).await.expect_problem(400, "invalid-parameter");
        }
    }
    for path in ["reports?from", "symbols?to", "dead-letters?from", "groups?seen_from", "groups?new_from"] {
        for time in ["9999-12-31T23:59:59-23:59", "0000-12-31T00:00:00Z"] {
            let path = format!("/v1/{path}={time}");
            world.get(&path, &key).await.expect_problem(400, "invalid-parameter");
        }
        world.get(&format!("/v1/{path}=9999-12-31T23:59:59Z"), &key).await.expect(200);
    }
    world.stop().await;
}

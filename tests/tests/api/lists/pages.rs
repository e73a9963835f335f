//! Every list in pages of one entry gives what one page of all gives.

use crate::cases::{Case, cases, document};
use crate::dead_letters::letter;
use crate::dead_letters::skipped::skipped;
use crate::openapi::paged_lists;
use crate::reports::{A, crash, store};
use crate::symbols::object;
use crate::world::{World, add_person, tenant_id};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::Duration;
use unslide_model::{DebugId, Owner, Scope};

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
        let page = world.get(&format!("{path}{and}limit={limit}{cursor}"), key).await.expect_status(200);
        let page_entries = entries_of(&page, entries);
        assert!(page_entries.len() <= limit, "{path}");
        found.extend(page_entries);
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

/// Gives lists more than one entry.
async fn add_entries(world: &World, key: &str, cases: &BTreeMap<&'static str, Case>) {
    for (n, app) in ["com.example.shop", "com.example.bank", "com.example.shop"].into_iter().enumerate() {
        let mut crash = crash(&A.replace('1', &(n + 5).to_string()), &format!("{n}.0"));
        crash["system"]["CFBundleIdentifier"] = app.into();
        crash["binary_images"][0]["uuid"] = format!("{n}000FFEE-4B5A-6978-8796-A5B4C3D2E1F0").into();
        store(world, "acme", &crash, 1, world.host.clock.now() - Duration::days(n as i64 % 2)).await;
    }
    for (owner, case) in
        [(Owner::Tenant(tenant_id("acme")), "get_upload"), (Owner::System, "get_system_upload")]
    {
        let upload = cases[case].path.rsplit('/').next().unwrap().parse().unwrap();
        for n in 1..=3 {
            object(world, &owner, upload, &DebugId([n; 16]), true).await;
        }
    }
    let capture = "/v1/captures?app=com.example.shop&version=1.0&kind=profile&session_id=s1";
    world.post(capture, key, "main;draw 1\n").await.expect_status(202);
    letter(world, Some("acme"), "not_json", None, Some(b"[")).await;
    skipped(world, Some("acme"), "panicked", 2).await;
    let settings = json!({"app": "com.example.bank", "source_root": "/bank"}).to_string();
    let put = world.request(Method::PUT, "/v1/app-settings", key).body(settings);
    world.send(put).await.expect_status(200);
    let comments = &cases["comment_on_group"].path;
    world.post_json(comments, key, &json!({"text": "a"})).await.expect_status(201);
    let public = json!({"name": "bank", "apps": ["com.example.bank"]});
    world.post_json("/v1/public-keys", key, &public).await.expect_status(201);
    world.post_json("/v1/names-keys", key, &json!({"name": "bank"})).await.expect_status(201);
    world.post_json("/v1/scim-tokens", key, &json!({"name": "Entra"})).await.expect_status(201);
    add_person(world, "kim").await;
    // A day of the past: what the api itself uses is recorded for today.
    let uses = "INSERT INTO resource_uses (tenant, day, cpu_micros, kafka_bytes, object_requests, object_bytes, stored)
                VALUES ('acme', '2026-01-30', 1, 1, 1, 1, 1), ('umbrella', '2026-01-30', 1, 1, 1, 1, 1), ('acme', '2026-01-29', 2, 2, 2, 2, 2)";
    world.execute(uses).await;
    world.execute("INSERT INTO shared_resource_uses VALUES ('2026-01-30', 3, 3, 3, 3, 3)").await;
    let erasure = json!({"kind": "session", "id": "other"});
    world.post_json("/v1/person-erasures", key, &erasure).await.expect_status(202);
}

#[tokio::test]
async fn every_list_can_be_read_in_small_pages() {
    // Nothing that a list has changes by itself.
    let world = World::still(|_| {}).await;
    let key = world.create_master_key("acme").await;
    let cases = cases(&world, &key).await;
    add_entries(&world, &key, &cases).await;
    let mut lists: Vec<(&str, String)> = paged_lists(&document())
        .into_iter()
        .map(|(id, entries)| (cases[id.as_str()].path.as_str(), entries))
        .collect();
    lists.push(("/v1/groups?sort=reports", "items".to_owned()));
    lists.push(("/v1/tenant-usage?sort=full", "items".to_owned()));
    for (path, entries) in &lists {
        let whole = world.get(path, &key).await.expect_status(200);
        assert_eq!(whole.get("next_cursor"), None, "{path}");
        assert!(entries_of(&whole, entries).len() > 1, "{path}: {whole}");
        for limit in [1, 2] {
            let found = all(&world, path, &key, entries, limit).await;
            assert_eq!(found, entries_of(&whole, entries), "{path}");
        }
        let and = if path.contains('?') { '&' } else { '?' };
        let foreign = world.get(&format!("{path}{and}cursor=01ff"), &key).await;
        foreign.expect_problem(400, "invalid-parameter");
    }
    world.stop().await;
}

/// The cursor with another time in the place of the one that it ends at.
fn forged(cursor: &str, micros: i64) -> String {
    let bytes: Vec<u8> = (0..cursor.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(cursor.get(at..at + 2).unwrap(), 16).unwrap())
        .collect();
    let (head, position) = bytes.split_at(9);
    let (_, rest) = std::str::from_utf8(position).unwrap().split_once('.').unwrap();
    head.iter().copied().chain(format!("{micros}.{rest}").bytes()).map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_time_that_the_database_cannot_hold_is_refused() {
    let world = World::start().await;
    let now = world.host.clock.now();
    for n in 1..=3 {
        let mut crash = crash(&format!("{n}{}", A.get(1..).unwrap()), "1.0");
        crash["system"]["CFBundleIdentifier"] = format!("com.example.shop{n}").into();
        store(&world, "acme", &crash, 1, now).await;
        world.create_key("acme", &[Scope::ReportsRead]).await;
    }
    let key = world.create_master_key("acme").await;
    for path in ["/v1/reports?limit=1", "/v1/groups?limit=1", "/v1/keys?limit=1"] {
        let first = world.get(path, &key).await.expect_status(200);
        let cursor = first["next_cursor"].as_str().unwrap();
        world.get(&format!("{path}&cursor={}", forged(cursor, 0)), &key).await.expect_status(200);
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
        world.get(&format!("/v1/{path}=9999-12-31T23:59:59Z"), &key).await.expect_status(200);
    }
    world.stop().await;
}

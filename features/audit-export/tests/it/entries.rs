//! The log in the order of commits, for those who follow it.

use crate::audit_export::shop::{positions, start, write_entries};
use serde_json::{Value, json};
use unslide_store::audit::append_entry;
use unslide_world::{World, tenant_id};

async fn read_after(world: &World, key: &str, after: Option<&str>) -> Vec<Value> {
    let query = after.map(|id| format!("?after={id}")).unwrap_or_default();
    let answer = world.get(&format!("/v1/audit-log/entries{query}"), key).await.expect_status(200);
    answer["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_transaction_that_commits_late_is_not_missed() {
    let world = start(&[]).await;
    let key = world.create_master_key("acme").await;
    let append = async |tx: &mut unslide_store::TenantTx, subject: &str| {
        append_entry(tx, "test", "thing.change", subject, &json!({})).await.unwrap();
    };
    // The first transaction has the older time and the lower id, and commits after the second.
    let mut slow = world.store.tenant(&tenant_id("acme")).await.unwrap();
    append(&mut slow, "slow").await;
    let mut fast = world.store.tenant(&tenant_id("acme")).await.unwrap();
    append(&mut fast, "fast").await;
    fast.commit().await.unwrap();
    let known = read_after(&world, &key, None).await;
    let last = known.last().unwrap();
    assert_eq!(last["subject"], "fast");
    slow.commit().await.unwrap();
    let rest = read_after(&world, &key, last["id"].as_str()).await;
    assert_eq!(rest.iter().map(|entry| &entry["subject"]).collect::<Vec<_>>(), ["slow"]);
    let all = positions(&read_after(&world, &key, None).await);
    assert_eq!(all, (1..=i64::try_from(all.len()).unwrap()).collect::<Vec<_>>());
    world.stop().await;
}

#[tokio::test]
async fn transactions_at_once_get_places_without_gaps() {
    let world = start(&[]).await;
    let key = world.create_master_key("acme").await;
    let write = async |number: usize| write_entries(&world, "acme", number * 20..=number * 20 + 19).await;
    tokio::join!(write(0), write(1), write(2), write(3));
    // A transaction that is rolled back takes no place.
    let mut undone = world.store.tenant(&tenant_id("acme")).await.unwrap();
    append_entry(&mut undone, "test", "thing.change", "undone", &json!({})).await.unwrap();
    undone.rollback().await.unwrap();
    write_entries(&world, "acme", 80..=80).await;
    let all = positions(&read_after(&world, &key, None).await);
    assert!(all.len() >= 81);
    assert_eq!(all, (1..=i64::try_from(all.len()).unwrap()).collect::<Vec<_>>());
    world.stop().await;
}

#[tokio::test]
async fn pages_are_bounded_and_an_unknown_entry_is_refused() {
    let world = start(&[]).await;
    let (key, other) = (world.create_master_key("acme").await, world.create_master_key("umbrella").await);
    write_entries(&world, "acme", 1..=120).await;
    let first = read_after(&world, &key, None).await;
    assert_eq!(first.len(), 100);
    let id = first[99]["id"].as_str().unwrap();
    let rest = read_after(&world, &key, Some(id)).await;
    assert_eq!(rest.last().unwrap()["subject"], "subject 120");
    assert_eq!(read_after(&world, &key, rest.last().unwrap()["id"].as_str()).await, Vec::<Value>::new());
    let foreign = format!("/v1/audit-log/entries?after={id}");
    world.get(&foreign, &other).await.expect_problem(404, "not-found");
    for limit in ["0", "501", "x"] {
        let path = format!("/v1/audit-log/entries?limit={limit}");
        world.get(&path, &key).await.expect_problem(400, "invalid-parameter");
    }
    // An entry of an earlier version has no place: all that have one come after it.
    world.execute(&format!("UPDATE audit_log SET position = NULL WHERE id = '{id}'")).await;
    assert_eq!(positions(&read_after(&world, &key, Some(id)).await)[0], 1);
    world.stop().await;
}

//! Rows are inserted once, read in their newest version, and deleted.

use crate::world::{BEGIN, World, row, tenant};
use serde_json::json;
use time::Duration;
use unslide_history::{HistoryFilter, HistoryOrder, HistoryPlace, HistoryRow, HistoryVersion};
use uuid::Uuid;

fn places(rows: &[HistoryRow]) -> Vec<HistoryPlace> {
    rows.iter().map(HistoryRow::place).collect()
}

#[tokio::test]
async fn a_row_is_read_as_it_was_inserted_and_by_its_tenant_only() {
    let world = World::start().await;
    let hostile = "\\N ' \" ` \t \r\n {a:String} \u{1F600} \u{7f} ');DROP TABLE reports;--";
    let mut rows = vec![row(1, 1, &json!({"reason": hostile, "app": hostile})), row(2, 3, &json!({}))];
    rows[1].variant = 7;
    rows[1].received_at = BEGIN - Duration::days(900);
    world.history.insert(&tenant("acme"), Uuid::from_u128(1), &rows).await.unwrap();
    let mut read = world.history.read(&tenant("acme"), &places(&rows)).await.unwrap();
    read.sort_by_key(|row| row.report_id);
    assert_eq!(read, rows);
    assert_eq!(world.history.read(&tenant("other"), &places(&rows)).await.unwrap(), []);
    let any = HistoryFilter::default();
    let other =
        world.history.find(&tenant("other"), &any, None, HistoryOrder::NewestFirst, 10).await.unwrap();
    assert_eq!(other, []);
    // A place is the whole of it.
    let near = HistoryPlace { received_at: BEGIN, ..rows[1].place() };
    assert_eq!(world.history.read(&tenant("acme"), &[near]).await.unwrap(), []);
    assert_eq!(world.history.read(&tenant("acme"), &[]).await.unwrap(), []);
    world.stop().await;
}

#[tokio::test]
async fn an_insert_that_is_sent_twice_is_stored_once() {
    let world = World::start().await;
    // Of two months, and so of two parts.
    let mut rows = vec![row(1, 1, &json!({})), row(2, 1, &json!({}))];
    rows[1].received_at = BEGIN - Duration::days(60);
    for _ in 0..2 {
        world.history.insert(&tenant("acme"), Uuid::from_u128(1), &rows).await.unwrap();
    }
    assert_eq!(world.count("true").await, 2);
    world.history.insert(&tenant("acme"), Uuid::from_u128(2), &rows).await.unwrap();
    assert_eq!(world.count("true").await, 4, "another token is another insert");
    let found = world.history.read(&tenant("acme"), &places(&rows)).await.unwrap();
    assert_eq!(found.len(), 2, "each report is read once nevertheless");
    world.stop().await;
}

#[tokio::test]
async fn the_newest_version_is_read_whatever_was_inserted_last() {
    let world = World::start().await;
    let (old, new) = (row(1, 1, &json!({"status": "none"})), row(1, 2, &json!({"status": "complete"})));
    for (token, row) in [(1, &new), (2, &old)] {
        world
            .history
            .insert(&tenant("acme"), Uuid::from_u128(token), std::slice::from_ref(row))
            .await
            .unwrap();
    }
    let read = || async { world.history.read(&tenant("acme"), &[new.place()]).await.unwrap() };
    assert_eq!(read().await, std::slice::from_ref(&new));
    world.run(&format!("OPTIMIZE TABLE {}{} FINAL", parts_table(&world), world.on_cluster())).await;
    assert_eq!(read().await, std::slice::from_ref(&new));
    assert_eq!(world.count("true").await, 1, "a merge leaves the newest");
    world.stop().await;
}

fn parts_table(world: &World) -> &'static str {
    if world.settings.cluster.is_some() { "reports_shard" } else { "reports" }
}

#[tokio::test]
async fn a_deletion_takes_these_versions_and_leaves_later_ones_and_other_rows() {
    let world = World::start().await;
    let acme = tenant("acme");
    let rows = [row(1, 1, &json!({})), row(1, 2, &json!({})), row(2, 1, &json!({})), row(3, 5, &json!({}))];
    for (row, token) in rows.iter().zip(1..) {
        world.history.insert(&acme, Uuid::from_u128(token), std::slice::from_ref(row)).await.unwrap();
    }
    world.history.insert(&tenant("other"), Uuid::from_u128(9), &rows[2..3]).await.unwrap();
    let version = |row: &HistoryRow| HistoryVersion { place: row.place(), version: row.version };
    world.history.delete(&acme, &[version(&rows[0]), version(&rows[2])]).await.unwrap();
    let mut left = world.history.read(&acme, &places(&rows)).await.unwrap();
    left.sort_by_key(|row| row.report_id);
    assert_eq!(left, [rows[1].clone(), rows[3].clone()]);
    assert_eq!(world.count("tenant = 'other'").await, 1);
    world.history.delete(&acme, &[]).await.unwrap();
    assert_eq!(world.count("true").await, 3);
    world.stop().await;
}

#[tokio::test]
async fn days_and_tenants_are_deleted_and_their_bytes_leave_the_disk() {
    let world = World::start().await;
    let mut rows =
        vec![row(1, 1, &json!({})), row(2, 1, &json!({})), row(3, 1, &json!({"reason": "s3cret"}))];
    rows[1].received_at = BEGIN - Duration::days(1);
    rows[2].received_at = BEGIN - Duration::days(40);
    for (name, token) in [("acme", 1), ("other", 2)] {
        world.history.insert(&tenant(name), Uuid::from_u128(token), &rows).await.unwrap();
    }
    world.history.delete_before(&tenant("acme"), BEGIN).await.unwrap();
    assert_eq!((world.count("tenant = 'acme'").await, world.count("tenant = 'other'").await), (1, 3));
    world.history.delete_tenant(&tenant("other")).await.unwrap();
    assert_eq!((world.count("tenant = 'acme'").await, world.count("tenant = 'other'").await), (1, 0));
    assert!(world.history.apply_deletions().await.unwrap());
    assert!(!world.history.apply_deletions().await.unwrap(), "no part has deleted rows any more");
    let stored = "SELECT sum(rows) FROM system.parts WHERE active AND database = currentDatabase()";
    assert_eq!(world.run(stored).await.trim(), "1", "parts have no deleted rows");
    world.stop().await;
}

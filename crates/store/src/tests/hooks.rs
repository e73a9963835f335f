//! Hooks of features: when they run, and what becomes of a transaction in which one fails.

use crate::groups::GroupEvent;
use crate::tests::database::{Database, acme, arrival, grouping};
use crate::{HookFuture, StoreError, StoreHook, TenantTx, Uuid, audit, reports};

const FIRST: StoreHook =
    StoreHook { feature: "first", groups_changed: note_first, groups_deleted: note_deleted };
const SECOND: StoreHook =
    StoreHook { feature: "second", groups_changed: note_second, groups_deleted: note_deleted };
const FAILING: StoreHook =
    StoreHook { feature: "failing", groups_changed: fail, groups_deleted: note_deleted };

async fn note(tx: &mut TenantTx, hook: &'static str, groups: usize) -> crate::Result<()> {
    audit::append(tx, "hook", hook, &groups.to_string(), &serde_json::json!({})).await
}

fn note_first<'t>(tx: &'t mut TenantTx, events: &'t [GroupEvent]) -> HookFuture<'t> {
    Box::pin(note(tx, "first", events.len()))
}

fn note_second<'t>(tx: &'t mut TenantTx, events: &'t [GroupEvent]) -> HookFuture<'t> {
    Box::pin(note(tx, "second", events.len()))
}

fn note_deleted<'t>(tx: &'t mut TenantTx, ids: &'t [Uuid]) -> HookFuture<'t> {
    Box::pin(note(tx, "deleted", ids.len()))
}

fn fail<'t>(_: &'t mut TenantTx, _: &'t [GroupEvent]) -> HookFuture<'t> {
    Box::pin(async { Err(StoreError::InSegment) })
}

/// What the hooks have noted: which, and the number of groups.
async fn noted(database: &Database) -> Vec<(String, String)> {
    let query = "SELECT action, subject FROM audit_log WHERE actor = 'hook' ORDER BY ctid";
    let rows = database.rows(query).await;
    rows.iter().map(|row| (sqlx::Row::get(row, 0), sqlx::Row::get(row, 1))).collect()
}

#[tokio::test]
async fn hooks_run_in_their_order_in_the_transaction_that_stores_or_deletes() {
    let mut database = Database::new().await;
    database.store = database.store.clone().with_hooks(&[SECOND, FIRST]);
    let mut whole = arrival(1);
    whole.facts.grouping = Some(grouping(1, false));
    database.store(&[whole]).await;
    let pair = |hook: &str, groups: &str| (hook.to_owned(), groups.to_owned());
    assert_eq!(noted(&database).await, [pair("second", "1"), pair("first", "1")]);
    database.store = database.store.clone().with_hooks(&[FIRST]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(reports::delete(&mut tx, arrival(1).report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(noted(&database).await.last(), Some(&pair("deleted", "1")));
}

#[tokio::test]
async fn a_hook_that_fails_takes_the_transaction_with_it() {
    let mut database = Database::new().await;
    database.store = database.store.clone().with_hooks(&[FIRST, FAILING]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let failed = reports::store(&mut tx, &[arrival(1)], reports::Effects::Now, None).await;
    assert!(matches!(failed, Err(StoreError::InSegment)), "{failed:?}");
    tx.rollback().await.unwrap();
    assert_eq!(noted(&database).await, []);
}

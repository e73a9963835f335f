//! Hooks of features: when they run, and what becomes of a transaction in which one fails.

use crate::groups::GroupEvent;
use crate::slots::PublishedSymbols;
use crate::tests::database::{Database, acme, arrival, grouping, image, publish, revised};
use crate::{
    Announcement, HookFuture, OwnerTx, StoreError, StoreHook, StoredReports, TenantTx, Uuid,
    announce_to_features, audit, reports,
};
use unslide_model::Quality;

const FIRST: StoreHook = StoreHook {
    groups_changed: Some(note_first),
    groups_deleted: Some(note_deleted),
    ..StoreHook::new("first")
};
const SECOND: StoreHook = StoreHook {
    groups_changed: Some(note_second),
    groups_deleted: Some(note_deleted),
    ..StoreHook::new("second")
};
const FAILING: StoreHook =
    StoreHook { groups_changed: Some(fail), groups_deleted: Some(note_deleted), ..StoreHook::new("failing") };
/// Notes what is stored, published and announced.
const LISTENER: StoreHook = StoreHook {
    reports_stored: Some(note_reports),
    symbols_published: Some(note_symbols),
    announced: Some(note_announced),
    ..StoreHook::new("listener")
};

async fn note(tx: &mut OwnerTx, hook: &'static str, text: String) -> crate::Result<()> {
    audit::append_entry(tx, "hook", hook, &text, &serde_json::json!({})).await
}

fn note_reports<'t>(tx: &'t mut TenantTx, stored: &'t StoredReports) -> HookFuture<'t> {
    let reports = stored.reports.iter().map(|report| {
        let age = if report.is_new { "new" } else { "known" };
        format!("{} {} {} {age}", report.id.0[0], report.app, report.revision)
    });
    let text = format!("{}, {} groups", reports.collect::<Vec<_>>().join(", "), stored.groups.len());
    Box::pin(note(tx, "stored", text))
}

fn note_symbols<'t>(tx: &'t mut OwnerTx, symbols: &'t PublishedSymbols) -> HookFuture<'t> {
    let text = format!("{} {}", symbols.debug_id.0[0], symbols.generation);
    Box::pin(note(tx, "published", text))
}

fn note_announced<'t>(tx: &'t mut TenantTx, announced: &'t [Announcement]) -> HookFuture<'t> {
    let kinds: Vec<&str> = announced.iter().map(|announcement| announcement.kind).collect();
    Box::pin(note(tx, "announced", kinds.join(" ")))
}

fn note_first<'t>(tx: &'t mut TenantTx, events: &'t [GroupEvent]) -> HookFuture<'t> {
    Box::pin(note(tx, "first", events.len().to_string()))
}

fn note_second<'t>(tx: &'t mut TenantTx, events: &'t [GroupEvent]) -> HookFuture<'t> {
    Box::pin(note(tx, "second", events.len().to_string()))
}

fn note_deleted<'t>(tx: &'t mut TenantTx, ids: &'t [Uuid]) -> HookFuture<'t> {
    Box::pin(note(tx, "deleted", ids.len().to_string()))
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
    assert!(reports::delete_report(&mut tx, arrival(1).report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(noted(&database).await.last(), Some(&pair("deleted", "1")));
}

#[tokio::test]
async fn a_hook_that_fails_takes_the_transaction_with_it() {
    let mut database = Database::new().await;
    database.store = database.store.clone().with_hooks(&[FIRST, FAILING]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let failed = reports::store_arrivals(&mut tx, &[arrival(1)], reports::Effects::Now, None).await;
    assert!(matches!(failed, Err(StoreError::InSegment)), "{failed:?}");
    tx.rollback().await.unwrap();
    assert_eq!(noted(&database).await, []);
}

#[tokio::test]
async fn features_learn_of_stored_reports_of_published_symbols_and_of_each_other() {
    let mut database = Database::new().await;
    database.store = database.store.clone().with_hooks(&[LISTENER, FIRST]);
    let pair = |hook: &str, text: &str| (hook.to_owned(), text.to_owned());
    database.store(&[arrival(1), arrival(4)]).await;
    let stored = pair("stored", "1 com.acme.shop 1 new, 4 com.acme.shop 1 new, 1 groups");
    assert_eq!(noted(&database).await, [pair("first", "1"), stored], "after the groups of every feature");
    database.store(&[arrival(1)]).await;
    assert_eq!(noted(&database).await.last(), Some(&pair("stored", ", 0 groups")));
    publish(&database, 1, Quality::Dwarf).await;
    assert_eq!(noted(&database).await.last(), Some(&pair("published", "1 1")));
    database.store(&[revised(&arrival(1), 2, image(1, false, Some(1)))]).await;
    assert_eq!(noted(&database).await.last(), Some(&pair("stored", "1 com.acme.shop 2 known, 1 groups")));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let new = |kind| Announcement { kind, app: None, data: serde_json::Value::Null };
    announce_to_features(&mut tx, &[new("one"), new("two")]).await.unwrap();
    announce_to_features(&mut tx, &[]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(noted(&database).await.last(), Some(&pair("announced", "one two")));
}

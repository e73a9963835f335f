//! Hooks of features: when they run, and what becomes of a transaction in which one fails.

use crate::tests::database::{Database, acme, arrival, debug_id, grouping, image, publish, revised};
use crate::tests::symbols::symbols_and_uploads::object;
use crate::{
    Announcement, DeletedReport, OwnerTx, StoreError, StoreEvent, StoreHook, StoredReports,
    announce_to_features, audit, erasure, objects, reports, symbols, uploads,
};
use std::future::ready;
use unslide_model::{Owner, Quality};

const FIRST: StoreHook =
    StoreHook { on_event: Some(|event| Box::pin(note_groups("first", event))), ..StoreHook::new("first") };
const SECOND: StoreHook =
    StoreHook { on_event: Some(|event| Box::pin(note_groups("second", event))), ..StoreHook::new("second") };
const FAILING: StoreHook = StoreHook {
    on_event: Some(|event| Box::pin(ready(fail_for_groups(event)))),
    ..StoreHook::new("failing")
};
/// Notes what is stored, published, deleted and announced.
const LISTENER: StoreHook =
    StoreHook { on_event: Some(|event| Box::pin(note_others(event))), ..StoreHook::new("listener") };

async fn note(tx: &mut OwnerTx, hook: &'static str, text: String) -> crate::Result<()> {
    audit::append_entry(tx, "hook", hook, &text, &serde_json::json!({})).await
}

async fn note_groups(hook: &'static str, event: &mut StoreEvent<'_>) -> crate::Result<()> {
    match event {
        StoreEvent::GroupsChanged(tx, groups) => note(tx, hook, groups.len().to_string()).await,
        StoreEvent::GroupsDeleted(tx, ids) => note(tx, "deleted", ids.len().to_string()).await,
        StoreEvent::GroupsMerged(tx, ids) => note(tx, "merged", ids.len().to_string()).await,
        _ => Ok(()),
    }
}

fn fail_for_groups(event: &StoreEvent<'_>) -> crate::Result<()> {
    match event {
        StoreEvent::GroupsChanged(..) => Err(StoreError::InSegment),
        _ => Ok(()),
    }
}

async fn note_others(event: &mut StoreEvent<'_>) -> crate::Result<()> {
    match event {
        StoreEvent::ReportsStored(tx, stored) => note(tx, "stored", describe_reports(stored)).await,
        StoreEvent::SymbolsPublished(tx, symbols) => {
            note(tx, "published", format!("{} {}", symbols.debug_id.0[0], symbols.generation)).await
        }
        StoreEvent::SymbolsDeleted(tx, debug_id) => note(tx, "unpublished", debug_id.0[0].to_string()).await,
        StoreEvent::Announced(tx, announced) => {
            let kinds: Vec<&str> = announced.iter().map(|announcement| announcement.kind).collect();
            note(tx, "announced", kinds.join(" ")).await
        }
        StoreEvent::ReportDeleted(tx, report) => {
            let DeletedReport { place, app, revision } = report;
            note(tx, "report deleted", format!("{} {} {app} {revision}", place.id.0[0], place.variant)).await
        }
        StoreEvent::ReportsMoved(tx, moved) => {
            let ids: Vec<String> = moved.iter().map(|place| place.id.0[0].to_string()).collect();
            note(tx, "moved", ids.join(" ")).await
        }
        StoreEvent::TenantDeleted(tx) => note(tx, "tenant deleted", String::new()).await,
        StoreEvent::GroupsChanged(..)
        | StoreEvent::GroupsContradicted(..)
        | StoreEvent::ReleasesAsked(..)
        | StoreEvent::LookupsAsked(..)
        | StoreEvent::GroupLinksAsked(..)
        | StoreEvent::DirectoryAsked(..)
        | StoreEvent::DirectoryChanged(..)
        | StoreEvent::GroupsDeleted(..)
        | StoreEvent::GroupsMerged(..)
        | StoreEvent::SessionsEnded(..)
        | StoreEvent::TicketRequested(..) => Ok(()),
    }
}

fn describe_reports(stored: &StoredReports) -> String {
    let reports = stored.reports.iter().map(|report| {
        let age = if report.is_new { "new" } else { "known" };
        format!("{} {} {} {age}", report.id.0[0], report.app, report.revision)
    });
    format!("{}, {} groups", reports.collect::<Vec<_>>().join(", "), stored.groups.len())
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

#[tokio::test]
async fn features_learn_of_deleted_reports_and_of_the_deletion_of_their_tenant_once() {
    let mut database = Database::new().await;
    database.store = database.store.clone().with_hooks(&[LISTENER]);
    database.store(&[arrival(1), revised(&arrival(1), 2, image(1, false, Some(1)))]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(reports::delete_report(&mut tx, arrival(1).report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    let pair = |hook: &str, text: &str| (hook.to_owned(), text.to_owned());
    assert_eq!(noted(&database).await.last(), Some(&pair("report deleted", "1 0 com.acme.shop 2")));
    for _ in 0..2 {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
        tx.commit().await.unwrap();
    }
    let ended = noted(&database).await.into_iter().filter(|one| *one == pair("tenant deleted", ""));
    assert_eq!(ended.count(), 1);
}

#[tokio::test]
async fn features_learn_of_deleted_symbols_of_tenants_and_not_of_the_system() {
    let mut database = Database::new().await;
    database.store = database.store.clone().with_hooks(&[LISTENER]);
    for (owner, noted_then) in [(Owner::System, 0), (Owner::Tenant(acme()), 1)] {
        let mut tx = database.store.owner(&owner).await.unwrap();
        let upload = uploads::create_upload(&mut tx, None, None).await.unwrap();
        objects::record_found(&mut tx, upload, &[("a", &object(1, Some(1)))]).await.unwrap();
        symbols::delete_symbols(&mut tx, &debug_id(1)).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        assert_eq!(noted(&database).await.len(), noted_then, "{owner:?}");
    }
    assert_eq!(noted(&database).await, [("unpublished".to_owned(), "1".to_owned())]);
}

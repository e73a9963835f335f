//! What is erased of a person, what stays, and what a replay brings back.

use crate::person_erasure::erasure_fixture::{
    OTHER_RUN, RUN, arrivals, database, fill, finish, payload, request, session, store_payloads,
    store_sessions,
};
use sqlx::Row;
use std::collections::BTreeMap;
use time::Duration;
use unslide_harness::database::{TestDatabase, acme, umbrella};
use unslide_person_erasure::search::count_removal;
use unslide_person_erasure::store;
use unslide_store::erasure_requests::ErasureState;
use unslide_store::gateway_events::EventOutcome;
use unslide_store::persons::{ErasedSessions, PersonKind};
use unslide_store::tables::Selection;

/// Returns the number of rows of each table that has data of persons.
async fn count_rows(database: &TestDatabase) -> BTreeMap<&'static str, i64> {
    let mut rows = BTreeMap::new();
    for table in ["reports", "report_users", "sessions", "metric_payloads", "captures"] {
        rows.insert(table, database.number(&format!("SELECT count(*) FROM {table}")).await);
    }
    rows
}

fn removed(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    counts.iter().map(|(table, rows)| ((*table).to_owned(), *rows)).collect()
}

/// Proves: deletion
#[tokio::test]
async fn everything_of_a_user_is_erased_and_nothing_of_others() {
    let database = database().await;
    fill(&database).await;
    let requested = request(&database, PersonKind::User, "robin").await;
    let erasure = finish(&database, requested.id).await;
    assert_eq!(erasure.state, ErasureState::Done);
    let expected = removed(&[("reports", 2), ("sessions", 1), ("metric_payloads", 1), ("captures", 1)]);
    assert_eq!(erasure.removed, expected);
    let left = count_rows(&database).await;
    assert_eq!(left["reports"], 2, "the device's report names nobody");
    assert_eq!(
        (left["report_users"], left["sessions"], left["metric_payloads"], left["captures"]),
        (1, 1, 1, 1)
    );
    let runs = database.rows("SELECT session_id FROM sessions").await;
    assert_eq!(runs[0].get::<String, _>(0), OTHER_RUN);
    for (user, sessions) in [("robin", 0), ("kim", 1)] {
        let with_flag = format!("SELECT count(*) FROM sessions WHERE flags ->> 'greeting' = 'hello {user}'");
        assert_eq!(database.number(&with_flag).await, sessions, "flags go with their session");
    }
    assert_eq!(database.number("SELECT count(*) FROM condemned_objects").await, 1, "the capture's file");
}

/// Proves: deletion
#[tokio::test]
async fn a_dry_run_counts_what_the_erasure_removes_and_removes_nothing() {
    for (kind, id) in [
        (PersonKind::User, "robin"),
        (PersonKind::Installation, "robin's phone"),
        (PersonKind::Session, RUN),
        (PersonKind::User, "nobody"),
    ] {
        let database = database().await;
        fill(&database).await;
        let before = count_rows(&database).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let counted = count_removal(&mut tx, kind, id).await.unwrap();
        tx.commit().await.unwrap();
        assert!(counted.complete);
        assert_eq!(count_rows(&database).await, before, "{id}");
        assert_eq!(database.number("SELECT count(*) FROM erased_persons").await, 0);
        let requested = request(&database, kind, id).await;
        let removed = finish(&database, requested.id).await.removed;
        let removed: BTreeMap<&str, u64> =
            removed.iter().map(|(table, rows)| (table.as_str(), *rows)).collect();
        assert_eq!(counted.would_remove, removed, "{id}");
    }
}

/// Proves: deletion
#[tokio::test]
async fn rows_of_sessions_are_counted_as_they_are_deleted() {
    let database = database().await;
    fill(&database).await;
    let (ids, received_before) = ([RUN.to_owned(), RUN.to_uppercase()], database.now());
    let selection = Selection::Sessions(ErasedSessions { ids: &ids, apps: None, received_before });
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let counted = selection.count_rows(&mut tx).await.unwrap();
    assert_eq!(counted.iter().map(|table| table.rows).collect::<Vec<_>>(), [1; 3]);
    assert_eq!(selection.delete_rows(&mut tx, Some(1)).await.unwrap(), counted);
    assert_eq!(selection.count_rows(&mut tx).await.unwrap(), []);
    tx.rollback().await.unwrap();
    let mut tx = database.store.tenant(&umbrella()).await.unwrap();
    assert_eq!(selection.delete_rows(&mut tx, None).await.unwrap(), [], "rows of another tenant");
    tx.commit().await.unwrap();
    assert_eq!(count_rows(&database).await["sessions"], 2);
}

#[tokio::test]
async fn an_installation_is_erased_with_its_sessions_and_reports() {
    let database = database().await;
    fill(&database).await;
    let requested = request(&database, PersonKind::Installation, "robin's phone").await;
    let erasure = finish(&database, requested.id).await;
    let expected = removed(&[("reports", 2), ("sessions", 1), ("metric_payloads", 1), ("captures", 1)]);
    assert_eq!(erasure.removed, expected);
    assert_eq!(count_rows(&database).await["reports"], 2, "one names Robin, one is of somebody else");
}

#[tokio::test]
async fn a_session_is_erased_in_every_spelling() {
    let database = database().await;
    fill(&database).await;
    let requested = request(&database, PersonKind::Session, &RUN.to_uppercase()).await;
    let erasure = finish(&database, requested.id).await;
    let expected = removed(&[("reports", 1), ("sessions", 1), ("metric_payloads", 1), ("captures", 1)]);
    assert_eq!(erasure.removed, expected);
}

/// Proves: deletion
#[tokio::test]
async fn a_replay_brings_nothing_older_back_and_later_data_is_stored() {
    let database = database().await;
    fill(&database).await;
    let requested = request(&database, PersonKind::User, "robin").await;
    finish(&database, requested.id).await;
    let before = count_rows(&database).await;
    // As after a rebuild of the store: nothing knows the reports that were erased.
    database.execute("DELETE FROM report_keys; DELETE FROM reports; DELETE FROM report_users").await;
    database.store(&arrivals()).await;
    let outcomes = store_sessions(&database, &[session(RUN, "robin's phone", "robin")]).await;
    assert_eq!(outcomes, [EventOutcome::Deleted]);
    // The end of the session, which names no user, is of the same session.
    let end = session(RUN, "a phone", "nobody");
    assert_eq!(store_sessions(&database, &[end]).await, [EventOutcome::Deleted]);
    assert_eq!(store_payloads(&database, &[payload("m1", RUN)]).await, [EventOutcome::Deleted]);
    assert_eq!(count_rows(&database).await, before);
    let mut later = session("another", "robin's phone", "robin");
    later.received_at = database.now() + Duration::MINUTE;
    assert_eq!(store_sessions(&database, &[later]).await, [EventOutcome::New]);
    let mut later = arrivals().swap_remove(2);
    later.received_at = database.now() + Duration::MINUTE;
    later.report_id.0 = [77; 16];
    later.content_hash.0 = [77; 32];
    database.store(&[later]).await;
    assert_eq!(count_rows(&database).await["reports"], before["reports"] + 1);
}

/// Proves: deletion
#[tokio::test]
async fn the_audit_log_and_the_erasure_have_a_keyed_hash_and_never_the_id() {
    let database = database().await;
    fill(&database).await;
    let requested = request(&database, PersonKind::User, "robin").await;
    assert_eq!(requested.state, ErasureState::Searching);
    finish(&database, requested.id).await;
    let noted =
        database.rows("SELECT subject, detail::text FROM audit_log WHERE action = 'person.erased'").await;
    assert_eq!(noted[0].get::<String, _>(0), requested.person_hash);
    assert!(noted[0].get::<String, _>(1).contains("\"reports\": 2"));
    for table in ["person_erasures", "erased_persons", "audit_log", "jobs"] {
        let with_id = format!("SELECT count(*) FROM {table} t WHERE t::text LIKE '%robin%'");
        assert_eq!(database.number(&with_id).await, 0, "{table}");
    }
    let again = request(&database, PersonKind::User, "robin").await;
    assert_eq!(again.person_hash, requested.person_hash);
    let mut tx = database.store.tenant(&umbrella()).await.unwrap();
    let new = store::NewPersonErasure { kind: PersonKind::User, id: "robin".to_owned(), dry_run: false };
    let foreign = store::begin_erasure(&mut tx, &new, "test").await.unwrap().unwrap();
    assert_ne!(foreign.person_hash, requested.person_hash, "tenants have different hashes");
    assert!(store::get_erasure(&mut tx, requested.id).await.unwrap().is_none());
}

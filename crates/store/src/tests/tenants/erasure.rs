//! A deleted tenant: nothing of it is left, and nothing comes back.

use crate::erasure::{self, ByTable};
use crate::jobs::{self, JobKind, JobLease, Work};
use crate::keys::{self, NewApiKey};
use crate::tables::{CORE_TABLES, KeyColumn, OwnedTable};
use crate::tenants::{self, QuotaLimits, TenantStanding};
use crate::tests::database::{Database, acme, arrival, publish, start, symbols, tenant_id};
use crate::tests::tenants::isolation::fill;
use crate::{StoreError, StoreHook, audit, outbox, reports, requests, slots, uploads};
use sqlx::Row;
use time::Duration;
use unslide_model::{Quality, Scope};

/// What outlives a tenant: who did what, the proof, and what tells the workers.
const OUTLIVES: [&str; 4] = ["audit_log", "jobs", "outbox", "tenant_erasures"];

/// Every table with a column of tenants, by the standard's own catalogue.
async fn tables(database: &Database) -> Vec<String> {
    let rows = database
        .rows(
            "SELECT c.table_name::text FROM information_schema.columns c
             JOIN pg_class r ON r.relname = c.table_name AND r.relnamespace = 'public'::regnamespace
             WHERE c.table_schema = 'public' AND c.column_name = 'tenant' AND NOT r.relispartition AND r.relkind IN ('r', 'p')
             ORDER BY 1",
        )
        .await;
    rows.iter().map(|row| row.get(0)).collect()
}

async fn held(database: &Database, table: &str, tenant: &str) -> i64 {
    database.number(&format!("SELECT count(*) FROM {table} WHERE tenant = '{tenant}'")).await
}

async fn delete(database: &Database) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (tenant, announced) = erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
    assert_eq!((tenant.state, announced.is_some()), (TenantStanding::Deleted, true));
    tx.commit().await.unwrap();
}

async fn lease(database: &Database) -> Option<JobLease> {
    let leased =
        jobs::lease_jobs(&database.store, &JobKind::ALL, "builder", Duration::MINUTE, 1).await.unwrap();
    leased.into_iter().find(|job| job.owner.tenant() == Some(&acme()))
}

/// Erases rows until none is left that may go now.
async fn erase(database: &Database, page: u32) -> u32 {
    let (mut pages, mut emptied) = (0, 0);
    loop {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let gone = erasure::erase_rows(&mut tx, &mut emptied, page).await.unwrap();
        tx.commit().await.unwrap();
        let Some(gone) = gone else { return pages };
        assert!((1..=u64::from(page)).contains(&gone.rows), "{gone:?}");
        pages += 1;
    }
}

/// Declares every table of features by its name and the key of its partitions, each after those that it refers to. How the
/// features declare them is tested with the features.
async fn declare_features(database: &mut Database) {
    let rows = database
        .rows(
            "WITH RECURSIVE tables AS (
                 SELECT c.oid, c.relname::text AS name, c.relkind = 'p' AS is_partitioned
                 FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
                 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition),
             depths AS (
                 SELECT oid, 0 AS depth FROM tables
                 UNION
                 SELECT f.conrelid, d.depth + 1 FROM depths d
                 JOIN pg_constraint f ON f.confrelid = d.oid AND f.contype = 'f' AND f.conrelid <> d.oid
                 WHERE d.depth < 16)
             SELECT t.name, ARRAY(SELECT a.attname::text FROM pg_index i
                                  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                                  WHERE t.is_partitioned AND i.indrelid = t.oid AND i.indisprimary AND a.attname <> 'tenant')
             FROM tables t JOIN depths d ON d.oid = t.oid GROUP BY t.oid, t.name, t.is_partitioned ORDER BY max(d.depth), t.name",
        )
        .await;
    let is_core = |name: &str| CORE_TABLES.iter().any(|table| table.name == name);
    let others = rows.iter().filter(|row| !is_core(row.get(0))).map(|row| {
        let key: Vec<String> = row.get(1);
        let key = key.into_iter().map(|column| KeyColumn::Value(column.leak()));
        OwnedTable { key: key.collect::<Vec<_>>().leak(), ..OwnedTable::new(row.get::<String, _>(0).leak()) }
    });
    let tables = others.collect::<Vec<_>>().leak();
    database.store = database.store.clone().with_hooks(&[StoreHook::with_tables("features", tables)]);
}

async fn finish(database: &Database, job: &JobLease, objects: u64) -> bool {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let finished = erasure::finish_erasure(&mut tx, job, objects).await.unwrap();
    tx.commit().await.unwrap();
    finished
}

/// Proves: deletion
#[tokio::test]
async fn nothing_of_a_deleted_tenant_is_left_in_any_table() {
    let mut database = Database::new().await;
    declare_features(&mut database).await;
    fill(&database).await;
    let tables = tables(&database).await;
    assert!(tables.len() >= 17, "{tables:?}");
    let mut before = ByTable::new();
    for table in &tables {
        before.insert(table.clone(), held(&database, table, "acme").await.try_into().unwrap());
    }
    let others = database.number("SELECT count(*) FROM tenants WHERE state = 'active'").await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let dry_run = erasure::count_removal(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    delete(&database).await;
    let job = lease(&database).await.unwrap();
    assert_eq!(job.work, Work::Erase, "the only job of a deleted tenant that is given out");
    // One row a transaction, and a builder that dies in the middle: the next one goes on.
    for _ in 0..5 {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        erasure::erase_rows(&mut tx, &mut 0, 1).await.unwrap().unwrap();
        tx.commit().await.unwrap();
    }
    let mut died = database.store.tenant(&acme()).await.unwrap();
    erasure::erase_rows(&mut died, &mut 0, 1).await.unwrap().unwrap();
    died.rollback().await.unwrap();
    assert!(!finish(&database, &job, 0).await, "rows are left");
    assert!(erase(&database, 2).await > 5);
    assert!(!finish(&database, &job, 1).await, "an object is left");
    assert!(finish(&database, &job, 0).await);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let erasure = erasure::get(&mut tx).await.unwrap().unwrap();
    let entries = audit::list_entries(&mut tx, None, 100).await.unwrap();
    let proof = entries.iter().find(|entry| entry.action == "tenant.erased").unwrap();
    for table in &tables {
        let left = held(&database, table, "acme").await;
        if OUTLIVES.contains(&table.as_str()) {
            continue;
        }
        assert_eq!(left, 0, "{table}");
        assert_eq!(erasure.removed.get(table), before.get(table).filter(|rows| **rows > 0), "{table}");
        assert_eq!(erasure.remaining.as_ref().unwrap().get(table), Some(&0), "{table}");
        assert_eq!(dry_run.would_remove.get(table.as_str()), erasure.removed.get(table), "{table}");
    }
    assert!(dry_run.complete);
    assert_eq!(proof.detail["removed"], serde_json::to_value(&erasure.removed).unwrap());
    assert_eq!(erasure.finished_at, Some(start()));
    // What outlives it says nothing of its reports, symbols or keys.
    let rows = "SELECT count(*) FROM jobs WHERE tenant = 'acme' AND kind <> 'erase'";
    assert_eq!(database.number(rows).await, 0);
    let rows = "SELECT count(*) FROM outbox WHERE tenant = 'acme' AND kind <> 'tenant_config'";
    assert_eq!(database.number(rows).await, 0);
    assert_eq!(database.number("SELECT count(*) FROM tenants WHERE state = 'active'").await, others - 1);
}

#[tokio::test]
async fn another_tenant_loses_nothing() {
    let mut database = Database::new().await;
    declare_features(&mut database).await;
    fill(&database).await;
    let tables = tables(&database).await;
    // The same rows under another name, made before there were guards and counted as the owner.
    let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    reports::store_arrivals(&mut tx, &[arrival(1), arrival(2)], reports::Effects::Now, None).await.unwrap();
    uploads::create_upload(&mut tx, None, None).await.unwrap();
    tx.commit().await.unwrap();
    let mut before = Vec::new();
    for table in &tables {
        before.push(held(&database, table, "umbrella").await);
    }
    delete(&database).await;
    erase(&database, 100).await;
    for (table, rows) in tables.iter().zip(before) {
        assert_eq!(held(&database, table, "umbrella").await, rows, "{table}");
    }
    // Nobody erases a tenant that is not deleted.
    let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert!(erasure::erase_rows(&mut tx, &mut 0, 10).await.is_err());
}

/// Proves: deletion
#[tokio::test]
async fn nothing_is_written_into_a_deleted_tenant() {
    let database = Database::new().await;
    fill(&database).await;
    delete(&database).await;
    macro_rules! refused {
        ($what:expr) => {{
            let mut tx = database.store.tenant(&acme()).await.unwrap();
            let done = $what(&mut tx).await;
            assert!(matches!(done, Err(StoreError::TenantDeleted)), "{}", stringify!($what));
        }};
    }
    let key = NewApiKey { name: "x".into(), scopes: vec![Scope::ReportsRead], app: None, expires_at: None };
    refused!(async |tx: &mut crate::TenantTx| uploads::create_upload(tx, None, None).await.map(drop));
    refused!(async |tx: &mut crate::TenantTx| keys::create_key(tx, &key, &[1; 30]).await.map(drop));
    refused!(async |tx: &mut crate::TenantTx| slots::publish_symbols(tx, &symbols(3, Quality::Dwarf))
        .await
        .map(drop));
    refused!(async |tx: &mut crate::TenantTx| {
        reports::store_arrivals(tx, &[arrival(9)], reports::Effects::Now, None).await.map(drop)
    });
    refused!(async |tx: &mut crate::TenantTx| {
        jobs::add_job(tx, &Work::Build { upload: crate::UploadId::default() }).await.map(drop)
    });
    refused!(async |tx: &mut crate::TenantTx| {
        audit::append_entry(tx, "x", "x", "x", &serde_json::json!({})).await
    });
    // Not by way of the database itself either.
    let guarded = database
        .number(
            "SELECT count(*) FROM information_schema.columns c
             JOIN pg_class r ON r.relname = c.table_name AND r.relnamespace = 'public'::regnamespace
             WHERE c.table_schema = 'public' AND c.column_name = 'tenant' AND NOT r.relispartition
               AND r.relkind IN ('r', 'p')
               AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = r.oid AND t.tgname = 'refuse_deleted'
                                 AND t.tgenabled <> 'D')",
        )
        .await;
    assert_eq!(guarded, 0, "every table with tenants' rows has the guard");
}

/// Proves: deletion
#[tokio::test]
async fn the_service_deletes_such_rows_with_their_tenant_only() {
    let database = Database::new().await;
    fill(&database).await;
    let delete_from = async |table: &str| {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let deleted =
            sqlx::query(sqlx::AssertSqlSafe(format!("DELETE FROM {table}"))).execute(tx.parts().0).await;
        deleted.map(|deleted| deleted.rows_affected())
    };
    for table in ["key_erasures", "erased_persons", "person_secrets", "outbox", "live_events"] {
        assert_eq!(delete_from(table).await.unwrap(), 0, "{table}");
    }
    delete(&database).await;
    for table in ["key_erasures", "erased_persons", "person_secrets", "outbox", "live_events"] {
        assert!(delete_from(table).await.unwrap() > 0, "{table}");
    }
    for table in ["audit_log", "tenant_erasures", "tenants"] {
        assert!(delete_from(table).await.is_err(), "{table}");
    }
}

/// Proves: deletion
#[tokio::test]
async fn a_deletion_comes_after_whatever_had_begun() {
    let database = Database::new().await;
    let mut begun = database.store.tenant(&acme()).await.unwrap();
    uploads::create_upload(&mut begun, None, None).await.unwrap();
    let store = database.store.clone();
    let deletion = tokio::spawn(async move {
        let mut tx = store.tenant(&acme()).await.unwrap();
        erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
        tx.commit().await.unwrap();
    });
    database.wait_for_lock().await;
    assert!(!deletion.is_finished(), "it did not wait");
    begun.commit().await.unwrap();
    deletion.await.unwrap();
    // The row is there to be found; one that comes later is refused.
    assert_eq!(held(&database, "uploads", "acme").await, 1);
    // A worker that looks holds the deletion off until it has done what it looked for.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(tenants::read_standing(&mut tx).await.unwrap(), Some(TenantStanding::Deleted));
    assert!(matches!(uploads::create_upload(&mut tx, None, None).await, Err(StoreError::TenantDeleted)));
}

/// Proves: deletion
#[tokio::test]
async fn a_deletion_is_for_good_and_its_slug_is_never_given_again() {
    let database = Database::new().await;
    delete(&database).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(tenants::create_tenant(&mut tx, "Again", &QuotaLimits::default()).await.unwrap().is_none());
    assert!(
        tenants::change_tenant(&mut tx, "Again", TenantStanding::Active, &QuotaLimits::default())
            .await
            .unwrap()
            .is_none()
    );
    let raised = sqlx::query("UPDATE tenants SET state = 'active' WHERE slug = 'acme'").execute(tx.parts().0);
    assert!(matches!(StoreError::from(raised.await.unwrap_err()), StoreError::TenantDeleted));
    // Again is no error, makes no second job and no second announcement.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (_, announced) = erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    assert_eq!(announced, None);
    assert_eq!(database.number("SELECT count(*) FROM jobs WHERE kind = 'erase'").await, 1);
    let mut nobody = database.store.tenant(&tenant_id("nobody")).await.unwrap();
    assert!(erasure::begin_erasure(&mut nobody).await.unwrap().is_none());
    // It is written again to a configuration topic that was lost.
    assert_eq!(tenants::announce_all(&database.store).await.unwrap(), 2);
    let last = "SELECT count(*) FROM outbox WHERE tenant = 'acme' AND message ->> 'state' = 'deleted'";
    assert_eq!(database.number(last).await, 2);
}

#[tokio::test]
async fn a_job_that_runs_is_waited_for_and_is_not_kept_alive() {
    let database = Database::new().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    jobs::add_job(&mut tx, &Work::Build { upload: crate::UploadId::default() }).await.unwrap();
    tx.commit().await.unwrap();
    let build = lease(&database).await.unwrap();
    delete(&database).await;
    let job = lease(&database).await.unwrap();
    erase(&database, 100).await;
    assert!(!finish(&database, &job, 0).await, "a builder is still at it");
    let beat = jobs::extend_lease(&database.store, &build, Duration::MINUTE).await;
    assert!(matches!(beat, Err(StoreError::LeaseLost(_))), "the deletion ends it");
    jobs::extend_lease(&database.store, &job, Duration::HOUR).await.unwrap();
    database.wait(Duration::minutes(2));
    erase(&database, 100).await;
    assert!(finish(&database, &job, 0).await);
}

#[tokio::test]
async fn an_erasing_that_was_given_up_is_taken_up_and_looks_twice() {
    let database = Database::new().await;
    delete(&database).await;
    let later = Duration::hours(8);
    let resume =
        async || erasure::resume_erasures(&database.store, database.clock_now() - later, 10).await.unwrap();
    assert_eq!(resume().await, 0, "its job waits");
    let job = lease(&database).await.unwrap();
    // As programs of the release before did.
    crate::tests::database::execute(
        &database,
        &format!("UPDATE jobs SET status = 'failed' WHERE id = '{}'", job.id),
    )
    .await;
    assert_eq!((resume().await, resume().await), (1, 0));
    let job = lease(&database).await.unwrap();
    erase(&database, 100).await;
    assert!(finish(&database, &job, 0).await);
    assert_eq!(resume().await, 0);
    database.wait(later + Duration::SECOND);
    assert_eq!(resume().await, 1, "uploads that had begun before it are over by now");
    let job = lease(&database).await.unwrap();
    assert!(finish(&database, &job, 0).await);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let erasure = erasure::get(&mut tx).await.unwrap().unwrap();
    assert_eq!((erasure.finished_at, erasure.swept_at.is_some()), (Some(start()), true));
    assert_eq!(audit::list_entries(&mut tx, None, 1).await.unwrap()[0].action, "tenant.swept");
    database.wait(Duration::days(2));
    assert_eq!(resume().await, 0, "twice is enough");
}

#[tokio::test]
async fn nothing_is_asked_for_a_deleted_tenant() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    publish(&database, 1, Quality::Dwarf).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    crate::wakes::request_page(&mut tx, &crate::tests::database::debug_id(1), 1, None, 10).await.unwrap();
    tx.commit().await.unwrap();
    database.wait(Duration::HOUR);
    delete(&database).await;
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 0);
    // Its jobs are not given out any more, whatever they were.
    let kinds = [JobKind::Build, JobKind::Wake, JobKind::Purge];
    assert!(jobs::lease_jobs(&database.store, &kinds, "b", Duration::MINUTE, 10).await.unwrap().is_empty());
    // Its keys are refused at once, before anything is erased.
    let sent = outbox::Relay::acquire(&database.store).await.unwrap().unwrap().next(100).await.unwrap();
    let mut ours = sent.iter().filter(|u| u.owner.tenant() == Some(&acme())).map(|u| &u.message);
    let told = ours.rfind(|message| matches!(message, outbox::Message::TenantConfig { .. }));
    assert!(matches!(
        told.unwrap(),
        outbox::Message::TenantConfig { state: TenantStanding::Deleted, version: 2, .. }
    ));
}

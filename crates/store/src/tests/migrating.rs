//! Migrations of a filled database, beside services that read and write.

use super::database::{Database, acme, arrival, start};
use crate::migrations::{MIGRATIONS, apply_from};
use crate::{Settings, Store, StoreError, apply_migrations, partitions, reports};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{Connection, PgConnection, SqlSafeStr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use unslide_model::{Secret, SystemClock};

/// Migrations after those of the program, in the forms that `migrations/README.md` allows for tables with rows.
const PLANTED: [(&str, bool); 4] = [
    ("ALTER TABLE tenants ADD COLUMN planted text", false),
    ("CREATE INDEX planted_reports ON ONLY reports (tenant, app, received_at) WHERE app <> ''", false),
    ("CREATE INDEX planted_sessions ON ONLY sessions (tenant, day)", false),
    ("CREATE INDEX CONCURRENTLY IF NOT EXISTS planted_keys ON jobs (tenant, updated_at)", true),
];

fn with_planted(planted: &[(&'static str, bool)]) -> Migrator {
    let numbered = planted.iter().zip(99_990_101_000_000..);
    let planted = numbered.map(|((sql, no_tx), version)| {
        Migration::new(version, "planted".into(), MigrationType::Simple, sql.into_sql_str(), *no_tx)
    });
    Migrator::with_migrations(MIGRATIONS.iter().cloned().chain(planted).collect())
}

/// Stores reports one after the other until `over`. Each must succeed.
async fn write_reports(database: Arc<Database>, first: u8, over: Arc<AtomicBool>, written: Arc<AtomicU32>) {
    for n in (first..200).step_by(4) {
        if over.load(Ordering::SeqCst) {
            return;
        }
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        reports::store_arrivals(&mut tx, &[arrival(n)], reports::Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
        written.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A transaction that reads tenants stays open while a migration wants to change the table: writers go on between the
/// tries, and the indexes of partitions are built beside them.
#[tokio::test(flavor = "multi_thread")]
async fn a_filled_database_is_migrated_beside_writers() {
    let database = Arc::new(Database::new().await);
    database.store(&(200..250).map(arrival).collect::<Vec<_>>()).await;
    let mut reader = PgConnection::connect(&database.url).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT count(*) FROM tenants").execute(&mut reader).await.unwrap();
    let (over, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let writers: Vec<_> = (0..4)
        .map(|first| tokio::spawn(write_reports(database.clone(), first, over.clone(), written.clone())))
        .collect();
    let url = Secret::new(database.url.clone());
    let migrating = tokio::spawn(async move { apply_from(&with_planted(&PLANTED), &url).await });
    database.wait_for_lock().await;
    let before = written.load(Ordering::SeqCst);
    while written.load(Ordering::SeqCst) < before + 20 {
        assert!(!migrating.is_finished(), "it cannot pass the reader");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    sqlx::raw_sql("COMMIT").execute(&mut reader).await.unwrap();
    let migrated = migrating.await.unwrap().unwrap();
    assert_eq!(migrated.applied, PLANTED.len());
    over.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    let stored = database.number("SELECT count(*) FROM reports").await;
    assert_eq!(stored, 50 + i64::from(written.load(Ordering::SeqCst)));
    let valid = "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                 WHERE c.relname IN ('planted_reports', 'planted_sessions', 'planted_keys') AND i.indisvalid";
    assert_eq!(database.number(valid).await, 3);
    // A day that is made later has its part.
    let later = start().date() + time::Duration::days(30);
    partitions::ensure_partitions(&database.store, later, later).await.unwrap();
    assert_eq!(database.number(valid).await, 3, "no part is missing");
}

/// A run that was ended while it built an index leaves one that is not valid.
#[tokio::test]
async fn an_index_that_a_run_left_unfinished_is_built_again() {
    let database = Database::new().await;
    // Two keys of the table have the same value, so that the first try of a unique index fails halfway.
    let broken = ("CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS planted ON tenants (name)", true);
    sqlx::raw_sql("UPDATE tenants SET name = 'same'")
        .execute(&mut PgConnection::connect(&database.url).await.unwrap())
        .await
        .unwrap();
    let url = Secret::new(database.url.clone());
    let failed = apply_from(&with_planted(&[broken]), &url).await;
    assert!(matches!(failed, Err(StoreError::Migrate(_))), "{failed:?}");
    let unfinished = "SELECT count(*) FROM pg_index WHERE NOT indisvalid";
    assert_eq!(database.number(unfinished).await, 1);
    sqlx::raw_sql("UPDATE tenants SET name = slug")
        .execute(&mut PgConnection::connect(&database.url).await.unwrap())
        .await
        .unwrap();
    assert_eq!(apply_from(&with_planted(&[broken]), &url).await.unwrap().applied, 1);
    assert_eq!(database.number(unfinished).await, 0);
}

/// A database whose first migration is another one, or has other content.
#[tokio::test]
async fn a_database_of_another_base_is_refused_with_what_to_do() {
    for change in [
        "UPDATE _sqlx_migrations SET version = version - 1 WHERE version = (SELECT min(version) FROM _sqlx_migrations)",
        "UPDATE _sqlx_migrations SET checksum = '\\x00' WHERE version = (SELECT max(version) FROM _sqlx_migrations)",
    ] {
        let database = Database::new().await;
        let mut owner = PgConnection::connect(&database.url).await.unwrap();
        sqlx::raw_sql(change).execute(&mut owner).await.unwrap();
        let refused = apply_migrations(&Secret::new(database.url.clone())).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a development version from before the first release made this database, and no migration leads from its schema to \
             this one: start with an empty database, or `unslide dev` with an empty --data-dir"
        );
        if change.contains("version - 1") {
            let settings = Settings::with_url(database.url.clone());
            let served = Store::connect(&settings, Arc::new(SystemClock)).await;
            assert!(matches!(served.err(), Some(StoreError::OtherBase)));
        }
    }
}

//! The schema's history, part of the program.

use super::lock_timeout::{LOCK_TIMEOUT, NO_TIMEOUT, set_lock_timeout};
use super::partitioned_indexes;
use crate::{Result, StoreError};
use sqlx::error::DatabaseError;
use sqlx::migrate::{Migrate, MigrateError, Migrator};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;
use unslide_model::Secret;

/// Pause between two tries of a migration.
const LOCK_TRY_BACKOFF: Duration = Duration::from_secs(1);
/// How long a migration is tried altogether.
const LOCK_TRIES_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations");

/// PostgreSQL 15, as `server_version_num` has it: the first version in which a view reads its tables as the role that asks
/// (`security_invoker`).
const OLDEST_SERVER_VERSION: i32 = 150_000;

/// The counts of a migration run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// How many migrations were applied now.
    pub applied: usize,
    /// How many there are.
    pub total: usize,
}

async fn read_applied_versions(connection: &mut PgConnection) -> Result<BTreeSet<i64>> {
    let there = sqlx::query("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?
        .get::<bool, _>(0);
    if !there {
        return Ok(BTreeSet::new());
    }
    let rows =
        sqlx::query("SELECT version FROM _sqlx_migrations WHERE success").fetch_all(connection).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Applies missing migrations as the role of `url`, which then owns the schema, beside services that read and write.
/// Several processes may call it at the same time: they take turns.
///
/// # Errors
/// Returns an error if the database cannot be reached, a migration fails or cannot lock its table, or the database has
/// another base.
pub async fn apply_migrations(url: &Secret) -> Result<Migrated> {
    apply_from(&MIGRATIONS, url).await
}

/// Applies the missing ones of these migrations.
pub(crate) async fn apply_from(migrations: &Migrator, url: &Secret) -> Result<Migrated> {
    let mut connection = PgConnection::connect(url.reveal()).await?;
    verify_server(&mut connection).await?;
    // Held until the connection ends. A process that waits its turn waits as long as the other one takes.
    connection.lock().await?;
    let before = read_applied_versions(&mut connection).await?;
    check_base(migrations, &before)?;
    partitioned_indexes::drop_unfinished(&mut connection).await?;
    let pending = migrations.iter().filter(|migration| !before.contains(&migration.version));
    for alone in pending.filter(|migration| migration.no_tx) {
        // An index that is built beside writers waits for each of their transactions.
        run_until(migrations, &mut connection, Some(alone.version - 1), LOCK_TIMEOUT).await?;
        run_until(migrations, &mut connection, Some(alone.version), NO_TIMEOUT).await?;
    }
    run_until(migrations, &mut connection, None, LOCK_TIMEOUT).await?;
    sqlx::query("GRANT SELECT ON _sqlx_migrations TO unslide_service").execute(&mut connection).await?;
    partitioned_indexes::complete_indexes(&mut connection).await?;
    let after = read_applied_versions(&mut connection).await?.len();
    connection.close().await?;
    Ok(Migrated { applied: after - before.len(), total: migrations.iter().count() })
}

/// Runs migrations up to a version. One that cannot lock its table in time is undone, lets the services go on, and is
/// tried again: whoever waits behind a waiting lock waits no longer than this time.
async fn run_until(
    migrations: &Migrator,
    connection: &mut PgConnection,
    last: Option<i64>,
    lock_timeout: &str,
) -> Result<()> {
    set_lock_timeout(connection, lock_timeout).await?;
    let begun = Instant::now();
    loop {
        let error = match migrations.run_direct(last, connection, false).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        // A landed file never changes.
        if matches!(error, MigrateError::VersionMismatch(_)) {
            return Err(StoreError::OtherBase);
        }
        if !is_lock_conflict(&error) {
            return Err(error.into());
        }
        if begun.elapsed() >= LOCK_TRIES_TIMEOUT {
            return Err(StoreError::Locked { seconds: LOCK_TRIES_TIMEOUT.as_secs(), source: error });
        }
        tracing::warn!(error = %error, "a migration waits for transactions of others and is tried again");
        tokio::time::sleep(LOCK_TRY_BACKOFF).await;
    }
}

/// Returns true if a migration found its table locked, or waited in a circle with a writer.
fn is_lock_conflict(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else {
        return false;
    };
    error
        .as_database_error()
        .and_then(DatabaseError::code)
        .is_some_and(|code| matches!(code.as_ref(), "55P03" | "40P01"))
}

/// Returns an error if the server is older than the supported versions.
pub(crate) async fn verify_server(connection: &mut PgConnection) -> Result<()> {
    let version = "SELECT current_setting('server_version_num')::integer, current_setting('server_version')";
    let row = sqlx::query(version).fetch_one(connection).await?;
    check_version(row.get(0), row.get(1))
}

fn check_version(number: i32, name: &str) -> Result<()> {
    if number < OLDEST_SERVER_VERSION {
        return Err(StoreError::OldServer { found: name.to_owned() });
    }
    Ok(())
}

/// Returns an error if migrations were applied, and the first one of this program was not.
fn check_base(migrations: &Migrator, applied: &BTreeSet<i64>) -> Result<()> {
    let first = migrations.iter().map(|migration| migration.version).min();
    let is_ours = first.is_none_or(|first| applied.contains(&first));
    if applied.is_empty() || is_ours { Ok(()) } else { Err(StoreError::OtherBase) }
}

/// Returns an error if a migration of this program is not applied. Later migrations than it knows are fine.
pub(crate) async fn verify_applied(connection: &mut PgConnection) -> Result<()> {
    let applied = read_applied_versions(connection).await?;
    check_base(&MIGRATIONS, &applied)?;
    let missing: Vec<i64> =
        MIGRATIONS.iter().map(|m| m.version).filter(|version| !applied.contains(version)).collect();
    match missing.first() {
        None => Ok(()),
        Some(first) => Err(StoreError::NotMigrated { missing: missing.len(), first: *first }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_is_refused_with_its_version() {
        assert!(check_version(150_000, "15.0").is_ok() && check_version(180_006, "18.6").is_ok());
        let refused = check_version(140_012, "14.12 (Debian 14.12-1)").unwrap_err().to_string();
        assert_eq!(
            refused,
            "PostgreSQL 14.12 (Debian 14.12-1) is too old: Unslide runs on PostgreSQL 15 to 18. Update the server"
        );
    }
}

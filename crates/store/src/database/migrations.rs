//! The schema's history, part of the program.

use crate::{Result, StoreError};
use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};
use std::collections::BTreeSet;
use unslide_model::Secret;

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations");

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

/// Applies missing migrations as the role of `url`, which then owns the schema. Several processes may call it
/// at the same time: they take turns.
///
/// # Errors
/// Returns an error if the database cannot be reached, a migration fails, or an applied one has changed.
pub async fn apply_migrations(url: &Secret) -> Result<Migrated> {
    let mut connection = PgConnection::connect(url.reveal()).await?;
    verify_server(&mut connection).await?;
    let before = read_applied_versions(&mut connection).await?.len();
    MIGRATIONS.run(&mut connection).await?;
    sqlx::query("GRANT SELECT ON _sqlx_migrations TO unslide_service").execute(&mut connection).await?;
    let after = read_applied_versions(&mut connection).await?.len();
    connection.close().await?;
    Ok(Migrated { applied: after - before, total: MIGRATIONS.iter().count() })
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

/// Returns an error if a migration of this program is not applied. Later migrations than it knows are fine.
pub(crate) async fn verify_applied(connection: &mut PgConnection) -> Result<()> {
    let applied = read_applied_versions(connection).await?;
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

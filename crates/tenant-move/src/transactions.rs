//! Transactions as the owner of the tables, and the lock that makes one process move a tenant.

use crate::error::During;
use crate::{CellServers, Move, TenantMoveError};
use sqlx::postgres::PgConnection;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use unslide_model::TenantId;
use unslide_store::TenantTx;

/// How long a process that was killed may hold the lock.
const OLD_LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The reads of a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Each statement reads what is committed.
    Latest,
    /// All statements read what was committed at the first.
    Snapshot,
}

/// Time limits of a transaction's statements. Zero is none.
#[derive(Clone, Copy)]
pub(crate) struct TimeLimits {
    pub statement: Duration,
    pub lock: Duration,
}

impl TimeLimits {
    /// For steps that may take as long as they need.
    pub(crate) const NONE: TimeLimits = TimeLimits { statement: Duration::ZERO, lock: Duration::ZERO };
}

/// Begins a transaction of the tenant as the tables' owner. It may write whatever the tenant's place is, and its rows are
/// looked up by their keys.
pub(crate) async fn begin_owner(
    cell: &CellServers,
    tenant: &TenantId,
    reads: Reads,
    limits: TimeLimits,
) -> Result<TenantTx, TenantMoveError> {
    let mut tx = cell.store.tenant(tenant).await?;
    let (connection, ..) = tx.parts();
    if reads == Reads::Snapshot {
        sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            .execute(&mut *connection)
            .await
            .during(&cell.name, "beginning a transaction")?;
    }
    sqlx::query(
        "SELECT set_config('role', 'none', true), set_config('unslide.definer', 'on', true),
                set_config('unslide.erasing', 'on', true), set_config('statement_timeout', $1, true),
                set_config('lock_timeout', $2, true), set_config('enable_hashjoin', 'off', true),
                set_config('enable_mergejoin', 'off', true)",
    )
    .bind(limits.statement.as_millis().to_string())
    .bind(limits.lock.as_millis().to_string())
    .execute(&mut *connection)
    .await
    .during(&cell.name, "becoming the owner of the tables")?;
    Ok(tx)
}

/// Commits.
pub(crate) async fn commit_tx(tx: TenantTx) -> Result<(), TenantMoveError> {
    Ok(tx.commit().await?)
}

/// Checks that the login of a cell owns its tables and may make temporary ones.
pub(crate) async fn check_owner(cell: &CellServers, tenant: &TenantId) -> Result<(), TenantMoveError> {
    let mut tx = begin_owner(cell, tenant, Reads::Latest, TimeLimits::NONE).await?;
    let can: bool = sqlx::query_scalar(
        "SELECT pg_has_role(current_user, c.relowner, 'USAGE')
                AND has_database_privilege(current_database(), 'TEMPORARY')
         FROM pg_class c WHERE c.oid = 'public.moving_rows'::regclass",
    )
    .fetch_one(tx.parts().0)
    .await
    .during(&cell.name, "looking at the rights of the login")?;
    tx.rollback().await?;
    if can {
        return Ok(());
    }
    Err(TenantMoveError::Other(format!(
        "the login at PostgreSQL of the cell {} does not own the tables, or may not make temporary ones: set postgres.url to the login of \
         `unslide migrate`",
        cell.name
    )))
}

/// Opens a connection to the directory as its owner.
pub(crate) async fn connect_directory(job: &Move<'_>) -> Result<PgConnection, TenantMoveError> {
    let action = "becoming the owner of the directory";
    let mut connection = job.directory.pool().acquire().await.during("directory", action)?.detach();
    sqlx::raw_sql("SET ROLE NONE").execute(&mut connection).await.during("directory", action)?;
    let can: bool = sqlx::query_scalar("SELECT has_table_privilege('public.cell_tenants', 'INSERT')")
        .fetch_one(&mut connection)
        .await
        .during("directory", action)?;
    if can {
        return Ok(connection);
    }
    Err(TenantMoveError::Other(
        "the login at the directory may not change it: set cells.directory to the login of `unslide migrate`"
            .to_owned(),
    ))
}

/// The locks of a process that moves a tenant, in both databases. They end with their connections.
pub(crate) struct MoveLock {
    _from: PgConnection,
    _to: PgConnection,
}

impl MoveLock {
    /// Takes the locks.
    pub(crate) async fn take_both(job: &Move<'_>) -> Result<MoveLock, TenantMoveError> {
        let busy = || TenantMoveError::Busy { tenant: job.tenant.clone() };
        let from = lock_cell(job.from, &job.tenant).await?.ok_or_else(busy)?;
        let to = lock_cell(job.to, &job.tenant).await?;
        let to = to.ok_or_else(|| {
            TenantMoveError::Other(format!(
                "the cells {} and {} have the same database, or another process moves the tenant there",
                job.from.name, job.to.name
            ))
        })?;
        Ok(MoveLock { _from: from, _to: to })
    }
}

/// Returns `None` if another process has the lock.
async fn lock_cell(cell: &CellServers, tenant: &TenantId) -> Result<Option<PgConnection>, TenantMoveError> {
    let action = "taking the lock of the move";
    let mut connection = cell.store.pool().acquire().await.during(&cell.name, action)?.detach();
    let end = Instant::now() + OLD_LOCK_TIMEOUT;
    loop {
        let lock = "SELECT pg_try_advisory_lock(hashtextextended('tenant move ' || $1, 0))";
        let taken = sqlx::query_scalar(lock).bind(tenant.as_str()).fetch_one(&mut connection).await;
        if taken.during(&cell.name, action)? {
            return Ok(Some(connection));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        sleep(LOCK_POLL_INTERVAL).await;
    }
}

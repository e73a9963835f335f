//! The statements about exports.

use time::{Date, Duration, OffsetDateTime};
use unslide_store::{Result, Store, TenantTx};

/// An export as the database has it.
#[derive(Clone, Debug)]
pub struct ExportRow {
    pub shown_address: String,
    pub sealed_target: Vec<u8>,
    pub changed_at: OffsetDateTime,
    pub first_day: Date,
    /// The next day that is written for the first time.
    pub next_day: Date,
    /// When the bucket may be written to next.
    pub next_write_at: OffsetDateTime,
    pub written_at: Option<OffsetDateTime>,
    /// Turns in a row that failed.
    pub failures: i32,
    pub problem: Option<String>,
}

/// An export to be set.
#[derive(Clone, Debug)]
pub struct NewExportRow {
    pub shown_address: String,
    pub sealed_target: Vec<u8>,
    /// The day that it begins with. None: an export to the same address goes on.
    pub first_day: Option<Date>,
}

/// Returns the export of the transaction's tenant.
pub async fn get_export(tx: &mut TenantTx) -> Result<Option<ExportRow>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_as!(
        ExportRow,
        "SELECT shown_address, sealed_target, changed_at, first_day, next_day, next_write_at, written_at, failures, problem
         FROM parquet_exports WHERE tenant = $1",
        tenant
    );
    Ok(row.fetch_optional(connection).await?)
}

/// Lets one change of the export of the transaction's tenant wait for the end of another, and returns it.
pub async fn lock_export(tx: &mut TenantTx) -> Result<Option<ExportRow>> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "SELECT pg_advisory_xact_lock(hashtextextended('parquet export of ' || $1::text, 0))",
        tenant
    )
    .execute(connection)
    .await?;
    get_export(tx).await
}

/// Sets the export, under the lock of [`lock_export`]. With a first day it forgets what was written before.
pub async fn set_export(tx: &mut TenantTx, new: &NewExportRow) -> Result<()> {
    if new.first_day.is_some() {
        forget_days(tx).await?;
    }
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO parquet_exports AS e (tenant, shown_address, sealed_target, changed_at, first_day, next_day, next_write_at)
         VALUES ($1, $2, $3, $4, coalesce($5::date, $6), coalesce($5::date, $6), $4)
         ON CONFLICT (tenant) DO UPDATE
         SET shown_address = $2, sealed_target = $3, changed_at = $4, first_day = coalesce($5::date, e.first_day),
             next_day = coalesce($5::date, e.next_day), written_at = CASE WHEN $5::date IS NULL THEN e.written_at END,
             next_write_at = $4, failures = 0, problem = NULL",
        tenant,
        new.shown_address,
        new.sealed_target,
        now,
        new.first_day,
        now.date()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Removes the export with the rows of its files, under the lock of [`lock_export`]. Returns false if there is none.
pub async fn remove_export(tx: &mut TenantTx) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let removed = sqlx::query!("DELETE FROM parquet_exports WHERE tenant = $1", tenant);
    if removed.execute(connection).await?.rows_affected() == 0 {
        return Ok(false);
    }
    forget_days(tx).await?;
    Ok(true)
}

async fn forget_days(tx: &mut TenantTx) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM parquet_day_changes WHERE tenant = $1", tenant)
        .execute(&mut *connection)
        .await?;
    sqlx::query!("DELETE FROM parquet_days WHERE tenant = $1", tenant).execute(&mut *connection).await?;
    sqlx::query!("DELETE FROM parquet_files WHERE tenant = $1", tenant).execute(connection).await?;
    Ok(())
}

/// Returns true if the export is as a turn has read it. Its row stays so until the transaction ends.
pub async fn is_current(tx: &mut TenantTx, export: &ExportRow) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!(
        "SELECT next_day FROM parquet_exports WHERE tenant = $1 AND changed_at = $2 FOR SHARE",
        tenant,
        export.changed_at
    );
    Ok(found.fetch_optional(connection).await?.is_some())
}

/// Goes on with this day if the next one is before it: its reports end by their age.
pub async fn skip_days(tx: &mut TenantTx, export: &ExportRow, kept_from: Date) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE parquet_exports SET next_day = $3 WHERE tenant = $1 AND changed_at = $2 AND next_day < $3",
        tenant,
        export.changed_at,
        kept_from
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records that a turn failed, unless the export was set again since. The bucket is written to after the pause.
pub async fn record_failure(
    tx: &mut TenantTx,
    export: &ExportRow,
    pause: Duration,
    problem: &str,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE parquet_exports SET failures = failures + 1, problem = $3, next_write_at = $4 WHERE tenant = $1 AND changed_at = $2",
        tenant,
        export.changed_at,
        problem,
        now + pause
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records that the bucket takes requests again, unless the export was set again since.
pub async fn record_success(tx: &mut TenantTx, export: &ExportRow) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE parquet_exports SET failures = 0, problem = NULL WHERE tenant = $1 AND changed_at = $2 AND failures > 0",
        tenant,
        export.changed_at
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the time at which the oldest work of any tenant was due: a day this long after its end, a change this long after it.
pub async fn oldest_due(
    store: &Store,
    after_day: Duration,
    after_change: Duration,
) -> Result<Option<OffsetDateTime>> {
    let oldest = sqlx::query_scalar!(
        "SELECT unslide_parquet_oldest_due($1, $2)",
        after_day.as_seconds_f64(),
        after_change.as_seconds_f64()
    );
    Ok(oldest.fetch_one(store.pool()).await?)
}

//! The days of an export: which are to be written again, and which files they have.

use super::exports::ExportRow;
use crate::settings::ExportTimes;
use time::{Date, OffsetDateTime};
use unslide_store::{Result, TenantTx};

/// A day that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueDay {
    pub day: Date,
    /// A report of it was deleted: replaced files go at once.
    pub erases: bool,
}

/// A day that was written.
#[derive(Clone, Copy, Debug)]
pub struct WrittenDay {
    pub due: DueDay,
    pub generation: i64,
    pub rows: i64,
    pub files: i32,
    pub bytes: i64,
}

/// Returns a day that has changed since it was written and is due: with deleted reports first, then the one that waits longest. A day before
/// `kept_from` is left as it is.
pub async fn find_due_change(
    tx: &mut TenantTx,
    export: &ExportRow,
    kept_from: Date,
    times: &ExportTimes,
) -> Result<Option<DueDay>> {
    let (connection, tenant, now) = tx.parts();
    let found = sqlx::query_as!(
        DueDay,
        "SELECT day, erases FROM parquet_days
         WHERE tenant = $1 AND changed_since IS NOT NULL AND day >= greatest($2::date, $3::date) AND day < $4
           AND (erases AND changed_since <= $5 OR changed_at <= $6 OR changed_since <= $7)
         ORDER BY erases DESC, changed_since, day LIMIT 1",
        tenant,
        export.first_day,
        kept_from,
        export.next_day,
        now - times.after_deletion,
        now - times.quiet,
        now - times.change_wait_max
    );
    Ok(found.fetch_optional(connection).await?)
}

/// Returns the newest generation that a day may have files of.
pub async fn find_generation(tx: &mut TenantTx, day: Date) -> Result<i64> {
    let (connection, tenant, _) = tx.parts();
    let newest = sqlx::query_scalar!(
        r#"SELECT coalesce(max(generation), 0) AS "generation!" FROM parquet_files WHERE tenant = $1 AND day = $2"#,
        tenant,
        day
    );
    Ok(newest.fetch_one(connection).await?)
}

/// Returns the number of days that have changed and wait to be written again.
pub async fn count_waiting(tx: &mut TenantTx) -> Result<i64> {
    let (connection, tenant, _) = tx.parts();
    let waiting = sqlx::query_scalar!(
        r#"SELECT count(*) AS "waiting!" FROM parquet_days d JOIN parquet_exports e ON e.tenant = d.tenant
           WHERE d.tenant = $1 AND d.changed_since IS NOT NULL AND d.day >= e.first_day AND d.day < e.next_day"#,
        tenant
    );
    Ok(waiting.fetch_one(connection).await?)
}

/// Records that a day is complete in the bucket. Files of its other generations are deleted at `replaced_until`. Returns false if the export
/// was set again or removed since: roll back.
pub async fn finish_day(
    tx: &mut TenantTx,
    export: &ExportRow,
    written: &WrittenDay,
    replaced_until: OffsetDateTime,
) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let day = written.due.day;
    let recorded = sqlx::query!(
        "UPDATE parquet_exports SET next_day = greatest(next_day, $3::date + 1), written_at = $4, failures = 0, problem = NULL
         WHERE tenant = $1 AND changed_at = $2",
        tenant,
        export.changed_at,
        day,
        now
    );
    if recorded.execute(&mut *connection).await?.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query!(
        "INSERT INTO parquet_days (tenant, day, generation, rows, files, bytes, written_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (tenant, day) DO UPDATE SET generation = $3, rows = $4, files = $5, bytes = $6, written_at = $7,
             changed_since = NULL, changed_at = NULL, erases = false",
        tenant,
        day,
        written.generation,
        written.rows,
        written.files,
        written.bytes,
        now
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "UPDATE parquet_files SET delete_at = CASE WHEN generation = $3 THEN NULL ELSE least(delete_at, $4) END
         WHERE tenant = $1 AND day = $2",
        tenant,
        day,
        written.generation,
        replaced_until
    )
    .execute(connection)
    .await?;
    Ok(true)
}

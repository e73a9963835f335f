//! Rows that are deleted at ClickHouse: those that no key names, and those of days that are over.

use crate::column::{ReportIdColumn, TenantColumn, U32};
use crate::number::to_row32;
use crate::reports::RowKey;
use crate::reports::{KeyRow, drop_rest, lock_known};
use crate::reprocess;
use crate::segments::day_bounds;
use crate::{Result, Store, TenantTx, Uuid};
use time::{Date, OffsetDateTime};
use unslide_history::{HistoryPlace, HistoryVersion};
use unslide_model::{ReportId, TenantId};

/// A tenant with rows that are to be deleted at ClickHouse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionTenant {
    /// The tenant.
    pub tenant: TenantId,
    /// When its first row was queued.
    pub oldest: OffsetDateTime,
}

/// Returns tenants with rows that are to be deleted at ClickHouse, those that have waited longest first.
pub async fn list_deletion_tenants(store: &Store, limit: u32) -> Result<Vec<DeletionTenant>> {
    Ok(sqlx::query_as!(
        DeletionTenant,
        r#"SELECT tenant AS "tenant!: TenantColumn", oldest AS "oldest!" FROM unslide_history_deletions_due($1)"#,
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?)
}

/// A row that is to be deleted at ClickHouse, with all earlier versions of it.
#[derive(Clone, Copy, Debug)]
pub struct HistoryDeletion {
    number: i64,
    /// The row. Its later versions stay.
    pub version: HistoryVersion,
}

/// Returns the next rows to delete, under lock: another process that deletes at the same time gets others.
pub async fn lock_deletions(tx: &mut TenantTx, limit: u32) -> Result<Vec<HistoryDeletion>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT number, received_at, report_id AS "report_id: ReportIdColumn", variant AS "variant: U32", version AS "version: U32"
           FROM history_deletions WHERE tenant = $1 ORDER BY number LIMIT $2 FOR UPDATE SKIP LOCKED"#,
        tenant,
        i64::from(limit)
    );
    let rows = rows.fetch_all(connection).await?.into_iter().map(|row| HistoryDeletion {
        number: row.number,
        version: HistoryVersion {
            place: HistoryPlace {
                received_at: row.received_at,
                report_id: row.report_id.into(),
                variant: row.variant.into(),
            },
            version: row.version.into(),
        },
    });
    Ok(rows.collect())
}

/// Forgets rows that were deleted at ClickHouse.
pub async fn forget_deletions(tx: &mut TenantTx, deleted: &[HistoryDeletion]) -> Result<()> {
    let numbers: Vec<i64> = deleted.iter().map(|row| row.number).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM history_deletions WHERE tenant = $1 AND number = ANY ($2)", tenant, &numbers)
        .execute(connection)
        .await?;
    Ok(())
}

/// Ends reports of the transaction's tenant with rows at ClickHouse that arrived before the day `before`, at most `limit` of them, with
/// all dependent rows. From then on no reader shows them. Returns their number; 0 once none is left.
pub async fn expire_moved(tx: &mut TenantTx, before: Date, limit: u32) -> Result<u64> {
    let (end, _) = day_bounds(before);
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        "SELECT report_id, variant FROM report_keys
         WHERE tenant = $1 AND received_at < $2 AND history_version IS NOT NULL
         ORDER BY received_at LIMIT $3",
        tenant,
        end,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let going: Vec<RowKey> = rows.into_iter().map(|row| (row.report_id, row.variant)).collect();
    // In the lock order of all writers of reports. One that was brought back in between goes with the rows of its day.
    let mut keys = lock_known(tx, &going).await?;
    keys.retain(|key| key.history_version.is_some());
    end_moved(tx, &keys).await?;
    Ok(going.len() as u64)
}

/// Ends reports with rows at ClickHouse: their keys are locked, and name no row from now on.
async fn end_moved(tx: &mut TenantTx, keys: &[KeyRow]) -> Result<()> {
    let times: Vec<OffsetDateTime> = keys.iter().map(|key| key.received_at).collect();
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = keys.iter().map(KeyRow::row_key).unzip();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE report_keys k SET history_version = NULL FROM unnest($2::uuid[], $3::integer[]) AS n (report_id, variant)
         WHERE k.tenant = $1 AND k.report_id = n.report_id AND k.variant = n.variant",
        tenant,
        &ids,
        &variants
    )
    .execute(connection)
    .await?;
    drop_rest(tx, &times, &ids, &variants).await?;
    reprocess::count_ends(tx, &reprocess::count_deleted(keys)).await?;
    Ok(())
}

/// Deletes a report with a row that ClickHouse has lost. Its part in counts stays. Returns false if its row is in the database by now.
pub async fn forget_lost(tx: &mut TenantTx, report_id: ReportId, variant: u32) -> Result<bool> {
    let mut keys = lock_known(tx, &[(report_id.uuid(), to_row32(variant))]).await?;
    keys.retain(|key| key.history_version.is_some());
    if keys.is_empty() {
        return Ok(false);
    }
    end_moved(tx, &keys).await?;
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE report_keys SET deleted_at = $4 WHERE tenant = $1 AND report_id = $2 AND variant = $3 AND deleted_at IS NULL",
        tenant,
        report_id.uuid(),
        to_row32(variant),
        now
    )
    .execute(connection)
    .await?;
    Ok(true)
}

/// The days of a tenant that are to be deleted at ClickHouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryExpiry {
    /// The days before the boundary are deleted, or ClickHouse has no row of the tenant.
    Done,
    /// They are to be deleted now.
    Due,
    /// A move of such a day is under way: it is over first.
    Moving,
}

/// Returns whether the days before `before` are to be deleted at ClickHouse.
pub async fn read_expiry(tx: &mut TenantTx, before: Date) -> Result<HistoryExpiry> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT expired_before, EXISTS (SELECT FROM history_moves m WHERE m.tenant = $1 AND m.day < $2) AS "moving!"
           FROM history_tenants WHERE tenant = $1"#,
        tenant,
        before
    )
    .fetch_optional(connection)
    .await?;
    Ok(match row {
        None => HistoryExpiry::Done,
        Some(row) if row.expired_before.is_some_and(|expired| expired >= before) => HistoryExpiry::Done,
        Some(row) if row.moving => HistoryExpiry::Moving,
        Some(_) => HistoryExpiry::Due,
    })
}

/// Records that the days before `before` are deleted at ClickHouse.
pub async fn record_expiry(tx: &mut TenantTx, before: Date) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("UPDATE history_tenants SET expired_before = $2 WHERE tenant = $1", tenant, before)
        .execute(connection)
        .await?;
    Ok(())
}

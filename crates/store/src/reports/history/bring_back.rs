//! Bringing rows back that a transaction needs, and reading them for one that does not.

use super::require_history;
use crate::column::{ReportIdColumn, TenantColumn, U32, U64};
use crate::number::to_row32;
use crate::reports::RowKey;
use crate::reports::{KeyRow, lock_known};
use crate::segments::utc_day;
use crate::{Result, Store, StoreError, TenantTx, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use time::{Date, OffsetDateTime};
use unslide_history::{HistoryPlace, HistoryRow, HistoryVersion};
use unslide_model::{ReportId, TenantId};

/// Rows that one request to ClickHouse reads.
const READ_ROWS_LIMIT: usize = 500;
/// Variants of one id that are read.
const READ_VARIANTS_LIMIT: i64 = 100;

/// Brings the rows of these reports back into the database, as far as they are in ClickHouse. This transaction has
/// locked the keys.
///
/// # Errors
/// ClickHouse does not answer, or does not have a row yet that a key names.
pub(crate) async fn bring_back(tx: &mut TenantTx, keys: &[KeyRow]) -> Result<()> {
    let moved = keys.iter().filter(|key| key.history_version.is_some());
    bring_back_reports(tx, moved.map(KeyRow::row_key).collect()).await
}

/// Does the same for reports that were in ClickHouse when their keys were locked.
pub(crate) async fn bring_back_reports(tx: &mut TenantTx, reports: Vec<RowKey>) -> Result<()> {
    if reports.is_empty() {
        return Ok(());
    }
    // A row that this transaction has brought back before is not there any more.
    let moved = list_moved_keys(tx, &reports).await?;
    for some in moved.chunks(READ_ROWS_LIMIT) {
        let rows = Box::pin(read_rows(tx, some)).await?;
        Box::pin(restore_rows(tx, &rows)).await?;
    }
    Ok(())
}

/// Returns those of these reports that have their rows in ClickHouse.
pub async fn list_moved(tx: &mut TenantTx, reports: &[ReportId]) -> Result<Vec<ReportId>> {
    let ids: Vec<Uuid> = reports.iter().map(|id| id.uuid()).collect();
    let (connection, tenant, _) = tx.parts();
    let moved = sqlx::query_scalar!(
        "SELECT DISTINCT report_id FROM report_keys
         WHERE tenant = $1 AND report_id = ANY ($2) AND history_version IS NOT NULL",
        tenant,
        &ids
    );
    Ok(moved.fetch_all(connection).await?.into_iter().map(ReportId::from_uuid).collect())
}

/// Brings rows of the transaction's tenant back into the database, the oldest first, at most `limit`: for an installation that does
/// without a history again. Returns their number; 0 once none is left.
pub async fn bring_back_oldest(tx: &mut TenantTx, limit: u32) -> Result<u64> {
    let (connection, tenant, _) = tx.parts();
    let moved = sqlx::query!(
        "SELECT report_id, variant FROM report_keys WHERE tenant = $1 AND history_version IS NOT NULL
         ORDER BY received_at LIMIT $2",
        tenant,
        i64::from(limit)
    );
    let moved = moved.fetch_all(connection).await?;
    let reports: Vec<RowKey> = moved.into_iter().map(|row| (row.report_id, row.variant)).collect();
    let keys = lock_known(tx, &reports).await?;
    bring_back(tx, &keys).await?;
    Ok(reports.len() as u64)
}

/// Counts the rows of the transaction's tenant that are in ClickHouse.
pub async fn count_moved(tx: &mut TenantTx) -> Result<u64> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_scalar!(
        r#"SELECT count(*) AS "rows!: U64" FROM report_keys WHERE tenant = $1 AND history_version IS NOT NULL"#,
        tenant
    );
    Ok(rows.fetch_one(connection).await?.into())
}

/// Returns tenants with rows in ClickHouse after one of them, by their names.
pub async fn list_moved_tenants(
    store: &Store,
    after: Option<&TenantId>,
    limit: u32,
) -> Result<Vec<TenantId>> {
    let tenants = sqlx::query_scalar!(
        r#"SELECT tenant AS "tenant!: TenantColumn" FROM unslide_history_tenants($1, $2)"#,
        after.map_or("", TenantId::as_str),
        to_row32(limit)
    );
    Ok(tenants.fetch_all(store.pool()).await?.into_iter().map(TenantId::from).collect())
}

/// Reads the rows of those of these reports that are in ClickHouse, and leaves them there. Returns them as one document for
/// `unslide_moved_reports`. Without a history it is empty, and no statement is sent.
pub(crate) async fn read_moved(tx: &mut TenantTx, reports: &[RowKey]) -> Result<String> {
    if tx.history().is_none() || reports.is_empty() {
        return Ok("[]".to_owned());
    }
    let moved = list_moved_keys(tx, reports).await?;
    read_document(tx, &moved).await
}

/// Does the same for reports that have their rows there, as their locked keys say.
///
/// # Errors
/// The settings name no history.
pub(crate) async fn read_moved_locked(tx: &mut TenantTx, reports: &[RowKey]) -> Result<String> {
    require_history(tx)?;
    read_moved(tx, reports).await
}

/// Does the same as [`read_moved`] for the first variants of an id.
pub(crate) async fn read_moved_of_id(tx: &mut TenantTx, id: Uuid) -> Result<String> {
    if tx.history().is_none() {
        return Ok("[]".to_owned());
    }
    let (connection, tenant, _) = tx.parts();
    let variants = sqlx::query_scalar!(
        "SELECT variant FROM report_keys WHERE tenant = $1 AND report_id = $2 AND history_version IS NOT NULL
         ORDER BY variant LIMIT $3",
        tenant,
        id,
        READ_VARIANTS_LIMIT
    );
    let variants = variants.fetch_all(connection).await?;
    let reports: Vec<RowKey> = variants.into_iter().map(|variant| (id, variant)).collect();
    read_moved(tx, &reports).await
}

/// Reads rows that keys name, as one document for `unslide_moved_reports`.
pub(super) async fn read_document(tx: &mut TenantTx, moved: &[HistoryVersion]) -> Result<String> {
    let mut rows = Vec::with_capacity(moved.len());
    for some in moved.chunks(READ_ROWS_LIMIT) {
        rows.extend(read_rows(tx, some).await?);
    }
    Ok(join_documents(&rows))
}

/// Returns the rows as one JSON array.
fn join_documents(rows: &[HistoryRow]) -> String {
    let documents: Vec<&str> = rows.iter().map(|row| row.row.as_str()).collect();
    format!("[{}]", documents.join(","))
}

async fn list_moved_keys(tx: &mut TenantTx, reports: &[RowKey]) -> Result<Vec<HistoryVersion>> {
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = reports.iter().copied().unzip();
    let (connection, tenant, _) = tx.parts();
    let keys = sqlx::query!(
        r#"SELECT k.received_at, k.report_id AS "report_id: ReportIdColumn", k.variant AS "variant: U32",
                  k.history_version AS "version!: U32"
           FROM unnest($2::uuid[], $3::integer[]) AS w (report_id, variant)
           JOIN report_keys k ON k.tenant = $1 AND k.report_id = w.report_id AND k.variant = w.variant
           WHERE k.history_version IS NOT NULL
           ORDER BY k.report_id, k.variant"#,
        tenant,
        &ids,
        &variants
    );
    let keys = keys.fetch_all(connection).await?.into_iter().map(|row| HistoryVersion {
        place: HistoryPlace {
            received_at: row.received_at,
            report_id: row.report_id.into(),
            variant: row.variant.into(),
        },
        version: row.version.into(),
    });
    Ok(keys.collect())
}

/// Reads rows from ClickHouse, each in the version that its key names.
async fn read_rows(tx: &mut TenantTx, moved: &[HistoryVersion]) -> Result<Vec<HistoryRow>> {
    if moved.is_empty() {
        return Ok(Vec::new());
    }
    let history = require_history(tx)?;
    let places: Vec<HistoryPlace> = moved.iter().map(|key| key.place).collect();
    // The client makes large futures.
    let read = Box::pin(history.read(&tx.tenant()?, &places)).await?;
    let mut found: BTreeMap<(ReportId, u32), HistoryRow> = BTreeMap::new();
    for row in read {
        found.insert((row.report_id, row.variant), row);
    }
    moved
        .iter()
        .map(|key| {
            let (id, variant) = (key.place.report_id, key.place.variant);
            let row = found.remove(&(id, variant)).filter(|row| row.version == key.version);
            row.ok_or(StoreError::HistoryBehind { report_id: id, variant, version: key.version })
        })
        .collect()
}

/// Makes the tables of these days that were dropped because they were empty. From here on none is dropped until the transaction ends.
async fn ensure_days(tx: &mut TenantTx, times: &[OffsetDateTime]) -> Result<()> {
    let days: BTreeSet<Date> = times.iter().map(|at| utc_day(*at)).collect();
    let days: Vec<Date> = days.into_iter().collect();
    let (connection, _, _) = tx.parts();
    // The parents have no rows of their own: reading them locks them.
    let missing = sqlx::query_scalar!(
        r#"SELECT d.day AS "day!" FROM unnest($1::date[]) AS d (day)
           WHERE NOT EXISTS (SELECT FROM ONLY reports) AND NOT EXISTS (SELECT FROM ONLY report_bodies)
             AND NOT EXISTS (SELECT FROM ONLY report_frames)
             AND EXISTS (SELECT FROM unnest(ARRAY['reports', 'report_bodies', 'report_frames']) AS t (name)
                         WHERE to_regclass('public.' || t.name || '_' || to_char(d.day, 'YYYYMMDD')) IS NULL)"#,
        &days
    )
    .fetch_all(&mut *connection)
    .await?;
    for day in missing {
        sqlx::query_scalar!(r#"SELECT unslide_partitions_ensure($1, $1) AS "made!""#, day)
            .fetch_one(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Puts rows back in their place in `reports`, and has those at ClickHouse deleted.
async fn restore_rows(tx: &mut TenantTx, rows: &[HistoryRow]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let times: Vec<OffsetDateTime> = rows.iter().map(|row| row.received_at).collect();
    let ids: Vec<Uuid> = rows.iter().map(|row| row.report_id.uuid()).collect();
    let variants: Vec<i32> = rows.iter().map(|row| to_row32(row.variant)).collect();
    let document = join_documents(rows);
    ensure_days(tx, &times).await?;
    let (connection, tenant, now) = tx.parts();
    // All parts see the keys as they were before.
    let restored = sqlx::query!(
        "WITH wanted AS (SELECT * FROM unnest($3::timestamptz[], $4::uuid[], $5::integer[]) AS w (received_at, report_id, variant)),
         moved AS MATERIALIZED (
             SELECT m.* FROM unslide_moved_reports($2::text::jsonb) m
             JOIN wanted w ON w.received_at = m.received_at AND w.report_id = m.report_id AND w.variant = m.variant
             WHERE m.tenant = $1),
         queued AS (
             INSERT INTO history_deletions (tenant, received_at, report_id, variant, version, queued_at)
             SELECT $1, k.received_at, k.report_id, k.variant, k.history_version, $6 FROM moved m
             JOIN report_keys k ON k.tenant = $1 AND k.report_id = m.report_id AND k.variant = m.variant
             WHERE k.history_version IS NOT NULL),
         back AS (
             UPDATE report_keys k SET history_version = NULL FROM moved m
             WHERE k.tenant = $1 AND k.report_id = m.report_id AND k.variant = m.variant AND k.received_at = m.received_at
             RETURNING k.report_id, k.variant)
         INSERT INTO reports SELECT m.* FROM moved m JOIN back b ON b.report_id = m.report_id AND b.variant = m.variant",
        tenant,
        document,
        &times,
        &ids,
        &variants,
        now
    )
    .execute(connection)
    .await?;
    if restored.rows_affected() == rows.len() as u64 {
        return Ok(());
    }
    Err(StoreError::corrupt("the history", "a row of ClickHouse is not that of its report"))
}

//! Moving rows out of the database.

use crate::column::{ReportIdColumn, TenantColumn, U32, U64};
use crate::number::{from_row32, to_row, to_row32};
use crate::reports::RowKey;
use crate::reports::{LATE_TELLING_LIMIT, lock_known};
use crate::segments::day_bounds;
use crate::{Result, Store, TenantTx, Uuid, json};
use serde_json::{Value, json};
use time::{Date, OffsetDateTime};
use unslide_history::HistoryRow;
use unslide_model::{ReportId, TenantId};

/// A tenant and day with rows that were not changed for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueMove {
    /// The tenant of the rows.
    pub tenant: TenantId,
    /// Their day of arrival.
    pub day: Date,
    /// When the first of them was changed last.
    pub oldest: OffsetDateTime,
}

/// Returns the tenants and days with rows that were changed last before `changed_before`, the oldest days first, at most `limit`.
/// Rows among them may have to stay for now.
pub async fn list_due(store: &Store, changed_before: OffsetDateTime, limit: u32) -> Result<Vec<DueMove>> {
    // No row of a later day was stored before.
    Ok(sqlx::query_as!(
        DueMove,
        r#"SELECT tenant AS "tenant!: TenantColumn", day AS "day!", oldest AS "oldest!"
           FROM unslide_history_due($1, $1, $2)"#,
        changed_before,
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?)
}

/// A row that a move takes to ClickHouse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovingRow {
    /// When the report arrived.
    pub received_at: OffsetDateTime,
    /// The report.
    pub report_id: ReportId,
    /// Which of the reports with this id.
    pub variant: u32,
    /// When the row was stored.
    pub stored_at: OffsetDateTime,
    /// The transaction that wrote the row: another one wrote it if it was changed.
    written_by: i64,
    row: String,
}

/// A move that has begun: its intent is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunMove {
    /// The day of the rows.
    pub day: Date,
    /// The version of the rows.
    pub version: u32,
    /// The token of its INSERT.
    pub token: Uuid,
    /// The rows.
    pub rows: Vec<MovingRow>,
}

impl BegunMove {
    /// Returns the rows as ClickHouse gets them.
    #[must_use]
    pub fn to_history_rows(&self) -> Vec<HistoryRow> {
        let rows = self.rows.iter().map(|row| HistoryRow {
            received_at: row.received_at,
            report_id: row.report_id,
            variant: row.variant,
            version: self.version,
            row: row.row.clone(),
        });
        rows.collect()
    }
}

/// Stores the intent to move rows of a day that were changed last before `changed_before`: at most `limit` of them, and as many
/// as have `bytes` together, but at least one. A row stays if its body is not in a segment yet, if a request for its report is
/// under way, or if MetricKit may still report the same crash. Returns `None` if no row is left, another process moves some of this day, or
/// the tenant is on its way to another cell: its rows are copied from the database.
pub async fn begin_move(
    tx: &mut TenantTx,
    day: Date,
    changed_before: OffsetDateTime,
    limit: u32,
    bytes: u64,
) -> Result<Option<BegunMove>> {
    // The intent first: rows that were read before another process's move of the day ended would be sent to ClickHouse in a higher
    // version than the one that their keys name, which would take its place there.
    let (connection, tenant, now) = tx.parts();
    let begun = sqlx::query!(
        "INSERT INTO history_moves (tenant, day, token, begun_at, places)
         SELECT $1, $2, unslide_uuid($3), $3, '[]' WHERE NOT unslide_is_moving()
         ON CONFLICT DO NOTHING RETURNING version, token",
        tenant,
        day,
        now
    );
    let Some(begun) = begun.fetch_optional(connection).await? else { return Ok(None) };
    let rows = list_moving_rows(tx, day, changed_before, limit, bytes).await?;
    let begun = BegunMove { day, version: from_row32(begun.version), token: begun.token, rows };
    if begun.rows.is_empty() {
        forget_intent(tx, &begun).await?;
        return Ok(None);
    }
    let places = begun.rows.iter().map(|row| {
        json!({
            "received_at": json::format_time(row.received_at),
            "report_id": row.report_id.uuid(),
            "variant": to_row32(row.variant),
        })
    });
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE history_moves SET places = $3 WHERE tenant = $1 AND day = $2",
        tenant,
        day,
        places.collect::<Value>()
    )
    .execute(connection)
    .await?;
    Ok(Some(begun))
}

async fn list_moving_rows(
    tx: &mut TenantTx,
    day: Date,
    changed_before: OffsetDateTime,
    limit: u32,
    bytes: u64,
) -> Result<Vec<MovingRow>> {
    let (from, to) = day_bounds(day);
    let (connection, tenant, now) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT w.received_at AS "received_at!", w.report_id AS "report_id!: ReportIdColumn", w.variant AS "variant!: U32",
                  w.stored_at AS "stored_at!", w.written_by AS "written_by!", w.row AS "row!"
           FROM (SELECT n.*, sum(octet_length(n.row)) OVER (ORDER BY n.received_at, n.report_id, n.variant) AS total
                 FROM (SELECT r.received_at, r.report_id, r.variant, r.stored_at, r.xmin::text::bigint AS written_by,
                              to_jsonb(r)::text AS row
                       FROM reports r
                       JOIN report_keys k ON k.tenant = $1 AND k.report_id = r.report_id AND k.variant = r.variant
                       WHERE r.tenant = $1 AND r.received_at >= $2 AND r.received_at < $3 AND r.stored_at < $4
                         AND k.deleted_at IS NULL AND k.requested_at IS NULL AND NOT k.ask_pending AND k.retry_at IS NULL
                         AND (r.received_at < $7 OR NOT r.fatal OR r.same_crash_as IS NOT NULL
                              OR r.run_id IS NULL AND r.process_identity IS NULL)
                         AND NOT EXISTS (SELECT FROM report_bodies b
                                         WHERE b.tenant = $1 AND b.received_at >= $2 AND b.received_at < $3
                                           AND b.received_at = r.received_at AND b.report_id = r.report_id AND b.variant = r.variant)
                       ORDER BY r.received_at, r.report_id, r.variant LIMIT $5) n) w
           WHERE w.total <= $6 OR w.total = octet_length(w.row)
           ORDER BY w.received_at, w.report_id, w.variant"#,
        tenant,
        from,
        to,
        changed_before,
        i64::from(limit),
        to_row(bytes),
        now - LATE_TELLING_LIMIT
    )
    .fetch_all(connection)
    .await?;
    let rows = rows.into_iter().map(|row| MovingRow {
        received_at: row.received_at,
        report_id: row.report_id.into(),
        variant: row.variant.into(),
        stored_at: row.stored_at,
        written_by: row.written_by,
        row: row.row,
    });
    Ok(rows.collect())
}

/// Ends a move: the rows that are still the same leave the database, and their keys get the version. Rows that were changed in
/// between stay, and are deleted at ClickHouse. Returns the number of rows that moved; `None` if the intent is gone: another
/// process gave it up, nothing was done, and the caller must roll back.
pub async fn finish_move(tx: &mut TenantTx, begun: &BegunMove) -> Result<Option<u64>> {
    let (connection, tenant, _) = tx.parts();
    let intent = sqlx::query_scalar!(
        "SELECT version FROM history_moves WHERE tenant = $1 AND day = $2 AND version = $3 FOR UPDATE",
        tenant,
        begun.day,
        to_row32(begun.version)
    );
    if intent.fetch_optional(connection).await?.is_none() {
        return Ok(None);
    }
    // In the order in which every transaction locks them.
    let reports: Vec<RowKey> =
        begun.rows.iter().map(|row| (row.report_id.uuid(), to_row32(row.variant))).collect();
    lock_known(tx, &reports).await?;
    let moved = take_rows(tx, begun).await?;
    queue_unmoved(tx, begun).await?;
    record_end(tx, begun).await?;
    Ok(Some(moved))
}

/// Deletes the rows that are still those that were read, and gives their keys the version. Returns their number.
async fn take_rows(tx: &mut TenantTx, begun: &BegunMove) -> Result<u64> {
    let rows = begun.rows.iter().map(|row| {
        json!({
            "received_at": json::format_time(row.received_at),
            "report_id": row.report_id.uuid(),
            "variant": to_row32(row.variant),
            "written_by": row.written_by,
        })
    });
    let (from, to) = day_bounds(begun.day);
    let (connection, tenant, _) = tx.parts();
    let moved = sqlx::query!(
        "WITH taken AS (
             DELETE FROM reports r
             USING jsonb_to_recordset($2) AS n (received_at timestamptz, report_id uuid, variant integer, written_by bigint)
             WHERE r.tenant = $1 AND r.received_at >= $3 AND r.received_at < $4 AND r.received_at = n.received_at
               AND r.report_id = n.report_id AND r.variant = n.variant AND r.xmin::text::bigint = n.written_by
               AND EXISTS (SELECT FROM report_keys k
                           WHERE k.tenant = $1 AND k.report_id = n.report_id AND k.variant = n.variant AND k.deleted_at IS NULL
                             AND k.requested_at IS NULL AND NOT k.ask_pending AND k.retry_at IS NULL)
             RETURNING r.report_id, r.variant)
         UPDATE report_keys k SET history_version = $5 FROM taken t
         WHERE k.tenant = $1 AND k.report_id = t.report_id AND k.variant = t.variant",
        tenant,
        rows.collect::<Value>(),
        from,
        to,
        to_row32(begun.version)
    )
    .execute(connection)
    .await?;
    Ok(moved.rows_affected())
}

/// Has the rows of a move deleted at ClickHouse that no key names.
async fn queue_unmoved(tx: &mut TenantTx, begun: &BegunMove) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO history_deletions (tenant, received_at, report_id, variant, version, queued_at)
         SELECT $1, p.received_at, p.report_id, p.variant, m.version, $4
         FROM history_moves m CROSS JOIN LATERAL jsonb_to_recordset(m.places)
              AS p (received_at timestamptz, report_id uuid, variant integer)
         WHERE m.tenant = $1 AND m.day = $2 AND m.version = $3
           AND NOT EXISTS (SELECT FROM report_keys k
                           WHERE k.tenant = $1 AND k.report_id = p.report_id AND k.variant = p.variant
                             AND k.history_version = m.version)",
        tenant,
        begun.day,
        to_row32(begun.version),
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn record_end(tx: &mut TenantTx, begun: &BegunMove) -> Result<()> {
    let Some(newest) = begun.rows.iter().map(|row| row.received_at).max() else { return Ok(()) };
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO history_tenants AS t (tenant, ended_moves, newest_at) VALUES ($1, 1, $2)
         ON CONFLICT (tenant) DO UPDATE
         SET ended_moves = t.ended_moves + 1, newest_at = greatest(t.newest_at, EXCLUDED.newest_at)",
        tenant,
        newest
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!("DELETE FROM history_moves WHERE tenant = $1 AND day = $2", tenant, begun.day)
        .execute(connection)
        .await?;
    Ok(())
}

/// Gives a move up after a failure: what ClickHouse may have got is deleted there.
pub async fn give_up_move(tx: &mut TenantTx, begun: &BegunMove) -> Result<()> {
    queue_unmoved(tx, begun).await?;
    forget_intent(tx, begun).await
}

async fn forget_intent(tx: &mut TenantTx, begun: &BegunMove) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "DELETE FROM history_moves WHERE tenant = $1 AND day = $2 AND version = $3",
        tenant,
        begun.day,
        to_row32(begun.version)
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Abandons the moves that began before `before`: their processes have died. Returns their number.
pub async fn abandon_moves(store: &Store, before: OffsetDateTime) -> Result<i64> {
    Ok(sqlx::query_scalar!(
        r#"SELECT unslide_history_moves_abandon($1, $2) AS "moves!""#,
        before,
        store.now()
    )
    .fetch_one(store.pool())
    .await?)
}

/// Lets all moves from now on have versions above this one, the greatest at ClickHouse. They have, unless the database was restored to
/// an earlier moment. Returns true then.
pub async fn skip_versions(store: &Store, above: u32) -> Result<bool> {
    Ok(sqlx::query_scalar!(r#"SELECT unslide_history_versions_skip($1) AS "skipped!""#, to_row32(above))
        .fetch_one(store.pool())
        .await?)
}

/// The state of a tenant's rows at ClickHouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRows {
    /// How many moves have ended. A reader that finds the same number before and after a look into ClickHouse knows that no row has
    /// moved in between.
    pub ended_moves: u64,
    /// No row that was moved arrived later.
    pub newest_at: OffsetDateTime,
}

/// Returns the state of the rows of the transaction's tenant. `None` if ClickHouse has none.
pub async fn read_moved_rows(tx: &mut TenantTx) -> Result<Option<MovedRows>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        MovedRows,
        r#"SELECT ended_moves AS "ended_moves: U64", newest_at FROM history_tenants WHERE tenant = $1"#,
        tenant
    )
    .fetch_optional(connection)
    .await?)
}

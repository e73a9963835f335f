//! Which frames reports refer to, and which nobody does any more.

use crate::number::to_row32;
use crate::{Result, Store, TenantTx, Uuid};
use time::OffsetDateTime;
use unslide_model::ReportId;

/// What a report's rows are found by.
pub(crate) type Key = (OffsetDateTime, ReportId, u32);

/// Takes the frames of these reports away, if they have any: their bodies are elsewhere from now on,
/// or gone (`erase`). The reports' keys have to be locked.
pub(crate) async fn drop_frames(tx: &mut TenantTx, keys: &[Key], erase: bool) -> Result<u64> {
    if keys.is_empty() {
        return Ok(0);
    }
    let times: Vec<OffsetDateTime> = keys.iter().map(|key| key.0).collect();
    let ids: Vec<Uuid> = keys.iter().map(|key| key.1.uuid()).collect();
    let variants: Vec<i32> = keys.iter().map(|key| to_row32(key.2)).collect();
    drop_frames_at(tx, &times, &ids, &variants, erase).await
}

/// The same from columns.
pub(crate) async fn drop_frames_at(
    tx: &mut TenantTx,
    times: &[OffsetDateTime],
    ids: &[Uuid],
    variants: &[i32],
    erase: bool,
) -> Result<u64> {
    let (connection, tenant, now) = tx.parts();
    let done = sqlx::query!(
        "WITH gone AS (
             DELETE FROM report_frames f
             USING unnest($2::timestamptz[], $3::uuid[], $4::integer[]) AS k (received_at, report_id, variant)
             WHERE f.tenant = $1 AND f.received_at = k.received_at AND f.report_id = k.report_id
               AND f.variant = k.variant
             RETURNING f.segment, f.length)
         INSERT INTO dead_frames (tenant, segment, bytes, erase, at)
         SELECT $1, g.segment, g.length, $5, $6 FROM gone g",
        tenant,
        times,
        ids,
        variants,
        erase,
        now
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// Adds the frames that died to their segments' figures; a segment with a deleted report is to be
/// written anew `erase_seconds` after the deletion. Gives how many frames.
///
/// # Errors
/// Where the database fails.
pub async fn count_dead(store: &Store, erase_seconds: u64) -> Result<i64> {
    let seconds = crate::number::to_row(erase_seconds);
    Ok(sqlx::query_scalar!(r#"SELECT unslide_dead_frames_count($1) AS "frames!""#, seconds)
        .fetch_one(store.pool())
        .await?)
}

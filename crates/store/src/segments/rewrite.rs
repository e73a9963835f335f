//! Writing segments anew: without what is dead, and several small ones as one.

use super::write::{erase, hold, live, lock};
use super::{Begun, Finished, Place};
use crate::number::{from_row, from_row32, to_row, to_row32};
use crate::{Result, Store, StoreError, TenantTx, Uuid};
use time::{Date, OffsetDateTime};
use unslide_model::{ReportId, TenantId};

/// Tenants and days with something to write anew: a segment that is mostly dead, one with a deleted
/// report whose time is over, or at least `small_many` of less than `small_bytes`.
///
/// # Errors
/// Where the database fails.
pub async fn due(store: &Store, small_bytes: u64, small_many: u32) -> Result<Vec<(TenantId, Date)>> {
    let rows = sqlx::query!(
        r#"SELECT tenant AS "tenant!", day AS "day!" FROM unslide_segments_due($1, $2, $3)"#,
        store.now(),
        to_row(small_bytes),
        to_row32(small_many)
    )
    .fetch_all(store.pool())
    .await?;
    rows.into_iter()
        .map(|row| Ok((TenantId::new(&row.tenant).map_err(|e| StoreError::corrupt("segments", e))?, row.day)))
        .collect()
}

/// A live segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its id.
    pub id: Uuid,
    /// Bytes of the object.
    pub bytes: u64,
    /// Bytes of its frames.
    pub frame_bytes: u64,
    /// Bytes of the frames that no report refers to.
    pub dead_bytes: u64,
    /// True where a deleted report lies in it and its time is over.
    pub erase: bool,
}

/// The live segments of a day that may be touched now, oldest first.
///
/// # Errors
/// Where the database fails.
pub async fn sources(tx: &mut TenantTx, day: Date) -> Result<Vec<Source>> {
    let (connection, tenant, now) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT id, bytes, frame_bytes, dead_bytes, coalesce(rewrite_by <= $3, false) AS "erase!"
           FROM segments
           WHERE tenant = $1 AND day = $2 AND state = 'live' AND (rest_until IS NULL OR rest_until <= $3)
           ORDER BY id"#,
        tenant,
        day,
        now
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Source {
            id: row.id,
            bytes: from_row(row.bytes),
            frame_bytes: from_row(row.frame_bytes),
            dead_bytes: from_row(row.dead_bytes),
            erase: row.erase,
        })
        .collect())
}

/// A frame that a report refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// When the report arrived.
    pub received_at: OffsetDateTime,
    /// The report.
    pub report_id: ReportId,
    /// Which of the reports with this id.
    pub variant: u32,
    /// The body's revision.
    pub revision: u32,
    /// Where it lies.
    pub place: Place,
}

/// Frames of these segments that reports refer to, in the order in which they lie, behind `after`.
///
/// # Errors
/// Where the database fails.
pub async fn frames_of(
    tx: &mut TenantTx,
    day: Date,
    segments: &[Uuid],
    after: Option<(Uuid, u64)>,
    limit: u32,
) -> Result<Vec<Held>> {
    let (from, to) = super::bounds(day);
    let (last, offset) = after.map_or((Uuid::nil(), -1), |(id, offset)| (id, to_row(offset)));
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        "SELECT received_at, report_id, variant, revision, segment, at_offset, length FROM report_frames
         WHERE tenant = $1 AND segment = ANY ($2) AND received_at >= $3 AND received_at < $4
           AND (segment, at_offset) > ($5, $6)
         ORDER BY segment, at_offset LIMIT $7",
        tenant,
        segments,
        from,
        to,
        last,
        offset,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Held {
            received_at: row.received_at,
            report_id: ReportId::from_uuid(row.report_id),
            variant: from_row32(row.variant),
            revision: from_row32(row.revision),
            place: Place {
                segment: row.segment,
                day,
                offset: from_row(row.at_offset),
                length: from_row(row.length),
            },
        })
        .collect())
}

/// Makes a segment live that has the frames of others, and points the reports to it, each with the
/// offset that its frame has now; those that refer to something else by now stay as they are. The
/// `sources` that no report refers to any more are condemned. `None` where the intent is gone: the
/// caller rolls back. Where nothing was worth writing, `segment` is `None`.
///
/// # Errors
/// Where the database fails.
pub async fn finish_rewrite(
    tx: &mut TenantTx,
    segment: Option<&Begun>,
    bytes: u64,
    frames: &[(Held, u64)],
    sources: &[Uuid],
) -> Result<Option<Finished>> {
    let mut finished = Finished { alive: 0, dead: 0 };
    if let Some(segment) = segment {
        if !hold(tx, segment).await? {
            return Ok(None);
        }
        let keys = lock(tx, frames.iter().map(|(held, _)| held.report_id)).await?;
        erase(tx, segment, &keys, frames.iter().map(|(held, _)| (held.report_id, held.variant))).await?;
        let alive = point(tx, segment, frames).await?;
        let all: Vec<u64> = frames.iter().map(|(held, _)| held.place.length).collect();
        finished = live(tx, segment, bytes, &all, &alive).await?;
    }
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "WITH gone AS (
             DELETE FROM segments s
             WHERE s.tenant = $1 AND s.id = ANY ($2) AND s.state = 'live'
               AND NOT EXISTS (SELECT FROM report_frames f WHERE f.tenant = $1 AND f.segment = s.id)
             RETURNING s.key)
         INSERT INTO condemned_objects (tenant, key, condemned_at) SELECT $1, g.key, $3 FROM gone g
         ON CONFLICT DO NOTHING",
        tenant,
        sources,
        now
    )
    .execute(connection)
    .await?;
    Ok(Some(finished))
}

/// Points reports to their frames in the new segment; gives the bytes of each that could be.
async fn point(tx: &mut TenantTx, segment: &Begun, frames: &[(Held, u64)]) -> Result<Vec<u64>> {
    let times: Vec<OffsetDateTime> = frames.iter().map(|(f, _)| f.received_at).collect();
    let ids: Vec<Uuid> = frames.iter().map(|(f, _)| f.report_id.uuid()).collect();
    let variants: Vec<i32> = frames.iter().map(|(f, _)| to_row32(f.variant)).collect();
    let old: Vec<Uuid> = frames.iter().map(|(f, _)| f.place.segment).collect();
    let old_offsets: Vec<i64> = frames.iter().map(|(f, _)| to_row(f.place.offset)).collect();
    let offsets: Vec<i64> = frames.iter().map(|(_, offset)| to_row(*offset)).collect();
    let (from, to) = super::bounds(segment.day);
    let (connection, tenant, _) = tx.parts();
    let pointed = sqlx::query_scalar!(
        "UPDATE report_frames f SET segment = $8, at_offset = n.at_offset
         FROM unnest($2::timestamptz[], $3::uuid[], $4::integer[], $5::uuid[], $6::bigint[], $7::bigint[])
              AS n (received_at, report_id, variant, old, old_offset, at_offset)
         WHERE f.tenant = $1 AND f.received_at >= $9 AND f.received_at < $10 AND f.received_at = n.received_at
           AND f.report_id = n.report_id AND f.variant = n.variant AND f.segment = n.old AND f.at_offset = n.old_offset
         RETURNING f.length",
        tenant,
        &times,
        &ids,
        &variants,
        &old,
        &old_offsets,
        &offsets,
        segment.id,
        from,
        to
    )
    .fetch_all(connection)
    .await?;
    Ok(pointed.into_iter().map(from_row).collect())
}

/// Leaves segments alone until then: frames of them could not be read.
///
/// # Errors
/// Where the database fails.
pub async fn rest(tx: &mut TenantTx, segments: &[Uuid], until: OffsetDateTime) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE segments SET rest_until = $3 WHERE tenant = $1 AND id = ANY ($2) AND state = 'live'",
        tenant,
        segments,
        until
    )
    .execute(connection)
    .await?;
    Ok(())
}

//! Moving bodies out of the database.

use super::day_bounds;
use crate::column::{ReportIdColumn, TenantColumn, U32, U64};
use crate::number::{to_row, to_row32};
use crate::reports::RowKey;
use crate::reports::lock_known;
use crate::{Result, SegmentId, Store, TenantTx, Uuid, json};
use serde_json::{Value, json};
use sqlx::{Decode, Postgres, Type};
use time::{Date, OffsetDateTime};
use unslide_model::{BodyKey, ReportId, TenantId};

/// Bodies of a tenant and day that are in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingDay {
    /// The tenant of the bodies.
    pub tenant: TenantId,
    /// Their day of arrival.
    pub day: Date,
    /// How many.
    pub bodies: u64,
    /// Their bytes, still compressed.
    pub bytes: u64,
    /// The bytes of the largest.
    pub largest: u64,
    /// When the oldest of them was stored.
    pub oldest: OffsetDateTime,
}

/// Returns the bodies in the database by tenant and day, the oldest first.
pub async fn list_pending(store: &Store) -> Result<Vec<PendingDay>> {
    Ok(sqlx::query_as!(
        PendingDay,
        r#"SELECT tenant AS "tenant!: TenantColumn", day AS "day!", bodies AS "bodies!: U64", bytes AS "bytes!: U64",
                  largest AS "largest!: U64", oldest AS "oldest!"
           FROM unslide_bodies_pending()"#
    )
    .fetch_all(store.pool())
    .await?)
}

/// A body that waits to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingBody {
    /// When the report arrived.
    pub received_at: OffsetDateTime,
    /// The report.
    pub report_id: ReportId,
    /// Which of the reports with this id.
    pub variant: u32,
    /// The body's revision.
    pub revision: u32,
    /// When this form of the body was stored: the text of a revision may be replaced.
    pub stored_at: OffsetDateTime,
    /// Bytes of the JSON.
    pub size: u64,
    /// The body as [`unslide_proto::body::compress_report`] makes it.
    pub body: Vec<u8>,
}

/// Returns the next bodies of a day in the database, behind the report `after`: at least one if there is one,
/// then as many as have `bytes` together.
pub async fn list_pending_bodies(
    tx: &mut TenantTx,
    day: Date,
    after: Option<(OffsetDateTime, ReportId, u32)>,
    bytes: u64,
) -> Result<Vec<PendingBody>> {
    let (from, to) = day_bounds(day);
    let (at, id, variant) =
        after.map_or((from, Uuid::nil(), -1), |(at, id, variant)| (at, id.uuid(), to_row32(variant)));
    let (connection, tenant, _) = tx.parts();
    // A body's size is known without reading it; only those that fit are read.
    Ok(sqlx::query_as!(
        PendingBody,
        r#"SELECT w.received_at, w.report_id AS "report_id: ReportIdColumn", w.variant AS "variant: U32",
                  w.revision AS "revision: U32", w.stored_at, w.size AS "size: U64", w.body
           FROM (SELECT n.*, sum(octet_length(n.body)) OVER (ORDER BY n.received_at, n.report_id, n.variant) AS total
                 FROM (SELECT b.received_at, b.report_id, b.variant, b.revision, b.stored_at, b.size, b.body FROM report_bodies b
                       WHERE b.tenant = $1 AND b.received_at >= $5 AND b.received_at < $2
                         AND (b.received_at, b.report_id, b.variant) > ($5, $6, $3)
                       ORDER BY b.received_at, b.report_id, b.variant LIMIT 500) n) w
           WHERE w.total <= $4 OR w.total = octet_length(w.body)
           ORDER BY w.received_at, w.report_id, w.variant"#,
        tenant,
        to,
        variant,
        to_row(bytes),
        at,
        id
    )
    .fetch_all(connection)
    .await?)
}

/// Makes an id for a segment, or for a file of a feature, that does not exist yet.
pub async fn new_id<Id>(tx: &mut TenantTx) -> Result<Id>
where
    Id: for<'r> Decode<'r, Postgres> + Type<Postgres> + Send + Unpin,
{
    let (connection, _, now) = tx.parts();
    Ok(sqlx::query_scalar!(r#"SELECT unslide_uuid($1) AS "id!: Id""#, now).fetch_one(connection).await?)
}

/// A segment that a writer has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentIntent {
    /// Its id.
    pub id: SegmentId,
    /// Its day.
    pub day: Date,
}

/// Records the intent to write a segment. `None` if another writer has one of this day.
pub async fn begin_segment(
    tx: &mut TenantTx,
    id: SegmentId,
    day: Date,
    key: &str,
) -> Result<Option<SegmentIntent>> {
    let (connection, tenant, now) = tx.parts();
    let done = sqlx::query!(
        "INSERT INTO segments (tenant, id, day, key, state, created_at) VALUES ($1, $2, $3, $4, 'intent', $5)
         ON CONFLICT DO NOTHING",
        tenant,
        id as SegmentId,
        day,
        key,
        now
    )
    .execute(connection)
    .await?;
    Ok((done.rows_affected() == 1).then_some(SegmentIntent { id, day }))
}

/// A frame that was written of a report's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedBody {
    /// When the report arrived.
    pub received_at: OffsetDateTime,
    /// The report.
    pub report_id: ReportId,
    /// Which of the reports with this id.
    pub variant: u32,
    /// The body's revision.
    pub revision: u32,
    /// See [`PendingBody::stored_at`].
    pub stored_at: OffsetDateTime,
    /// The offset at which the frame begins.
    pub offset: u64,
    /// Bytes of the frame.
    pub length: u64,
    /// The key that opens it.
    pub key: BodyKey,
}

/// Makes a segment live and points the reports to it, as far as each still has the body that was written:
/// its body leaves the database. If no report refers to the segment, it is condemned. Returns the number of
/// reports; `None` if the intent is gone: another writer took over, nothing was done, and the caller must
/// roll back.
pub async fn finish_segment(
    tx: &mut TenantTx,
    segment: &SegmentIntent,
    frames: &[MovedBody],
) -> Result<Option<u64>> {
    if !lock_intent(tx, segment).await? {
        return Ok(None);
    }
    // In the order in which every transaction locks them.
    let reports: Vec<RowKey> =
        frames.iter().map(|frame| (frame.report_id.uuid(), to_row32(frame.variant))).collect();
    lock_known(tx, &reports).await?;
    let moved = point_to_frames(tx, segment, frames).await?;
    if moved == 0 {
        give_up(tx, segment).await?;
        return Ok(Some(0));
    }
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE segments SET state = 'live' WHERE tenant = $1 AND id = $2",
        tenant,
        segment.id as SegmentId
    )
    .execute(connection)
    .await?;
    Ok(Some(moved))
}

/// Puts frames in the place of the bodies that are still those that were written. Returns their number.
async fn point_to_frames(tx: &mut TenantTx, segment: &SegmentIntent, frames: &[MovedBody]) -> Result<u64> {
    let rows = frames.iter().map(|frame| {
        json!({
            "received_at": json::format_time(frame.received_at),
            "report_id": frame.report_id.uuid(),
            "variant": to_row32(frame.variant),
            "revision": to_row32(frame.revision),
            "stored_at": json::format_time(frame.stored_at),
            "at_offset": to_row(frame.offset),
            "length": to_row(frame.length),
            "body_key": json::format_bytes(&frame.key.0),
        })
    });
    let (from, to) = day_bounds(segment.day);
    let (connection, tenant, _) = tx.parts();
    let moved = sqlx::query!(
        "WITH moved AS (
             DELETE FROM report_bodies b
             USING jsonb_to_recordset($2) AS n (received_at timestamptz, report_id uuid, variant integer, revision integer,
                 stored_at timestamptz, at_offset bigint, length bigint, body_key bytea)
             WHERE b.tenant = $1 AND b.received_at >= $3 AND b.received_at < $4 AND b.received_at = n.received_at
               AND b.report_id = n.report_id AND b.variant = n.variant AND b.revision = n.revision AND b.stored_at = n.stored_at
             RETURNING b.received_at, b.report_id, b.variant, b.revision, b.size, n.at_offset, n.length, n.body_key)
         INSERT INTO report_frames (tenant, received_at, report_id, variant, revision, size, segment, at_offset, length,
                                    body_key)
         SELECT $1, m.received_at, m.report_id, m.variant, m.revision, m.size, $5, m.at_offset, m.length, m.body_key
         FROM moved m",
        tenant,
        rows.collect::<Value>(),
        from,
        to,
        segment.id as SegmentId
    )
    .execute(connection)
    .await?;
    Ok(moved.rows_affected())
}

/// Locks the intent's row. Returns false if it is gone.
async fn lock_intent(tx: &mut TenantTx, segment: &SegmentIntent) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_scalar!(
        r#"SELECT id AS "id: SegmentId" FROM segments WHERE tenant = $1 AND id = $2 AND state = 'intent' FOR UPDATE"#,
        tenant,
        segment.id as SegmentId
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.is_some())
}

/// Gives up an intent: what may have been written is condemned.
pub async fn give_up(tx: &mut TenantTx, segment: &SegmentIntent) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "WITH gone AS (
             DELETE FROM segments WHERE tenant = $1 AND id = $2 AND state = 'intent' RETURNING key)
         INSERT INTO condemned_objects (tenant, key, condemned_at) SELECT $1, g.key, $3 FROM gone g
         ON CONFLICT DO NOTHING",
        tenant,
        segment.id as SegmentId,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

//! Moving bodies out of the database.

use super::{bounds, drop_frames_at};
use crate::number::{from_row, from_row32, to_row, to_row32};
use crate::reports::{KeyRow, lock_known};
use crate::{Result, Store, StoreError, TenantTx, Uuid};
use std::collections::BTreeSet;
use time::{Date, OffsetDateTime};
use unslide_model::{ReportId, TenantId};

/// What of a tenant and day lies in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Whose bodies.
    pub tenant: TenantId,
    /// Their day of arrival.
    pub day: Date,
    /// How many.
    pub bodies: u64,
    /// Their bytes, compressed as they are.
    pub bytes: u64,
    /// The bytes of the largest.
    pub largest: u64,
    /// When the oldest of them was stored.
    pub oldest: OffsetDateTime,
}

/// What lies in the database, the longest there first.
///
/// # Errors
/// Where the database fails.
pub async fn pending(store: &Store) -> Result<Vec<Pending>> {
    let rows = sqlx::query!(
        r#"SELECT tenant AS "tenant!", day AS "day!", bodies AS "bodies!", bytes AS "bytes!",
                  largest AS "largest!", oldest AS "oldest!"
           FROM unslide_bodies_pending()"#
    )
    .fetch_all(store.pool())
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Pending {
                tenant: TenantId::new(&row.tenant).map_err(|e| StoreError::corrupt("report_bodies", e))?,
                day: row.day,
                bodies: from_row(row.bodies),
                bytes: from_row(row.bytes),
                largest: from_row(row.largest),
                oldest: row.oldest,
            })
        })
        .collect()
}

/// A body that waits to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// When the report arrived.
    pub received_at: OffsetDateTime,
    /// The report.
    pub report_id: ReportId,
    /// Which of the reports with this id.
    pub variant: u32,
    /// The body's revision.
    pub revision: u32,
    /// Bytes of the JSON.
    pub size: u64,
    /// The body as [`unslide_proto::body::compress`] makes it.
    pub body: Vec<u8>,
}

/// The next bodies of a day in the database, behind the report `after`: at least one where there is
/// one, then as many as have `bytes` together.
///
/// # Errors
/// Where the database fails.
pub async fn page(
    tx: &mut TenantTx,
    day: Date,
    after: Option<(OffsetDateTime, ReportId, u32)>,
    bytes: u64,
) -> Result<Vec<Waiting>> {
    let (from, to) = bounds(day);
    let (at, id, variant) =
        after.map_or((from, Uuid::nil(), -1), |(at, id, variant)| (at, id.uuid(), to_row32(variant)));
    let (connection, tenant, _) = tx.parts();
    // What a body weighs is known without reading it; only those that fit are read.
    let rows = sqlx::query!(
        r#"SELECT w.received_at, w.report_id, w.variant, w.revision, w.size, w.body
           FROM (SELECT n.*, sum(octet_length(n.body)) OVER (ORDER BY n.received_at, n.report_id, n.variant) AS total
                 FROM (SELECT b.received_at, b.report_id, b.variant, b.revision, b.size, b.body FROM report_bodies b
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
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Waiting {
            received_at: row.received_at,
            report_id: ReportId::from_uuid(row.report_id),
            variant: from_row32(row.variant),
            revision: from_row32(row.revision),
            size: from_row(row.size),
            body: row.body,
        })
        .collect())
}

/// An id for a new segment.
///
/// # Errors
/// Where the database fails.
pub async fn new_id(tx: &mut TenantTx) -> Result<Uuid> {
    let (connection, _, now) = tx.parts();
    Ok(sqlx::query_scalar!(r#"SELECT unslide_uuid($1) AS "id!""#, now).fetch_one(connection).await?)
}

/// A segment whose writing has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Its id.
    pub id: Uuid,
    /// Its day.
    pub day: Date,
}

/// Notes the intent to write a segment. `None` where somebody else is writing one of this day.
///
/// # Errors
/// Where the database fails.
pub async fn begin(tx: &mut TenantTx, id: Uuid, day: Date, key: &str) -> Result<Option<Begun>> {
    let (connection, tenant, now) = tx.parts();
    let done = sqlx::query!(
        "INSERT INTO segments (tenant, id, day, key, state, created_at) VALUES ($1, $2, $3, $4, 'intent', $5)
         ON CONFLICT DO NOTHING",
        tenant,
        id,
        day,
        key,
        now
    )
    .execute(connection)
    .await?;
    Ok((done.rows_affected() == 1).then_some(Begun { id, day }))
}

/// A frame that was written of a report's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// When the report arrived.
    pub received_at: OffsetDateTime,
    /// The report.
    pub report_id: ReportId,
    /// Which of the reports with this id.
    pub variant: u32,
    /// The body's revision.
    pub revision: u32,
    /// Where the frame begins.
    pub offset: u64,
    /// Bytes of the frame.
    pub length: u64,
}

/// What became of a segment that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Frames that reports refer to.
    pub alive: u64,
    /// Frames that were dead before the segment was live.
    pub dead: u64,
}

/// Makes a segment of `bytes` live and points the reports to it, as far as each still has the revision
/// that was written: its body leaves the database. Where no report refers to it, it is condemned.
/// `None` where the intent is gone: somebody took over, nothing was done, and the caller rolls back.
///
/// # Errors
/// Where the database fails.
pub async fn finish(
    tx: &mut TenantTx,
    segment: &Begun,
    bytes: u64,
    frames: &[Moved],
) -> Result<Option<Finished>> {
    if !hold(tx, segment).await? {
        return Ok(None);
    }
    let keys = lock(tx, frames.iter().map(|frame| frame.report_id)).await?;
    erase(tx, segment, &keys, frames.iter().map(|frame| (frame.report_id, frame.variant))).await?;
    let times: Vec<OffsetDateTime> = frames.iter().map(|f| f.received_at).collect();
    let ids: Vec<Uuid> = frames.iter().map(|f| f.report_id.uuid()).collect();
    let variants: Vec<i32> = frames.iter().map(|f| to_row32(f.variant)).collect();
    let revisions: Vec<i32> = frames.iter().map(|f| to_row32(f.revision)).collect();
    let offsets: Vec<i64> = frames.iter().map(|f| to_row(f.offset)).collect();
    let lengths: Vec<i64> = frames.iter().map(|f| to_row(f.length)).collect();
    let (from, to) = bounds(segment.day);
    let (connection, tenant, _) = tx.parts();
    let moved = sqlx::query!(
        "DELETE FROM report_bodies b
         USING unnest($2::timestamptz[], $3::uuid[], $4::integer[], $5::integer[], $6::bigint[], $7::bigint[])
               AS n (received_at, report_id, variant, revision, at_offset, length)
         WHERE b.tenant = $1 AND b.received_at >= $8 AND b.received_at < $9 AND b.received_at = n.received_at
           AND b.report_id = n.report_id AND b.variant = n.variant AND b.revision = n.revision
         RETURNING b.received_at, b.report_id, b.variant, b.revision, b.size, n.at_offset AS \"at_offset!\",
                   n.length AS \"length!\"",
        tenant,
        &times,
        &ids,
        &variants,
        &revisions,
        &offsets,
        &lengths,
        from,
        to
    )
    .fetch_all(connection)
    .await?;
    let times: Vec<OffsetDateTime> = moved.iter().map(|m| m.received_at).collect();
    let ids: Vec<Uuid> = moved.iter().map(|m| m.report_id).collect();
    let variants: Vec<i32> = moved.iter().map(|m| m.variant).collect();
    // A program that knows no segments may have stored a newer body beside an older frame.
    drop_frames_at(tx, &times, &ids, &variants, false).await?;
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO report_frames (tenant, received_at, report_id, variant, revision, size, segment, at_offset, length)
         SELECT $1, n.received_at, n.report_id, n.variant, n.revision, n.size, $2, n.at_offset, n.length
         FROM unnest($3::timestamptz[], $4::uuid[], $5::integer[], $6::integer[], $7::bigint[], $8::bigint[], $9::bigint[])
              AS n (received_at, report_id, variant, revision, size, at_offset, length)",
        tenant,
        segment.id,
        &times,
        &ids,
        &variants,
        &moved.iter().map(|m| m.revision).collect::<Vec<i32>>(),
        &moved.iter().map(|m| m.size).collect::<Vec<i64>>(),
        &moved.iter().map(|m| m.at_offset).collect::<Vec<i64>>(),
        &moved.iter().map(|m| m.length).collect::<Vec<i64>>()
    )
    .execute(connection)
    .await?;
    let alive: Vec<u64> = moved.iter().map(|m| from_row(m.length)).collect();
    let all: Vec<u64> = frames.iter().map(|f| f.length).collect();
    live(tx, segment, bytes, &all, &alive).await.map(Some)
}

/// Locks the intent's row. False where it is gone.
pub(super) async fn hold(tx: &mut TenantTx, segment: &Begun) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_scalar!(
        "SELECT id FROM segments WHERE tenant = $1 AND id = $2 AND state = 'intent' FOR UPDATE",
        tenant,
        segment.id
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.is_some())
}

/// Locks the keys of reports in the order in which everybody does.
pub(super) async fn lock(tx: &mut TenantTx, reports: impl Iterator<Item = ReportId>) -> Result<Vec<KeyRow>> {
    let mut ids: Vec<Uuid> = reports.map(ReportId::uuid).collect();
    ids.sort_unstable();
    ids.dedup();
    lock_known(tx, &ids).await
}

/// Notes that frames of reports that were deleted meanwhile lie in a new segment: dead from the
/// start, but their bytes have to go like those of any deleted report.
pub(super) async fn erase(
    tx: &mut TenantTx,
    segment: &Begun,
    keys: &[KeyRow],
    frames: impl Iterator<Item = (ReportId, u32)>,
) -> Result<()> {
    let deleted: BTreeSet<(ReportId, u32)> =
        keys.iter().filter(|key| key.deleted).map(|key| (key.report_id, key.variant)).collect();
    for _ in frames.filter(|frame| deleted.contains(frame)) {
        let (connection, tenant, now) = tx.parts();
        // They are among the segment's dead bytes already.
        sqlx::query!(
            "INSERT INTO dead_frames (tenant, segment, bytes, erase, at) VALUES ($1, $2, 0, true, $3)",
            tenant,
            segment.id,
            now
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}

/// Makes a segment live, or condemns it where all of it is dead.
pub(super) async fn live(
    tx: &mut TenantTx,
    segment: &Begun,
    bytes: u64,
    all: &[u64],
    alive: &[u64],
) -> Result<Finished> {
    let count = |of: &[u64]| u64::try_from(of.len()).unwrap_or(u64::MAX);
    let finished = Finished { alive: count(alive), dead: count(all).saturating_sub(count(alive)) };
    if finished.alive == 0 {
        give_up(tx, segment).await?;
        return Ok(finished);
    }
    let all_bytes: u64 = all.iter().sum();
    let dead_bytes = all_bytes.saturating_sub(alive.iter().sum());
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE segments SET state = 'live', bytes = $3, frames = $4, frame_bytes = $5, dead_frames = $6, dead_bytes = $7
         WHERE tenant = $1 AND id = $2",
        tenant,
        segment.id,
        to_row(bytes),
        to_row32(u32::try_from(all.len()).unwrap_or(u32::MAX)),
        to_row(all_bytes),
        to_row32(u32::try_from(finished.dead).unwrap_or(u32::MAX)),
        to_row(dead_bytes)
    )
    .execute(connection)
    .await?;
    Ok(finished)
}

/// Gives up an intent: what may have been written is condemned.
///
/// # Errors
/// Where the database fails.
pub async fn give_up(tx: &mut TenantTx, segment: &Begun) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "WITH gone AS (
             DELETE FROM segments WHERE tenant = $1 AND id = $2 AND state = 'intent' RETURNING key)
         INSERT INTO condemned_objects (tenant, key, condemned_at) SELECT $1, g.key, $3 FROM gone g
         ON CONFLICT DO NOTHING",
        tenant,
        segment.id,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

//! Storage of report bodies: in the database at first, then in segments in object storage.
//!
//! A segment begins with an *intent*, a row from before anything is written. The object is put, and one
//! transaction makes the segment live, points the reports to it and takes their bodies out of the database; a
//! report that has another revision by then keeps the body it has. A writer that died leaves an intent, which
//! is given up after a while: then everything that it wrote is *condemned*. A segment is never written again:
//! each body in it is encrypted with a key that only the report's row has, so a deleted row leaves nothing
//! that can be read. A segment without rows, or of a day that is over, is condemned too. A condemned file is
//! deleted only after a time longer than any reader may take.

mod condemned;
mod write;

pub use condemned::{
    Condemned, abandon_intents, condemn_at, condemn_objects, condemned_due, count_undeleted, forget_objects,
    postpone_object,
};
pub use write::{
    MovedBody, PendingBody, PendingDay, SegmentIntent, begin_segment, finish_segment, give_up, list_pending,
    list_pending_bodies, new_id,
};

use crate::number::from_row;
use crate::{Result, SegmentId, StoreError, TenantTx, Uuid};
use sqlx::FromRow;
use time::{Date, OffsetDateTime, UtcOffset};
use unslide_model::BodyKey;

/// The keys of a tenant's objects that rows of segments name, and of those that are to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentKeys {
    /// Reports are read from these.
    pub live: Vec<String>,
    /// These are being written.
    pub begun: Vec<String>,
    /// Objects that are no longer referenced, with any content.
    pub condemned: Vec<String>,
}

/// Returns the keys of the transaction's tenant.
pub async fn list_keys(tx: &mut TenantTx) -> Result<SegmentKeys> {
    let (connection, tenant, _) = tx.parts();
    let rows =
        sqlx::query!("SELECT key, state = 'live' AS \"live!\" FROM segments WHERE tenant = $1", tenant)
            .fetch_all(&mut *connection)
            .await?;
    let condemned = sqlx::query_scalar!("SELECT key FROM condemned_objects WHERE tenant = $1", tenant);
    let mut keys =
        SegmentKeys { condemned: condemned.fetch_all(connection).await?, ..SegmentKeys::default() };
    for row in rows {
        if row.live { keys.live.push(row.key) } else { keys.begun.push(row.key) }
    }
    Ok(keys)
}

/// The most bytes that a stored report may have.
const MAX_BODY_BYTES: usize = 1 << 30;

/// The position of a body in object storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLocation {
    /// The segment.
    pub segment: SegmentId,
    /// The segment's day, in UTC.
    pub day: Date,
    /// Bytes from the segment's start.
    pub offset: u64,
    /// Bytes of the frame.
    pub length: u64,
    /// The key that opens it.
    pub key: BodyKey,
}

/// A stored report's body, or its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportBody {
    /// The enriched JSON as [`unslide_proto::body::compress_report`] makes it.
    Inline(Vec<u8>),
    /// In a segment.
    Segment(BodyLocation),
}

/// The position of a body, as a row of `report_frames` that may not exist gives it.
#[derive(FromRow)]
pub(crate) struct FrameColumns {
    pub(crate) segment: Option<SegmentId>,
    pub(crate) at_offset: Option<i64>,
    pub(crate) length: Option<i64>,
    pub(crate) body_key: Option<Vec<u8>>,
}

impl FrameColumns {
    pub(crate) fn into_location(self, received_at: OffsetDateTime) -> Result<BodyLocation> {
        let FrameColumns {
            segment: Some(segment),
            at_offset: Some(offset),
            length: Some(length),
            body_key: Some(key),
        } = self
        else {
            return Err(StoreError::corrupt("report_frames", "a report without a body"));
        };
        let key = key.try_into().map_err(|_| StoreError::corrupt("report_frames", "a key that is none"))?;
        let (offset, length) = (from_row(offset), from_row(length));
        Ok(BodyLocation { segment, day: utc_day(received_at), offset, length, key: BodyKey(key) })
    }
}

impl ReportBody {
    /// Returns the enriched JSON of an inline body. Work for the CPU pool if it is large.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the stored bytes are damaged; [`StoreError::InSegment`] if they are in a
    /// segment.
    pub fn decompress_json(&self) -> Result<Vec<u8>> {
        match self {
            ReportBody::Inline(body) => unslide_proto::body::decompress_report(body, MAX_BODY_BYTES)
                .map_err(|e| StoreError::corrupt("report_bodies", e)),
            ReportBody::Segment(_) => Err(StoreError::InSegment),
        }
    }
}

/// Returns the day of arrival that a report is filed under.
pub(crate) fn utc_day(received_at: OffsetDateTime) -> Date {
    received_at.to_offset(UtcOffset::UTC).date()
}

/// Returns a day's first moment and the next day's.
pub(crate) fn day_bounds(day: Date) -> (OffsetDateTime, OffsetDateTime) {
    let start = day.midnight().assume_utc();
    (start, start.saturating_add(time::Duration::DAY))
}

/// Removes the frames of these reports, if they have any: their bodies are elsewhere from now on, or gone.
/// The reports' keys have to be locked. Segments without remaining frames are condemned. If two transactions
/// take the last frames at the same time, neither sees that, and the segment goes when its day is over.
pub(crate) async fn drop_frames(
    tx: &mut TenantTx,
    times: &[OffsetDateTime],
    ids: &[Uuid],
    variants: &[i32],
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    // The times once more: by them the days of other reports are left out, and the rest is found in the index.
    let segments = sqlx::query_scalar!(
        r#"WITH gone AS (
               DELETE FROM report_frames f
               USING unnest($2::timestamptz[], $3::uuid[], $4::integer[]) AS k (received_at, report_id, variant)
               WHERE f.tenant = $1 AND f.received_at = ANY ($2) AND f.received_at = k.received_at
                 AND f.report_id = k.report_id AND f.variant = k.variant
               RETURNING f.segment)
           SELECT DISTINCT segment AS "segment!: SegmentId" FROM gone"#,
        tenant,
        times,
        ids,
        variants
    )
    .fetch_all(&mut *connection)
    .await?;
    if segments.is_empty() {
        return Ok(());
    }
    // A statement of its own: it sees the deletions of the one before.
    sqlx::query!(
        "WITH gone AS (
             DELETE FROM segments s
             WHERE s.tenant = $1 AND s.id = ANY ($2) AND s.state = 'live'
               AND NOT EXISTS (
                   SELECT FROM report_frames f
                   WHERE f.tenant = $1 AND f.segment = s.id AND f.received_at >= s.day::timestamp AT TIME ZONE 'UTC'
                     AND f.received_at < (s.day + 1)::timestamp AT TIME ZONE 'UTC')
             RETURNING s.key)
         INSERT INTO condemned_objects (tenant, key, condemned_at) SELECT $1, g.key, $3 FROM gone g
         ON CONFLICT DO NOTHING",
        tenant,
        &segments as &[SegmentId],
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

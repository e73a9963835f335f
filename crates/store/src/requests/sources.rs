//! The content of a request: the stored report, or its position.

use crate::column::HashColumn;
use crate::history;
use crate::number::{from_row, from_row32, to_row32};
use crate::reports::RowKey;
use crate::reports::{ReportOrigin, find_arrival_times};
use crate::segments::{FrameColumns, ReportBody};
use crate::{Result, SegmentId, TenantTx, Uuid};
use std::collections::BTreeMap;
use time::OffsetDateTime;
use unslide_model::{ContentHash, ReportId, SenderKeyId};

/// A stored report, for the message that asks for it again.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestSource {
    /// The revision that the body is of.
    pub revision: u32,
    /// When the report arrived.
    pub received_at: OffsetDateTime,
    /// The hash of the report as it first arrived.
    pub content_hash: ContentHash,
    /// The enriched JSON's size in bytes.
    pub size: u64,
    /// The enriched JSON, or its position.
    pub body: ReportBody,
    /// The first record of the report's history.
    pub origin: Option<ReportOrigin>,
    /// The trace that the report travelled under.
    pub traceparent: Option<String>,
    /// The public key that an app sent it with.
    pub sender_key: Option<SenderKeyId>,
}

/// Returns the bodies of reports that are requested again, each by its id and variant. A deleted report is
/// not among them, and its request need not be sent.
pub async fn find_sources(
    tx: &mut TenantTx,
    reports: &[(ReportId, u32)],
) -> Result<BTreeMap<(ReportId, u32), RequestSource>> {
    let ids: Vec<Uuid> = reports.iter().map(|(id, _)| id.uuid()).collect();
    let variants: Vec<i32> = reports.iter().map(|(_, variant)| to_row32(*variant)).collect();
    let wanted: Vec<RowKey> = ids.iter().copied().zip(variants.iter().copied()).collect();
    let moved = history::read_moved(tx, &wanted).await?;
    let times = find_arrival_times(tx, &ids).await?;
    let (connection, tenant, _) = tx.parts();
    // One look into the indexes for each, however many reports there are.
    let rows = sqlx::query!(
        r#"WITH moved AS MATERIALIZED (SELECT * FROM unslide_moved_reports($4::text::jsonb))
           SELECT a.id AS "id!", a.variant AS "variant!", s.revision AS "revision!", s.received_at AS "received_at!",
                  s.size AS "size!", s.body AS "body?", s.segment AS "segment?: SegmentId", s.at_offset AS "at_offset?",
                  s.length AS "length?", s.body_key AS "body_key?", s.origin_topic AS "origin_topic?", s.origin_partition AS "origin_partition?",
                  s.origin_offset AS "origin_offset?", s.traceparent AS "traceparent?",
                  s.sender_key AS "sender_key?", s.content_hash AS "content_hash!: HashColumn"
           FROM unnest($2::uuid[], $3::integer[]) AS a (id, variant) CROSS JOIN LATERAL (
               SELECT r.revision, r.received_at, coalesce(b.size, f.size) AS size, b.body, f.segment, f.at_offset,
                      f.length, f.body_key, r.origin_topic, r.origin_partition, r.origin_offset, r.traceparent,
                      r.sender_key, k.content_hash
               FROM report_keys k
               CROSS JOIN LATERAL (
                   SELECT o.revision, o.received_at, o.origin_topic, o.origin_partition, o.origin_offset, o.traceparent, o.sender_key
                   FROM reports o WHERE o.tenant = k.tenant AND o.received_at = ANY ($5) AND o.received_at = k.received_at
                                    AND o.report_id = k.report_id
                                    AND o.variant = k.variant
                   UNION ALL
                   SELECT m.revision, m.received_at, m.origin_topic, m.origin_partition, m.origin_offset, m.traceparent, m.sender_key
                   FROM moved m WHERE m.tenant = k.tenant AND m.received_at = k.received_at AND m.report_id = k.report_id
                                  AND m.variant = k.variant AND k.history_version IS NOT NULL) r
               LEFT JOIN report_bodies b ON b.tenant = k.tenant AND b.received_at = ANY ($5) AND b.received_at = k.received_at
                                        AND b.report_id = k.report_id AND b.variant = k.variant
               LEFT JOIN report_frames f ON f.tenant = k.tenant AND f.received_at = ANY ($5) AND f.received_at = k.received_at
                                        AND f.report_id = k.report_id AND f.variant = k.variant
               WHERE k.tenant = $1 AND k.report_id = a.id AND k.variant = a.variant AND k.deleted_at IS NULL
                 AND (b.report_id IS NOT NULL OR f.report_id IS NOT NULL)
               LIMIT 1) s"#,
        tenant,
        &ids,
        &variants,
        moved,
        &times
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            let origin = match (row.origin_topic, row.origin_partition, row.origin_offset) {
                (Some(topic), Some(partition), Some(offset)) => {
                    Some(ReportOrigin { topic, partition, offset, index: 0 })
                }
                _ => None,
            };
            let (segment, at_offset, length) = (row.segment, row.at_offset, row.length);
            let frame = FrameColumns { segment, at_offset, length, body_key: row.body_key };
            // A body in the database is the newer one.
            let source = RequestSource {
                revision: from_row32(row.revision),
                received_at: row.received_at,
                content_hash: row.content_hash.into(),
                size: from_row(row.size),
                body: match row.body {
                    Some(body) => ReportBody::Inline(body),
                    None => ReportBody::Segment(frame.into_location(row.received_at)?),
                },
                origin,
                traceparent: row.traceparent,
                sender_key: row.sender_key.as_deref().and_then(SenderKeyId::parse),
            };
            Ok(((ReportId::from_uuid(row.id), from_row32(row.variant)), source))
        })
        .collect()
}

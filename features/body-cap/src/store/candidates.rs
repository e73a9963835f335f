//! The bodies among which is chosen.
//!
//! A body that was stored lately is found in `report_bodies`, where all bodies are at first, and the chosen ones of a day by an index
//! that has them alone. So a look costs what is new, however many reports of the day have lost their bodies. A report has settled once
//! all its symbols were there: before that a later revision may need its body.

use crate::choosing::{BodyCandidate, ReportLikeness};
use std::collections::BTreeMap;
use time::{Date, OffsetDateTime};
use unslide_model::ReportId;
use unslide_store::reports::kept_bodies::StoredRevision;
use unslide_store::{GroupId, Result, TenantTx, Uuid};

/// Bodies that one step looks at.
pub const SLICE_LIMIT: i64 = 2_000;

/// A range of times at which bodies were stored: after `from`, up to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub from: OffsetDateTime,
    pub to: OffsetDateTime,
}

/// The next bodies to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceOfBodies {
    pub slice: Slice,
    /// True if no more bodies were stored up to the end that was asked for.
    pub is_last: bool,
}

/// A day of a group that may have more bodies than its cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidateGroup {
    pub group: GroupId,
    pub day: Date,
    /// The number of bodies that the group keeps.
    pub bodies: u32,
    /// The cap holds for reports that arrived at this time or later.
    pub since: OffsetDateTime,
    /// True if bodies of the day were chosen before: then all earlier ones were looked at.
    pub is_chosen: bool,
}

impl CandidateGroup {
    /// Returns the first moment of the day, and that of the next day.
    fn bounds(&self) -> (OffsetDateTime, OffsetDateTime) {
        let start = self.day.midnight().assume_utc();
        (start, start.saturating_add(time::Duration::DAY))
    }
}

struct CandidateRow {
    place: i64,
    received_at: OffsetDateTime,
    report_id: Uuid,
    variant: i32,
    revision: i32,
    version: String,
    model: String,
    os_name: String,
    os_version: String,
    is_kept: bool,
}

impl From<CandidateRow> for BodyCandidate {
    fn from(row: CandidateRow) -> BodyCandidate {
        BodyCandidate {
            report: StoredRevision {
                received_at: row.received_at,
                report_id: ReportId::from_uuid(row.report_id),
                variant: row.variant.unsigned_abs(),
                revision: row.revision.unsigned_abs(),
            },
            likeness: ReportLikeness {
                version: row.version,
                model: row.model,
                os_name: row.os_name,
                os_version: row.os_version,
            },
            is_kept: row.is_kept,
        }
    }
}

/// Returns the next bodies that were stored after `from` and up to `until`.
pub async fn next_slice(
    tx: &mut TenantTx,
    from: OffsetDateTime,
    until: OffsetDateTime,
) -> Result<SliceOfBodies> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT count(*) AS "bodies!", max(s.stored_at) AS last FROM (
               SELECT b.stored_at FROM report_bodies b
               WHERE b.tenant = $1 AND b.received_at >= (SELECT min(c.since) FROM body_caps c WHERE c.tenant = $1)
                 AND b.stored_at > $2 AND b.stored_at <= $3
               ORDER BY b.stored_at FETCH FIRST ($4::bigint) ROWS WITH TIES) s"#,
        tenant,
        from,
        until,
        SLICE_LIMIT
    )
    .fetch_one(connection)
    .await?;
    let is_last = row.bodies < SLICE_LIMIT;
    let to = row.last.filter(|_| !is_last).unwrap_or(until);
    Ok(SliceOfBodies { slice: Slice { from, to }, is_last })
}

/// Returns the days of groups that have settled reports in a slice, and more reports than their cap.
pub async fn list_slice_groups(tx: &mut TenantTx, slice: Slice) -> Result<Vec<CandidateGroup>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT g.group_id AS "group!: GroupId", g.day AS "day!", g.bodies AS "bodies!", g.since AS "since!",
                  EXISTS (SELECT FROM reports k WHERE k.tenant = $1 AND k.group_id = g.group_id AND k.body_kept
                            AND k.received_at >= g.day::timestamp AT TIME ZONE 'UTC'
                            AND k.received_at < (g.day + 1)::timestamp AT TIME ZONE 'UTC') AS "is_chosen!"
           FROM (SELECT DISTINCT r.group_id, (r.received_at AT TIME ZONE 'UTC')::date AS day, c.bodies, c.since
                 FROM report_bodies b
                 CROSS JOIN LATERAL (
                     SELECT o.app, o.group_id, o.received_at FROM reports o
                     WHERE o.tenant = $1 AND o.received_at = b.received_at AND o.report_id = b.report_id AND o.variant = b.variant
                       AND o.group_id IS NOT NULL AND o.body_kept IS NULL AND o.status = 'complete' AND NOT o.symbols_missing
                     LIMIT 1) r
                 CROSS JOIN LATERAL (
                     SELECT a.bodies, a.since FROM body_caps a WHERE a.tenant = $1 AND a.app IN (r.app, '')
                     ORDER BY a.app = '' LIMIT 1) c
                 WHERE b.tenant = $1 AND b.received_at >= (SELECT min(m.since) FROM body_caps m WHERE m.tenant = $1)
                   AND b.stored_at > $2 AND b.stored_at <= $3 AND r.received_at >= c.since) g
           WHERE (SELECT coalesce(sum(n.reports), 0) FROM group_day_counts n
                  WHERE n.tenant = $1 AND n.group_id = g.group_id AND n.day = g.day) > g.bodies"#,
        tenant,
        slice.from,
        slice.to
    )
    .fetch_all(connection)
    .await?;
    let groups = rows.into_iter().map(|row| CandidateGroup {
        group: row.group,
        day: row.day,
        bodies: row.bodies.unsigned_abs(),
        since: row.since,
        is_chosen: row.is_chosen,
    });
    Ok(groups.collect())
}

/// Returns the bodies of these days among which is chosen, by the place of the day: those that were chosen before and the settled
/// ones of the slice; of a day without a choice all settled ones.
pub async fn list_candidates(
    tx: &mut TenantTx,
    groups: &[CandidateGroup],
    slice: Slice,
) -> Result<BTreeMap<usize, Vec<BodyCandidate>>> {
    let ids: Vec<GroupId> = groups.iter().map(|group| group.group).collect();
    let (starts, ends): (Vec<_>, Vec<_>) = groups.iter().map(CandidateGroup::bounds).unzip();
    let since: Vec<OffsetDateTime> = groups.iter().map(|group| group.since).collect();
    let chosen: Vec<bool> = groups.iter().map(|group| group.is_chosen).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        CandidateRow,
        r#"WITH days AS (
               SELECT * FROM unnest($2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::boolean[])
                   WITH ORDINALITY AS d (group_id, start_at, end_at, since, is_chosen, place))
           SELECT c.place AS "place!", c.received_at AS "received_at!", c.report_id AS "report_id!", c.variant AS "variant!",
                  c.revision AS "revision!", c.version AS "version!", coalesce(c.model, '') AS "model!",
                  coalesce(c.os_name, '') AS "os_name!", coalesce(c.os_version, '') AS "os_version!",
                  c.body_kept IS TRUE AS "is_kept!"
           FROM (
               SELECT d.place, k.* FROM days d CROSS JOIN LATERAL (
                   SELECT o.received_at, o.report_id, o.variant, o.revision, o.version, o.model, o.os_name, o.os_version, o.body_kept
                   FROM reports o
                   WHERE o.tenant = $1 AND o.group_id = d.group_id AND o.received_at >= d.start_at AND o.received_at < d.end_at
                     AND o.body_kept) k
               UNION ALL
               SELECT d.place, n.* FROM days d CROSS JOIN LATERAL (
                   SELECT o.received_at, o.report_id, o.variant, o.revision, o.version, o.model, o.os_name, o.os_version, o.body_kept
                   FROM reports o
                   WHERE o.tenant = $1 AND o.group_id = d.group_id AND o.received_at >= greatest(d.start_at, d.since)
                     AND o.received_at < d.end_at AND o.stored_at <= $8 AND o.body_kept IS NULL AND o.status = 'complete'
                     AND NOT o.symbols_missing) n
               WHERE NOT d.is_chosen
               UNION ALL
               SELECT d.place, r.received_at, r.report_id, r.variant, r.revision, r.version, r.model, r.os_name, r.os_version, r.body_kept
               FROM report_bodies b
               CROSS JOIN LATERAL (
                   SELECT o.* FROM reports o
                   WHERE o.tenant = $1 AND o.received_at = b.received_at AND o.report_id = b.report_id AND o.variant = b.variant
                     AND o.body_kept IS NULL AND o.status = 'complete' AND NOT o.symbols_missing
                   LIMIT 1) r
               JOIN days d ON d.group_id = r.group_id AND r.received_at >= greatest(d.start_at, d.since) AND r.received_at < d.end_at
               WHERE b.tenant = $1 AND b.received_at >= (SELECT min(m.since) FROM body_caps m WHERE m.tenant = $1)
                 AND b.stored_at > $7 AND b.stored_at <= $8 AND d.is_chosen) c"#,
        tenant,
        &ids as &[GroupId],
        &starts,
        &ends,
        &since,
        &chosen,
        slice.from,
        slice.to
    )
    .fetch_all(connection)
    .await?;
    let mut candidates: BTreeMap<usize, Vec<BodyCandidate>> = BTreeMap::new();
    for row in rows {
        let place = usize::try_from(row.place - 1).unwrap_or_default();
        candidates.entry(place).or_default().push(row.into());
    }
    Ok(candidates)
}

/// Returns the next group of a day with more reports than its cap, behind a group.
pub async fn next_waiting_group(
    tx: &mut TenantTx,
    day: Date,
    after: Option<GroupId>,
) -> Result<Option<CandidateGroup>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT d.group_id AS "group!: GroupId", c.bodies AS "bodies!", c.since AS "since!"
           FROM group_days d
           JOIN groups g ON g.tenant = $1 AND g.id = d.group_id
           CROSS JOIN LATERAL (
               SELECT a.bodies, a.since FROM body_caps a WHERE a.tenant = $1 AND a.app IN (g.app, '')
               ORDER BY a.app = '' LIMIT 1) c
           WHERE d.tenant = $1 AND d.day = $2 AND d.group_id > coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
             AND d.reports > c.bodies
           ORDER BY d.group_id LIMIT 1"#,
        tenant,
        day,
        after as Option<GroupId>
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| CandidateGroup {
        group: row.group,
        day,
        bodies: row.bodies.unsigned_abs(),
        since: row.since,
        is_chosen: true,
    }))
}

/// Returns the bodies of a day that were chosen before.
pub async fn list_kept(tx: &mut TenantTx, group: &CandidateGroup) -> Result<Vec<BodyCandidate>> {
    let (start, end) = group.bounds();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        CandidateRow,
        r#"SELECT 1::bigint AS "place!", received_at, report_id, variant, revision, version, coalesce(model, '') AS "model!",
                  coalesce(os_name, '') AS "os_name!", coalesce(os_version, '') AS "os_version!", true AS "is_kept!"
           FROM reports WHERE tenant = $1 AND group_id = $2 AND received_at >= $3 AND received_at < $4 AND body_kept"#,
        tenant,
        group.group as GroupId,
        start,
        end
    );
    Ok(rows.fetch_all(connection).await?.into_iter().map(BodyCandidate::from).collect())
}

/// Returns the next bodies of a day that no choice was made about, also of reports that wait for symbols, behind a report.
pub async fn list_unchosen(
    tx: &mut TenantTx,
    group: &CandidateGroup,
    after: Option<StoredRevision>,
) -> Result<Vec<BodyCandidate>> {
    let (start, end) = group.bounds();
    let start = start.max(group.since);
    let (at, id, variant) = after.map_or((start, Uuid::nil(), -1), |after| {
        (after.received_at, after.report_id.uuid(), i32::try_from(after.variant).unwrap_or(i32::MAX))
    });
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        CandidateRow,
        r#"SELECT 1::bigint AS "place!", received_at, report_id, variant, revision, version, coalesce(model, '') AS "model!",
                  coalesce(os_name, '') AS "os_name!", coalesce(os_version, '') AS "os_version!", false AS "is_kept!"
           FROM reports
           WHERE tenant = $1 AND group_id = $2 AND received_at >= $3 AND received_at < $4
             AND (received_at, report_id, variant) > ($3, $5, $6) AND body_kept IS NULL
           ORDER BY received_at, report_id, variant LIMIT $7"#,
        tenant,
        group.group as GroupId,
        at,
        end,
        id,
        variant,
        SLICE_LIMIT
    );
    Ok(rows.fetch_all(connection).await?.into_iter().map(BodyCandidate::from).collect())
}

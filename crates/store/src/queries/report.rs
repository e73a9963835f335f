//! One report with its body.

use crate::column::{ReportIdColumn, U32, U64};
use crate::history::read_moved_locked;
use crate::number::{from_row32, to_row32};
use crate::report_rows::{REPORT_COLUMNS, ReportRow};
use crate::segments::{BodyLocation, FrameColumns, ReportBody, day_bounds, utc_day};
use crate::tenants::analyses::AnalysisSwitches;
use crate::{Result, TenantTx};
use sqlx::{AssertSqlSafe, FromRow};
use std::collections::BTreeMap;
use time::OffsetDateTime;
use unslide_model::ReportId;

/// A stored report without its body.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundReport {
    /// The columns that a list shows.
    pub listed: ReportRow,
    /// How many reports have this id; more than 1 if clients sent different bytes under it.
    pub variants: u32,
    /// The enriched JSON's size in bytes.
    pub size: u64,
    /// The place of the enriched JSON.
    pub place: BodyPlace,
    /// The analyses that the tenant has turned on or off.
    pub analysis_switches: AnalysisSwitches,
}

/// Where the body of a report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyPlace {
    /// In the database.
    Database,
    /// In object storage.
    Segment(BodyLocation),
    /// Nowhere: it was dropped.
    Dropped {
        /// How many bodies the report's group keeps of a day.
        kept_bodies: u32,
    },
}

/// Returns a report by its id with its body, or the body's position. `None` as [`find_report`], and if the report
/// moved or was revised at this moment, or its body was dropped.
pub async fn get(
    tx: &mut TenantTx,
    report_id: ReportId,
    variant: u32,
) -> Result<Option<(FoundReport, ReportBody)>> {
    let Some(found) = find_report(tx, report_id, variant).await? else { return Ok(None) };
    let body = match found.place {
        BodyPlace::Segment(place) => Some(ReportBody::Segment(place)),
        BodyPlace::Database => load_body(tx, &found.listed).await?,
        BodyPlace::Dropped { .. } => None,
    };
    Ok(body.map(|body| (found, body)))
}

/// Returns the body of a report's revision, if it is in the database.
pub async fn load_body(tx: &mut TenantTx, listed: &ReportRow) -> Result<Option<ReportBody>> {
    let (connection, tenant, _) = tx.parts();
    let body = sqlx::query_scalar!(
        "SELECT body FROM report_bodies
         WHERE tenant = $1 AND received_at = $2 AND report_id = $3 AND variant = $4 AND revision = $5",
        tenant,
        listed.received_at,
        listed.report_id.uuid(),
        to_row32(listed.variant),
        to_row32(listed.revision)
    )
    .fetch_optional(connection)
    .await?;
    Ok(body.map(ReportBody::Inline))
}

/// Returns the bodies of reports that are in the database, by their place in `listed`. Those of a later revision are left out.
pub async fn load_bodies(tx: &mut TenantTx, listed: &[&ReportRow]) -> Result<BTreeMap<usize, ReportBody>> {
    let [variants, revisions] = [|row: &ReportRow| row.variant, |row: &ReportRow| row.revision]
        .map(|number| listed.iter().map(|row| to_row32(number(row))).collect::<Vec<i32>>());
    let (connection, tenant, _) = tx.parts();
    // Each day that the list of times leaves out stays without a lock: no plan is kept for all lists.
    let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(
        "SELECT n.place, b.body
         FROM unnest($2::timestamptz[], $3::uuid[], $4::int[], $5::int[]) WITH ORDINALITY
              AS n (received_at, report_id, variant, revision, place)
         CROSS JOIN LATERAL (SELECT body FROM report_bodies
                             WHERE tenant = $1 AND received_at = ANY ($2) AND received_at = n.received_at
                               AND report_id = n.report_id AND variant = n.variant AND revision = n.revision LIMIT 1) b",
    )
    .persistent(false)
    .bind(tenant)
    .bind(listed.iter().map(|row| row.received_at).collect::<Vec<_>>())
    .bind(listed.iter().map(|row| row.report_id.uuid()).collect::<Vec<_>>())
    .bind(variants)
    .bind(revisions)
    .fetch_all(connection)
    .await?;
    let place = |ordinal: i64| usize::try_from(ordinal - 1).unwrap_or(0);
    Ok(rows.into_iter().map(|(ordinal, body)| (place(ordinal), ReportBody::Inline(body))).collect())
}

/// Finds reports that a list has, with the places of their bodies. One that was deleted since is left out, and one without a body.
pub async fn find_listed(tx: &mut TenantTx, listed: &[ReportRow]) -> Result<Vec<FoundReport>> {
    let (connection, tenant, _) = tx.parts();
    // The position is read as for one report: not known to the macros.
    let rows: Vec<PlaceRow> = sqlx::query_as(
        "SELECT n.place, coalesce(b.size, f.size) AS size, b.size IS NOT NULL AS inline, f.segment, f.at_offset, f.length,
                f.body_key, NULL::integer AS kept_bodies,
                (SELECT count(*)::integer FROM report_keys o
                 WHERE o.tenant = $1 AND o.report_id = n.report_id AND o.deleted_at IS NULL) AS variants,
                coalesce((SELECT t.analysis_switches FROM tenants t WHERE t.slug = $1), '{}') AS analysis_switches
         FROM unnest($2::timestamptz[], $3::uuid[], $4::int[]) WITH ORDINALITY AS n (received_at, report_id, variant, place)
         LEFT JOIN LATERAL (SELECT size FROM report_bodies
                            WHERE tenant = $1 AND received_at = ANY ($2) AND received_at = n.received_at
                              AND report_id = n.report_id AND variant = n.variant LIMIT 1) b ON true
         LEFT JOIN LATERAL (SELECT size, segment, at_offset, length, body_key FROM report_frames
                            WHERE tenant = $1 AND received_at = ANY ($2) AND received_at = n.received_at
                              AND report_id = n.report_id AND variant = n.variant LIMIT 1) f ON true
         WHERE b.size IS NOT NULL OR f.size IS NOT NULL
         ORDER BY n.place",
    )
    .persistent(false)
    .bind(tenant)
    .bind(listed.iter().map(|row| row.received_at).collect::<Vec<_>>())
    .bind(listed.iter().map(|row| row.report_id.uuid()).collect::<Vec<_>>())
    .bind(listed.iter().map(|row| to_row32(row.variant)).collect::<Vec<i32>>())
    .fetch_all(connection)
    .await?;
    let found = rows.into_iter().filter_map(|row| {
        let listed = listed.get(usize::try_from(row.place - 1).ok()?)?.clone();
        Some(row.stored.into_report(listed))
    });
    found.collect()
}

#[derive(FromRow)]
struct PlaceRow {
    place: i64,
    #[sqlx(flatten)]
    stored: StoredColumns,
}

/// The position of a report's body, and the facts that its page adds to the columns of a list.
#[derive(FromRow)]
struct StoredColumns {
    #[sqlx(try_from = "U32")]
    variants: u32,
    #[sqlx(try_from = "U64")]
    size: u64,
    inline: bool,
    kept_bodies: Option<i32>,
    #[sqlx(json)]
    analysis_switches: AnalysisSwitches,
    #[sqlx(flatten)]
    frame: FrameColumns,
}

impl StoredColumns {
    fn into_report(self, listed: ReportRow) -> Result<FoundReport> {
        let StoredColumns { variants, size, inline, kept_bodies, analysis_switches, frame } = self;
        let place = match (inline, frame.segment) {
            (true, _) => BodyPlace::Database,
            (false, None) if listed.body_dropped => {
                BodyPlace::Dropped { kept_bodies: from_row32(kept_bodies.unwrap_or_default()) }
            }
            (false, _) => BodyPlace::Segment(frame.into_location(listed.received_at)?),
        };
        Ok(FoundReport { listed, variants, size, place, analysis_switches })
    }
}

/// Returns a report by its id: the first that came with it, or another variant. `None` if there is no such
/// report, or it was deleted or is too old.
pub async fn find_report(
    tx: &mut TenantTx,
    report_id: ReportId,
    variant: u32,
) -> Result<Option<FoundReport>> {
    // Twice, if the row moves in between.
    for _ in 0..2 {
        // The time first: by it the other statement leaves all other days out.
        let Some(arrival) = find_arrival(tx, report_id, variant).await? else { return Ok(None) };
        let found = read_report(tx, report_id, variant, arrival).await?;
        if found.is_some() || tx.history().is_none() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Reads a report that arrived at a time, from the database or from ClickHouse.
async fn read_report(
    tx: &mut TenantTx,
    report_id: ReportId,
    variant: u32,
    arrival: StoredArrivalTime,
) -> Result<Option<FoundReport>> {
    let moved = match arrival.history_version {
        Some(_) => Some(read_moved_locked(tx, &[(report_id.uuid(), to_row32(variant))]).await?),
        None => None,
    };
    let table = if moved.is_some() {
        "(SELECT d.* FROM unslide_moved_reports($5::text::jsonb) d
          WHERE EXISTS (SELECT FROM report_keys k WHERE k.tenant = $1 AND k.report_id = $2 AND k.variant = $3
                          AND k.history_version = $6 AND k.deleted_at IS NULL))"
    } else {
        "reports"
    };
    let (connection, tenant, _) = tx.parts();
    // The columns of a list, as the list reads them: not known to the macros.
    let query = sqlx::query_as(AssertSqlSafe(format!(
        "SELECT {REPORT_COLUMNS}, coalesce(b.size, f.size, 0) AS size, b.report_id IS NOT NULL AS inline, f.segment, f.at_offset,
                f.length, f.body_key, r.kept_bodies,
                (SELECT count(*)::integer FROM report_keys o
                 WHERE o.tenant = $1 AND o.report_id = $2 AND o.deleted_at IS NULL) AS variants,
                coalesce((SELECT t.analysis_switches FROM tenants t WHERE t.slug = $1), '{{}}') AS analysis_switches
         FROM {table} r
         LEFT JOIN report_bodies b ON b.tenant = $1 AND b.received_at = $4 AND b.report_id = $2 AND b.variant = $3
         LEFT JOIN report_frames f ON f.tenant = $1 AND f.received_at = $4 AND f.report_id = $2 AND f.variant = $3
         WHERE r.tenant = $1 AND r.received_at = $4 AND r.report_id = $2 AND r.variant = $3
           AND (b.report_id IS NOT NULL OR f.report_id IS NOT NULL OR r.body_kept IS FALSE)"
    )));
    let mut query = query
        .persistent(false)
        .bind(tenant)
        .bind(report_id.uuid())
        .bind(to_row32(variant))
        .bind(arrival.received_at);
    if let Some(document) = moved {
        query = query.bind(document).bind(arrival.history_version);
    }
    let row: Option<Row> = query.fetch_optional(connection).await?;
    row.map(|row| row.stored.into_report(row.listed)).transpose()
}

/// When a report arrived, and the version of its row in ClickHouse if it is there.
#[derive(Clone, Copy)]
struct StoredArrivalTime {
    received_at: OffsetDateTime,
    history_version: Option<i32>,
}

/// Returns when a report arrived. `None` if there is no such report, or it was deleted.
async fn find_arrival(
    tx: &mut TenantTx,
    report_id: ReportId,
    variant: u32,
) -> Result<Option<StoredArrivalTime>> {
    let (connection, tenant, _) = tx.parts();
    let arrival = sqlx::query_as!(
        StoredArrivalTime,
        "SELECT received_at, history_version FROM report_keys
         WHERE tenant = $1 AND report_id = $2 AND variant = $3 AND deleted_at IS NULL",
        tenant,
        report_id.uuid(),
        to_row32(variant)
    );
    Ok(arrival.fetch_optional(connection).await?)
}

/// Returns the report with a body that is most like one of which the body was dropped: the one that was most like it then, or else
/// the most similar one of the bodies that its group keeps of its day. `None` if there is none any more.
pub async fn find_like(tx: &mut TenantTx, listed: &ReportRow) -> Result<Option<(ReportId, u32)>> {
    let (from, to) = day_bounds(utc_day(listed.received_at));
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        r#"WITH dropped AS (
               SELECT * FROM reports
               WHERE tenant = $1 AND received_at = $2 AND report_id = $3 AND variant = $4 AND body_kept IS FALSE)
           SELECT l.report_id AS "report_id!: ReportIdColumn", l.variant AS "variant!: U32" FROM (
               SELECT r.report_id, r.variant, 0 AS place, 0 AS unlike, r.received_at FROM dropped d
               JOIN report_keys k ON k.tenant = $1 AND k.report_id = d.like_report AND k.variant = d.like_variant AND k.deleted_at IS NULL
               JOIN reports r ON r.tenant = $1 AND r.received_at = k.received_at AND r.report_id = k.report_id AND r.variant = k.variant
               WHERE r.body_kept IS NOT FALSE AND r.received_at >= $5 AND r.received_at < $6
               UNION ALL
               SELECT r.report_id, r.variant, 1,
                      CASE WHEN r.version <> d.version THEN 2
                           WHEN (r.model, r.os_name, r.os_version) IS DISTINCT FROM (d.model, d.os_name, d.os_version) THEN 1
                           ELSE 0 END,
                      r.received_at
               FROM dropped d
               JOIN reports r ON r.tenant = $1 AND r.group_id = d.group_id AND r.received_at >= $5 AND r.received_at < $6
               WHERE r.body_kept) l
           ORDER BY l.place, l.unlike, l.received_at, l.report_id, l.variant LIMIT 1"#,
        tenant,
        listed.received_at,
        listed.report_id.uuid(),
        to_row32(listed.variant),
        from,
        to
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| (row.report_id.into(), row.variant.into())))
}

#[derive(FromRow)]
struct Row {
    #[sqlx(flatten)]
    listed: ReportRow,
    #[sqlx(flatten)]
    stored: StoredColumns,
}

//! The rows of reports that are written: ids, versions, group, device, system, kind, fault, times and counts. They have no body, and
//! nothing that names a person.

use time::{Date, Duration, OffsetDateTime};
use unslide_model::ReportId;
use unslide_store::cursor::ReportCursor;
use unslide_store::history::MoveWatch;
use unslide_store::reports::pages::read_moved_of_day;
use unslide_store::{GroupId, Result, TenantTx};

unslide_store::ids! {
    /// The id of a report in a row that is written.
    RowReportId;
}

/// A report, with the values of its row.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedReport {
    pub report_id: RowReportId,
    pub variant: i32,
    pub revision: i32,
    pub app: String,
    pub app_version: String,
    pub app_build: String,
    pub kind: String,
    pub fatal: bool,
    pub status: String,
    pub exception: Option<String>,
    pub signal: Option<String>,
    pub fault: Option<String>,
    pub group_id: Option<GroupId>,
    pub received_at: OffsetDateTime,
    pub occurred_at: Option<OffsetDateTime>,
    pub stored_at: OffsetDateTime,
    pub os_name: Option<String>,
    pub os_version: Option<String>,
    pub os_build: Option<String>,
    pub model: Option<String>,
    pub cpu_arch: Option<String>,
    pub teller: String,
    pub weight: i32,
    pub same_crash_as: Option<RowReportId>,
    pub frames: i32,
    pub frames_symbolicated: i32,
    pub frames_missing: i32,
    pub own_frames: i32,
    pub own_frames_symbolicated: i32,
    pub symbols_missing: bool,
}

/// The place of a row among those of its app and day.
#[derive(Clone, Copy, Debug)]
pub struct RowPosition {
    pub received_at: OffsetDateTime,
    pub report_id: RowReportId,
    pub variant: i32,
}

impl RowPosition {
    fn to_cursor(self) -> ReportCursor {
        let id = ReportId(self.report_id.uuid().into_bytes());
        ReportCursor::after_report(self.received_at, id, u32::try_from(self.variant).unwrap_or_default())
    }

    /// Returns the place before all rows of a day.
    pub fn before_day(day: Date) -> RowPosition {
        let received_at = day.midnight().assume_utc() - Duration::MICROSECOND;
        RowPosition {
            received_at,
            report_id: RowReportId::from_uuid(unslide_store::Uuid::max()),
            variant: i32::MAX,
        }
    }
}

impl ExportedReport {
    /// Returns its place among the rows of its app and day.
    pub fn position(&self) -> RowPosition {
        RowPosition { received_at: self.received_at, report_id: self.report_id, variant: self.variant }
    }
}

/// Returns the first app after this one that had reports on a day.
pub async fn find_next_app(tx: &mut TenantTx, day: Date, after: Option<&str>) -> Result<Option<String>> {
    let (connection, tenant, _) = tx.parts();
    let next = sqlx::query_scalar!(
        "SELECT app FROM app_days WHERE tenant = $1 AND day = $2 AND ($3::text IS NULL OR app > $3) ORDER BY app LIMIT 1",
        tenant,
        day,
        after
    );
    Ok(next.fetch_optional(connection).await?)
}

/// Returns the rows of an app that arrived on a day, after this place in their order.
pub async fn list_rows(
    tx: &mut TenantTx,
    app: &str,
    day: Date,
    after: RowPosition,
    limit: u32,
) -> Result<Vec<ExportedReport>> {
    let mut watch = MoveWatch::begin(tx).await?;
    loop {
        let moved = read_moved_of_day(tx, app, day, &after.to_cursor(), limit).await?;
        let rows = list_with_moved(tx, app, day, after, &moved, limit).await?;
        if watch.is_over(tx).await? {
            return Ok(rows);
        }
    }
}

/// Returns the rows of the database and of this document.
async fn list_with_moved(
    tx: &mut TenantTx,
    app: &str,
    day: Date,
    after: RowPosition,
    moved: &str,
    limit: u32,
) -> Result<Vec<ExportedReport>> {
    let begin = day.midnight().assume_utc();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        ExportedReport,
        r#"WITH stored AS MATERIALIZED (
               SELECT * FROM reports
               WHERE tenant = $1 AND app = $2 AND received_at >= $3 AND received_at < $4
                 AND (received_at, report_id, variant) > ($5, $6, $7)
               ORDER BY received_at, report_id, variant LIMIT $8),
           moved AS MATERIALIZED (
               SELECT m.* FROM unslide_moved_reports($9::text::jsonb) m
               WHERE m.tenant = $1 AND m.app = $2 AND m.received_at >= $3 AND m.received_at < $4
                 AND NOT EXISTS (SELECT FROM stored s WHERE s.received_at = m.received_at AND s.report_id = m.report_id
                                                        AND s.variant = m.variant))
           SELECT report_id AS "report_id!: RowReportId", variant AS "variant!", revision AS "revision!", app AS "app!",
                  version AS "app_version!", build AS "app_build!", type AS "kind!", fatal AS "fatal!", status AS "status!",
                  summary ->> 'exception' AS exception, summary ->> 'signal' AS signal,
                  context -> 'verdicts' ->> 'fault' AS fault, group_id AS "group_id?: GroupId", received_at AS "received_at!",
                  device_time AS occurred_at, stored_at AS "stored_at!", os_name, os_version, os_build, model,
                  summary ->> 'cpu_arch' AS cpu_arch,
                  coalesce(teller, CASE WHEN metric_kit THEN 'metric_kit' ELSE 'handler' END) AS "teller!", weight AS "weight!",
                  same_crash_as AS "same_crash_as?: RowReportId", frames_total AS "frames!",
                  frames_symbolicated AS "frames_symbolicated!", frames_missing AS "frames_missing!", frames_own AS "own_frames!",
                  frames_own_symbolicated AS "own_frames_symbolicated!", symbols_missing AS "symbols_missing!"
           FROM (SELECT * FROM stored UNION ALL SELECT * FROM moved) r
           ORDER BY r.received_at, r.report_id, r.variant LIMIT $8"#,
        tenant,
        app,
        begin,
        begin + Duration::DAY,
        after.received_at,
        after.report_id as RowReportId,
        after.variant,
        i64::from(limit),
        moved
    );
    Ok(rows.fetch_all(connection).await?)
}

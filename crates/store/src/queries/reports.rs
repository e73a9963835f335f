//! A list of reports by what they say of themselves, newest first, a page at a time.

use crate::cursor::ReportCursor;
use crate::number::{from_row32, to_row32};
use crate::reports::Frames;
use crate::{Result, TenantTx};
use sqlx::{FromRow, Postgres, QueryBuilder};
use time::OffsetDateTime;
use unslide_model::{DebugId, ReportId};

/// What is asked for. What is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Bundle identifier.
    pub app: Option<String>,
    /// Version.
    pub version: Option<String>,
    /// Build.
    pub build: Option<String>,
    /// Arrived at this time or later.
    pub from: Option<OffsetDateTime>,
    /// Arrived before this time.
    pub to: Option<OffsetDateTime>,
    /// Crash type, such as `mach`.
    pub kind: Option<String>,
    /// `complete`, `partial` or `none`.
    pub status: Option<String>,
    /// A frame refers to this image.
    pub debug_id: Option<DebugId>,
}

/// A report of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Its id.
    pub report_id: ReportId,
    /// 0, or its place among reports of the same id and other bytes.
    pub variant: u32,
    /// The revision that is stored.
    pub revision: u32,
    /// When the broker had it first.
    pub received_at: OffsetDateTime,
    /// Bundle identifier; empty where unknown.
    pub app: String,
    /// Version; empty where unknown.
    pub version: String,
    /// Build; empty where unknown.
    pub build: String,
    /// Crash type; empty where unknown.
    pub kind: String,
    /// `complete`, `partial` or `none`.
    pub status: String,
    /// The device's claim of when it crashed.
    pub device_time: Option<OffsetDateTime>,
    /// The operating system's name.
    pub os_name: Option<String>,
    /// The operating system's version.
    pub os_version: Option<String>,
    /// The machine.
    pub model: Option<String>,
    /// The process's name.
    pub process: Option<String>,
    /// The reason in one line.
    pub reason: Option<String>,
    /// Exception, signal, top frames.
    pub summary: serde_json::Value,
    /// How the frames ended.
    pub frames: Frames,
}

/// A page of reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The reports, newest first.
    pub reports: Vec<Listed>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<ReportCursor>,
}

#[derive(FromRow)]
pub(super) struct Row {
    report_id: uuid::Uuid,
    variant: i32,
    revision: i32,
    received_at: OffsetDateTime,
    app: String,
    version: String,
    build: String,
    r#type: String,
    status: String,
    device_time: Option<OffsetDateTime>,
    os_name: Option<String>,
    os_version: Option<String>,
    model: Option<String>,
    process: Option<String>,
    reason: Option<String>,
    summary: serde_json::Value,
    frames_total: i32,
    frames_symbolicated: i32,
    frames_device: i32,
    frames_missing: i32,
}

pub(super) const COLUMNS: &str = "r.report_id, r.variant, r.revision, r.received_at, r.app, r.version, r.build, r.type, \
     r.status, r.device_time, r.os_name, r.os_version, r.model, r.process, r.reason, r.summary, r.frames_total, \
     r.frames_symbolicated, r.frames_device, r.frames_missing";

impl Row {
    pub(super) fn read(self) -> Listed {
        Listed {
            report_id: ReportId::from_uuid(self.report_id),
            variant: from_row32(self.variant),
            revision: from_row32(self.revision),
            received_at: self.received_at,
            app: self.app,
            version: self.version,
            build: self.build,
            kind: self.r#type,
            status: self.status,
            device_time: self.device_time,
            os_name: self.os_name,
            os_version: self.os_version,
            model: self.model,
            process: self.process,
            reason: self.reason,
            summary: self.summary,
            frames: Frames {
                total: from_row32(self.frames_total),
                symbolicated: from_row32(self.frames_symbolicated),
                device: from_row32(self.frames_device),
                missing: from_row32(self.frames_missing),
            },
        }
    }
}

/// Where a list begins: the table whose index gives the order.
enum Source {
    Reports,
    /// By an app image, from its waits.
    Waits,
    /// By a system image, from the days that have it.
    SystemImages,
}

async fn source(tx: &mut TenantTx, debug_id: Option<DebugId>) -> Result<Source> {
    let Some(debug_id) = debug_id else { return Ok(Source::Reports) };
    let (connection, tenant, _) = tx.parts();
    let system = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM system_waits WHERE tenant = $1 AND debug_id = $2)
              AND NOT EXISTS (SELECT FROM waits WHERE tenant = $1 AND debug_id = $2) AS "system!""#,
        tenant,
        debug_id.uuid()
    )
    .fetch_one(connection)
    .await?;
    Ok(if system { Source::SystemImages } else { Source::Waits })
}

/// The reports that fit, newest first.
///
/// # Errors
/// Where the database fails.
pub async fn list(
    tx: &mut TenantTx,
    filter: &Filter,
    after: Option<&ReportCursor>,
    limit: u32,
) -> Result<Page> {
    let (mut query, key) = matching(tx, COLUMNS, filter).await?;
    if let Some(cursor) = after {
        // The time alone once more: by it the days that are over are left out.
        query.push(" AND ").push(key).push(".received_at <= ").push_bind(cursor.received_at);
        query.push(format!(" AND ({key}.received_at, {key}.report_id, {key}.variant) < ("));
        query.push_bind(cursor.received_at).push(", ").push_bind(cursor.report_id.uuid());
        query.push(", ").push_bind(to_row32(cursor.variant)).push(")");
    }
    query.push(format!(" ORDER BY {key}.received_at DESC, {key}.report_id DESC, {key}.variant DESC LIMIT "));
    query.push_bind(i64::from(limit) + 1);
    let rows: Vec<Row> = query.build_query_as().fetch_all(tx.parts().0).await?;
    let mut reports: Vec<Listed> = rows.into_iter().map(Row::read).collect();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = reports.len() > limit;
    reports.truncate(limit);
    let next = reports.last().filter(|_| more).map(|last| ReportCursor {
        received_at: last.received_at,
        report_id: last.report_id,
        variant: last.variant,
    });
    Ok(Page { reports, next })
}

/// How many reports fit.
///
/// # Errors
/// Where the database fails.
pub async fn count(tx: &mut TenantTx, filter: &Filter) -> Result<u64> {
    let (mut query, _) = matching(tx, "count(*)", filter).await?;
    let count: i64 = query.build_query_scalar().fetch_one(tx.parts().0).await?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// The question for columns of the reports that fit, and the table that gives their order.
async fn matching(
    tx: &mut TenantTx,
    columns: &str,
    filter: &Filter,
) -> Result<(QueryBuilder<Postgres>, &'static str)> {
    let source = source(tx, filter.debug_id).await?;
    let (_, tenant, _) = tx.parts();
    let mut query = QueryBuilder::<Postgres>::new("SELECT ");
    query.push(columns);
    // The order has to come from the table that the list is driven by.
    let key = match source {
        Source::Waits => {
            // The planner knows nothing of how the two tables go together, and would rather hash all
            // reports; the LIMIT of one keeps it to one look-up a row, in the order of the waits.
            query.push(
                " FROM waits w CROSS JOIN LATERAL (SELECT * FROM reports o WHERE o.tenant = w.tenant \
                 AND o.received_at = w.received_at AND o.report_id = w.report_id AND o.variant = w.variant LIMIT 1) r \
                 WHERE w.tenant = ",
            );
            "w"
        }
        _ => {
            query.push(" FROM reports r WHERE r.tenant = ");
            "r"
        }
    };
    query.push_bind(tenant.to_owned());
    match (&source, filter.debug_id) {
        (Source::Waits, Some(debug_id)) => {
            query.push(" AND w.debug_id = ").push_bind(debug_id.uuid());
        }
        (Source::SystemImages, Some(debug_id)) => {
            query.push(" AND r.system_images @> ARRAY[").push_bind(debug_id.uuid()).push("]");
        }
        _ => {}
    }
    for (column, value) in [
        ("r.app", &filter.app),
        ("r.version", &filter.version),
        ("r.build", &filter.build),
        ("r.type", &filter.kind),
        ("r.status", &filter.status),
    ] {
        if let Some(value) = value {
            query.push(" AND ").push(column).push(" = ").push_bind(value.replace('\0', ""));
        }
    }
    if let Some(from) = filter.from {
        query.push(" AND ").push(key).push(".received_at >= ").push_bind(from);
    }
    if let Some(to) = filter.to {
        query.push(" AND ").push(key).push(".received_at < ").push_bind(to);
    }
    Ok((query, key))
}

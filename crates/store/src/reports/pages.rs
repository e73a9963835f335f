//! Pages through all stored reports of a tenant, for jobs that look at each.

use crate::cursor::ReportCursor;
use crate::history::{self, HistorySearch, MoveWatch};
use crate::number::{from_row32, to_row};
use crate::segments::{day_bounds, utc_day};
use crate::{Result, TenantTx, Uuid};
use time::{Date, Duration, OffsetDateTime};
use unslide_history::{HistoryFilter, HistoryOrder, HistoryPlace};
use unslide_model::ReportId;

/// Days that one statement reads.
const STEP: Duration = Duration::days(8);

/// A stored report of a page through all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagedReport {
    /// The report.
    pub report_id: ReportId,
    /// Which of those with this id.
    pub variant: u32,
    /// Its app.
    pub app: String,
    /// The position behind it.
    pub cursor: ReportCursor,
}

/// Returns the next stored reports behind a position, the oldest first.
///
/// # Errors
/// The database fails.
pub async fn list_oldest_reports(
    tx: &mut TenantTx,
    after: Option<&ReportCursor>,
    limit: u32,
) -> Result<Vec<PagedReport>> {
    let mut watch = MoveWatch::begin(tx).await?;
    loop {
        // A row that comes back in between is in both, and one that moves is in neither: then both are listed again.
        let moved = list_oldest_moved(tx, after, limit).await?;
        let stored = list_oldest_stored(tx, after, limit).await?;
        if watch.is_over(tx).await? {
            let position = |report: &PagedReport| (report.cursor.at, report.report_id, report.variant);
            return Ok(history::merge_pages(stored, moved, limit, position));
        }
    }
}

/// Reads rows of an app and a day that are in ClickHouse, behind a position, the oldest first: one document for `unslide_moved_reports`
/// in a statement that reads the rows of the database besides. A row may be in both, and one that moves in between is in neither: see
/// [`MoveWatch`]. Without a history no statement is sent.
///
/// # Errors
/// The database or ClickHouse fails.
pub async fn read_moved_of_day(
    tx: &mut TenantTx,
    app: &str,
    day: Date,
    after: &ReportCursor,
    limit: u32,
) -> Result<String> {
    let (begin, end) = day_bounds(day);
    let search = HistorySearch {
        filter: HistoryFilter {
            app: Some(app.to_owned()),
            from: Some(begin),
            to: Some(end),
            ..HistoryFilter::default()
        },
        order: HistoryOrder::OldestFirst,
        after: Some(after.to_history_place()),
    };
    history::read_moved_page(tx, search, limit).await
}

/// Returns those of them that are in the database.
async fn list_oldest_stored(
    tx: &mut TenantTx,
    after: Option<&ReportCursor>,
    limit: u32,
) -> Result<Vec<PagedReport>> {
    let (id, variant) = after.map_or((Uuid::nil(), -1), |after| (after.report_id, after.variant));
    let at = after.map_or(OffsetDateTime::UNIX_EPOCH, |after| after.at);
    let (mut reports, mut begin, wanted) = (Vec::new(), at, usize::try_from(limit).unwrap_or(usize::MAX));
    // Some days at a time, so that a page locks few of them.
    while let Some(day) = find_day(tx, utc_day(begin)).await? {
        let from = begin.max(day_bounds(day).0);
        let to = day_bounds(day).0.saturating_add(STEP);
        let (connection, tenant, _) = tx.parts();
        let rows = sqlx::query!(
            "SELECT received_at, report_id, variant, app FROM reports
             WHERE tenant = $1 AND received_at >= $2 AND received_at < $3 AND (received_at, report_id, variant) > ($4, $5, $6)
             ORDER BY received_at, report_id, variant LIMIT $7",
            tenant,
            from,
            to,
            at,
            id,
            variant,
            to_row((wanted - reports.len()) as u64)
        );
        let rows = rows.fetch_all(connection).await?;
        reports.extend(rows.into_iter().map(|row| {
            let (report_id, variant) = (ReportId::from_uuid(row.report_id), from_row32(row.variant));
            let cursor = ReportCursor::after_report(row.received_at, report_id, variant);
            PagedReport { report_id, variant, app: row.app, cursor }
        }));
        if reports.len() >= wanted {
            break;
        }
        begin = to;
    }
    Ok(reports)
}

/// Returns the first day from this one on that has reports.
async fn find_day(tx: &mut TenantTx, from: Date) -> Result<Option<Date>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!("SELECT min(day) FROM app_days WHERE tenant = $1 AND day >= $2", tenant, from)
        .fetch_one(connection)
        .await?)
}

/// Returns those of them that are in ClickHouse.
async fn list_oldest_moved(
    tx: &mut TenantTx,
    after: Option<&ReportCursor>,
    limit: u32,
) -> Result<Vec<PagedReport>> {
    let search = HistorySearch {
        filter: HistoryFilter { from: after.map(|after| after.at), ..HistoryFilter::default() },
        order: HistoryOrder::OldestFirst,
        after: after.map(|after| HistoryPlace {
            received_at: after.at,
            report_id: ReportId::from_uuid(after.report_id),
            variant: from_row32(after.variant),
        }),
    };
    let found = history::find_moved(tx, search, limit, |_| true).await?;
    let reports = found.into_iter().map(|report| PagedReport {
        report_id: report.report_id,
        variant: report.variant,
        app: report.app,
        cursor: ReportCursor::after_report(report.received_at, report.report_id, report.variant),
    });
    Ok(reports.collect())
}

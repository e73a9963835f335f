//! Pages through all stored reports of a tenant, for jobs that look at each.

use crate::cursor::ReportCursor;
use crate::number::from_row32;
use crate::{Result, TenantTx, Uuid};
use time::OffsetDateTime;
use unslide_model::ReportId;

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
    let (id, variant) = after.map_or((Uuid::nil(), -1), |after| (after.report_id, after.variant));
    let at = after.map_or(OffsetDateTime::UNIX_EPOCH, |after| after.at);
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        "SELECT received_at, report_id, variant, app FROM reports
         WHERE tenant = $1 AND received_at >= $2 AND (received_at, report_id, variant) > ($2, $3, $4)
         ORDER BY received_at, report_id, variant LIMIT $5",
        tenant,
        at,
        id,
        variant,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    let reports = rows.into_iter().map(|row| {
        let (report_id, variant) = (ReportId::from_uuid(row.report_id), from_row32(row.variant));
        let cursor = ReportCursor::after_report(row.received_at, report_id, variant);
        PagedReport { report_id, variant, app: row.app, cursor }
    });
    Ok(reports.collect())
}

//! Lists of reports by the values that they state, newest first, a page at a time.

use super::filter::ReportFilter;
use super::matching::{Matching, read_newest};
use super::row::ReportPage;
use super::scan::{ScanBudget, scan_reports};
use super::statement::windows::DayWindow;
use crate::cursor::ReportCursor;
use crate::number::to_row;
use crate::{Result, TenantTx};
use sqlx::{Postgres, QueryBuilder};

/// Lists the matching reports, newest first. A page of conditions that no index decides ends after two seconds: then it may have
/// fewer than `limit` entries, and says how far it searched.
pub async fn list_reports(
    tx: &mut TenantTx,
    filter: &ReportFilter,
    after: Option<&ReportCursor>,
    limit: u32,
) -> Result<ReportPage> {
    list_within(tx, filter, after, limit, ScanBudget::DEFAULT).await
}

/// Lists reports as [`list_reports`] does, with another budget.
pub(crate) async fn list_within(
    tx: &mut TenantTx,
    filter: &ReportFilter,
    after: Option<&ReportCursor>,
    limit: u32,
    budget: ScanBudget,
) -> Result<ReportPage> {
    let matching = Matching::find_for_filter(tx, filter).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX - 1);
    if filter.is_indexed() && !matching.has_many_groups() {
        let window = matching.make_window(tx.now(), after, to_row(limit as u64 + 1));
        let found = read_newest(tx, &matching, after, limit + 1, window).await?;
        return Ok(match found.history_unavailable {
            Some(at) => ReportPage::without_history(found.rows, limit, at),
            None => ReportPage::from_rows(found.rows, limit),
        });
    }
    scan_reports(tx, &matching, after, limit, budget).await
}

/// Counts the matching reports.
pub async fn count_reports(tx: &mut TenantTx, filter: &ReportFilter) -> Result<u64> {
    let matching = Matching::find_for_filter(tx, filter).await?;
    let mut query = QueryBuilder::<Postgres>::new("SELECT count(*)");
    matching.push(&mut query, &DayWindow::everything(), "reports");
    let count: i64 = query.build_query_scalar().fetch_one(tx.parts().0).await?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// Explains how the database would count them.
#[cfg(test)]
pub(crate) async fn explain(tx: &mut TenantTx, filter: &ReportFilter) -> Result<Vec<String>> {
    let matching = Matching::find_for_filter(tx, filter).await?;
    let mut query = QueryBuilder::<Postgres>::new("EXPLAIN (COSTS off) SELECT count(*)");
    matching.push(&mut query, &DayWindow::everything(), "reports");
    Ok(query.build_query_scalar().fetch_all(tx.parts().0).await?)
}

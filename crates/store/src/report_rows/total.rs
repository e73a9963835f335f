//! The number of reports in a list.

use super::filter::{ReportFilter, push_filter};
use super::matching::Matching;
use super::statement::windows::DayWindow;
use crate::history::read_moved_rows;
use crate::number::to_row;
use crate::{Result, TenantTx};
use sqlx::{FromRow, Postgres, QueryBuilder};

/// Rows that a total is made of. It is a lower bound if an index finds more.
const TOTAL_ROWS_LIMIT: u64 = 5_000;
/// The columns of the conditions that no index decides, and the weight.
const TOTAL_COLUMNS: &str = "r.version, r.build, r.type, r.status, r.fatal, r.model, r.os_name, r.os_version, \
     r.symbols_missing, r.same_crash_as, r.weight";

/// The reports that match the conditions of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportTotal {
    /// Stored reports that match.
    pub rows: i64,
    /// Reports that these represent: a sampled report counts with its weight.
    pub reports: i64,
    /// False if there may be more, because not all were compared.
    pub is_complete: bool,
}

#[derive(FromRow)]
struct TotalRow {
    compared: i64,
    rows: i64,
    reports: i64,
}

/// Counts the reports that match, among the newest 5,000 that an index finds. Returns `None` if no index finds them: for a
/// text of many groups.
pub async fn read_total(tx: &mut TenantTx, filter: &ReportFilter) -> Result<Option<ReportTotal>> {
    let matching = Matching::find_for_filter(tx, filter).await?;
    if matching.has_many_groups() {
        return Ok(None);
    }
    let (indexed, compared) = filter.split();
    // Only for a key: the keys of a report are large.
    let context = if compared.key.is_some() { ", r.context" } else { "" };
    let mut query = QueryBuilder::<Postgres>::new(format!("WITH found AS (SELECT {TOTAL_COLUMNS}{context}"));
    let limit = to_row(TOTAL_ROWS_LIMIT + 1);
    matching.with_filter(&indexed).push_newest(&mut query, None, limit, &DayWindow::everything(), "reports");
    query.push(
        ") SELECT (SELECT count(*) FROM found) AS compared, count(*) AS rows, \
         coalesce(sum(r.weight), 0)::bigint AS reports FROM found r WHERE true",
    );
    push_filter(&mut query, "r", &compared);
    let row: TotalRow = query.build_query_as().fetch_one(tx.parts().0).await?;
    let mut is_complete = row.compared <= to_row(TOTAL_ROWS_LIMIT);
    // Reports in ClickHouse are not counted.
    if is_complete && tx.history().is_some() {
        let moved = read_moved_rows(tx).await?;
        is_complete = moved.is_none_or(|moved| filter.from.is_some_and(|from| from > moved.newest_at));
    }
    Ok(Some(ReportTotal { rows: row.rows, reports: row.reports, is_complete }))
}

//! Lists by conditions that no index decides: reports are compared one by one, from the newest back, a step at a time.
//!
//! A step ends at the arrival of a report that lies a number of rows behind its begin, in the order of the index that decides
//! the other conditions. So it reads about as many rows in a tenant with few reports as in one with many.

use super::filter::{ReportFilter, push_filter};
use super::matching::{GROUPS_BY_INDEX_LIMIT, Matching, push_page, read_newest};
use super::row::ReportPage;
use super::statement::windows::DayWindow;
use crate::cursor::ReportCursor;
use crate::number::to_row;
use crate::{GroupId, Result, TenantTx};
use sqlx::{Postgres, QueryBuilder};
use std::time::Duration;
use time::OffsetDateTime;
use tokio::time::Instant;

/// The rows and the time that a page may spend on comparing reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanBudget {
    /// Rows of the first step. Each further one is twice as long while steps are quick.
    pub(crate) first_rows: usize,
    /// No step begins after this time.
    pub(crate) timeout: Duration,
}

impl ScanBudget {
    pub(super) const DEFAULT: ScanBudget = ScanBudget { first_rows: 5_000, timeout: Duration::from_secs(2) };
}

const MAX_STEP_ROWS: usize = 100_000;
/// A step that takes longer is long enough.
const STEP_TIME: Duration = Duration::from_millis(250);

/// Compares reports until the page is full, all are compared, or the time is over.
pub(super) async fn scan_reports(
    tx: &mut TenantTx,
    matching: &Matching<'_>,
    after: Option<&ReportCursor>,
    limit: usize,
    budget: ScanBudget,
) -> Result<ReportPage> {
    let begin = Instant::now();
    let filter = matching.filter;
    let (indexed, _) = filter.split();
    let mut decided = matching.with_filter(&indexed);
    // Of more groups, all reports are compared.
    decided.groups = decided.groups.filter(|groups| groups.ids.len() <= GROUPS_BY_INDEX_LIMIT);
    let (mut after, mut rows, mut found) = (after.copied(), budget.first_rows, Vec::new());
    loop {
        let step_begin = Instant::now();
        let end = find_step_end(tx, &decided, after.as_ref(), rows).await?;
        let step = ReportFilter { from: end.or(filter.from), ..filter.clone() };
        let missing = limit + 1 - found.len();
        let window = step.from.map_or_else(DayWindow::everything, DayWindow::since);
        let read = read_newest(tx, &matching.with_filter(&step), after.as_ref(), missing, window).await?;
        found.extend(read.rows);
        if let Some(at) = read.history_unavailable {
            return Ok(ReportPage::without_history(found, limit, at));
        }
        let Some(end) = end.filter(|_| found.len() <= limit) else {
            return Ok(ReportPage::from_rows(found, limit));
        };
        let reached = ReportCursor::before_time(end);
        if begin.elapsed() >= budget.timeout {
            return Ok(ReportPage {
                reports: found,
                next: Some(reached),
                searched_to: Some(end),
                history_unavailable: None,
            });
        }
        if step_begin.elapsed() < STEP_TIME {
            rows = (rows * 2).min(MAX_STEP_ROWS);
        }
        after = Some(reached);
    }
}

/// Returns the arrival of the report that lies this number of rows behind a position, by the conditions that an index decides.
/// Returns `None` if fewer are left.
async fn find_step_end(
    tx: &mut TenantTx,
    decided: &Matching<'_>,
    after: Option<&ReportCursor>,
    rows: usize,
) -> Result<Option<OffsetDateTime>> {
    let mut query = match decided.indexed_groups() {
        Some(groups) => build_end_by_group(tx, decided.filter, groups, after, rows),
        None => {
            let mut query = QueryBuilder::<Postgres>::new("SELECT r.received_at");
            let key = decided.push(&mut query, &DayWindow::everything(), "reports");
            push_page(&mut query, key, after, 1);
            query.push(" OFFSET ").push_bind(to_row(rows as u64));
            query
        }
    };
    let end: Option<Option<OffsetDateTime>> = query.build_query_scalar().fetch_optional(tx.parts().0).await?;
    Ok(end.flatten())
}

/// Builds the query for the end of a step in which no group has more than its share of the rows.
fn build_end_by_group(
    tx: &mut TenantTx,
    indexed: &ReportFilter,
    groups: &[GroupId],
    after: Option<&ReportCursor>,
    rows: usize,
) -> QueryBuilder<Postgres> {
    let (_, tenant, _) = tx.parts();
    let mut query = QueryBuilder::<Postgres>::new("SELECT max(e.received_at) FROM unnest(");
    query.push_bind(groups.to_vec());
    query.push(
        ") AS n (id) CROSS JOIN LATERAL (SELECT r.received_at FROM reports r WHERE r.group_id = n.id AND r.tenant = ",
    );
    query.push_bind(tenant.to_owned());
    push_filter(&mut query, "r", indexed);
    push_page(&mut query, "r", after, 1);
    query.push(" OFFSET ").push_bind(to_row((rows / groups.len()).max(1) as u64)).push(") e");
    query
}

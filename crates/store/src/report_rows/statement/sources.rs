//! The statement that reads the newest reports of something: it is repeated with more days if it has found too few.

use super::moved::{DOCUMENTS_LIMIT, FoundRows, MovedReports, push_candidates};
use super::windows::{CountedDay, DayWindow, OlderDays};
use crate::{GroupId, Result, TenantTx};
use sqlx::postgres::PgRow;
use sqlx::{FromRow, Postgres, QueryBuilder, Row};
use std::collections::BTreeSet;
use time::{Date, OffsetDateTime};
use unslide_history::{History, HistoryRow};
use unslide_model::{ReportId, format_causes};

/// Rows of `app_days` that tell on which days an app has reports.
const APP_ROWS_LIMIT: i64 = 5_000;

/// Reports of which the days are looked up.
#[derive(Clone, Copy, Debug)]
pub(in crate::report_rows) enum DaysOf<'s> {
    Tenant,
    App(&'s str),
    Version {
        app: &'s str,
        version: &'s str,
    },
    /// A group, and those that are merged into it.
    Group(GroupId),
}

/// Adds the rest of a statement over tables of the newest reports.
pub type PushSelect<'s> = &'s (dyn Fn(&mut QueryBuilder<Postgres>) + Send + Sync);

/// Adds the part of a statement that reads the newest reports of a table: `reports`, or one with the same columns.
pub(in crate::report_rows) type PushRows<'s> =
    Box<dyn Fn(&mut QueryBuilder<Postgres>, &DayWindow, &str) + Send + Sync + 's>;

/// The newest reports of something, as a table of a statement.
pub(in crate::report_rows) struct RowSource<'s> {
    /// The table's name.
    pub(in crate::report_rows) name: &'static str,
    pub(in crate::report_rows) limit: i64,
    pub(in crate::report_rows) window: DayWindow,
    pub(in crate::report_rows) days_of: DaysOf<'s>,
    pub(in crate::report_rows) push_rows: PushRows<'s>,
    /// The searches for rows in ClickHouse; none if it is not asked.
    pub(in crate::report_rows) moved: Vec<MovedReports<'s>>,
    /// Rows that ClickHouse has returned.
    pub(in crate::report_rows) candidates: Vec<HistoryRow>,
    /// Once there are more of them, no more are searched.
    pub(in crate::report_rows) documents_limit: usize,
    /// With as many rows as this, older ones are not searched in ClickHouse, also if they are fewer than the limit.
    pub(in crate::report_rows) moved_below: i64,
}

impl<'s> RowSource<'s> {
    /// Makes a source of which no rows are in ClickHouse.
    pub(in crate::report_rows) fn new(
        name: &'static str,
        limit: i64,
        window: DayWindow,
        push_rows: PushRows<'s>,
    ) -> RowSource<'s> {
        RowSource {
            name,
            limit,
            window,
            days_of: DaysOf::Tenant,
            push_rows,
            moved: Vec::new(),
            candidates: Vec::new(),
            documents_limit: DOCUMENTS_LIMIT,
            moved_below: limit,
        }
    }
}

/// The rows that a statement over the newest reports has found.
pub(in crate::report_rows) struct FoundList<T> {
    pub(in crate::report_rows) rows: Vec<T>,
    /// Set if ClickHouse was needed and did not answer: reports that arrived at this time or before may be missing.
    pub(in crate::report_rows) history_unavailable: Option<OffsetDateTime>,
}

/// Runs a statement over the newest reports: the one that `select` adds. More days are read if a source has less than its limit,
/// and then ClickHouse.
pub(in crate::report_rows) async fn read_sources<T>(
    tx: &mut TenantTx,
    sources: &mut [RowSource<'_>],
    select: PushSelect<'_>,
) -> Result<FoundList<T>>
where
    T: for<'r> FromRow<'r, PgRow>,
{
    let history = tx.history().filter(|_| sources.iter().any(|source| !source.moved.is_empty())).cloned();
    loop {
        let mut query = build_statement(tx.parts().1, sources, history.is_some(), select);
        // A plan that is kept for all values leaves no day out.
        let is_kept =
            !sources.iter().any(|source| source.window.is_bounded() || !source.candidates.is_empty());
        let rows = query.build().persistent(is_kept).fetch_all(tx.parts().0).await?;
        let Some(first) = rows.first() else {
            return Ok(FoundList { rows: Vec::new(), history_unavailable: None });
        };
        let found: Vec<i64> = first.try_get("found_rows")?;
        let mut is_wider = false;
        for (place, source) in sources.iter_mut().enumerate() {
            let found = found.get(place).copied().unwrap_or_default();
            if found < source.limit {
                let older = read_older(first, source, place)?;
                is_wider |= source.window.widen(found, source.limit, older);
            }
        }
        let mut history_unavailable = None;
        if let (Some(history), false) = (&history, is_wider)
            && let Some(newest_moved) = first.try_get::<Option<OffsetDateTime>, _>("newest_moved")?
        {
            let ended_moves = first.try_get::<Option<i64>, _>("ended_moves")?.unwrap_or_default();
            let oldest: Vec<Option<OffsetDateTime>> = first.try_get("oldest_rows")?;
            for (place, source) in sources.iter_mut().enumerate() {
                let enough = source.limit.min(source.moved_below);
                let is_full = found.get(place).is_some_and(|found| *found >= enough);
                let oldest = oldest.get(place).copied().flatten();
                let found = FoundRows { is_full, oldest, ended_moves, newest_moved };
                match find_candidates(tx, history, source, &found).await {
                    Ok(is_more) => is_wider |= is_more,
                    Err(error) if error.is_history() => {
                        tracing::warn!(error = format_causes(&error), "a list ends where PostgreSQL ends");
                        history_unavailable = Some(newest_moved);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        if !is_wider || history_unavailable.is_some() {
            let rows = rows.iter().filter_map(|row| match row.try_get::<Option<bool>, _>("is_row") {
                Ok(None) => None,
                Ok(Some(_)) => Some(T::from_row(row)),
                Err(error) => Some(Err(error)),
            });
            let rows = rows.collect::<sqlx::Result<Vec<T>>>()?;
            return Ok(FoundList { rows, history_unavailable });
        }
    }
}

/// Finds the next candidates of a source. Returns false if the statement has had all that it needs.
async fn find_candidates(
    tx: &mut TenantTx,
    history: &History,
    source: &mut RowSource<'_>,
    found: &FoundRows,
) -> Result<bool> {
    let tenant = tx.tenant()?;
    let mut is_more = false;
    for search in &mut source.moved {
        if !search.needs_more(found) {
            continue;
        }
        let new = search.find_next(tx, history, &tenant, found, source.limit).await?;
        is_more |= !new.is_empty();
        // One document of each report: the newest.
        let replaced: BTreeSet<(ReportId, u32)> =
            new.iter().map(|row| (row.report_id, row.variant)).collect();
        source.candidates.retain(|row| !replaced.contains(&(row.report_id, row.variant)));
        source.candidates.extend(new);
    }
    Ok(is_more && source.candidates.len() <= source.documents_limit)
}

fn build_statement(
    tenant: &str,
    sources: &[RowSource<'_>],
    has_history: bool,
    select: PushSelect<'_>,
) -> QueryBuilder<Postgres> {
    let mut query = QueryBuilder::<Postgres>::new("WITH ");
    for (place, source) in sources.iter().enumerate() {
        query.push(if place == 0 { "" } else { ", " });
        push_source(&mut query, tenant, source, place);
    }
    query.push(" SELECT x.*, f.found_rows");
    for (place, source) in sources.iter().enumerate() {
        if source.window.asks_before().is_some() {
            query.push(format!(
                ", o{place}.days AS days{place}, o{place}.reports AS reports{place}, o{place}.is_cut AS is_cut{place}"
            ));
        }
    }
    let counts: Vec<String> =
        sources.iter().map(|source| format!("(SELECT count(*) FROM {})", source.name)).collect();
    if has_history {
        query.push(", f.oldest_rows, h.ended_moves, h.newest_moved");
    }
    query.push(format!(" FROM (SELECT ARRAY[{}] AS found_rows", counts.join(", ")));
    if has_history {
        let oldest: Vec<String> =
            sources.iter().map(|source| format!("(SELECT min(received_at) FROM {})", source.name)).collect();
        query.push(format!(", ARRAY[{}] AS oldest_rows) f LEFT JOIN LATERAL (", oldest.join(", ")));
        query.push(
            "SELECT t.ended_moves, t.newest_at AS newest_moved FROM history_tenants t WHERE t.tenant = ",
        );
        query.push_bind(tenant.to_owned()).push(") h ON true");
    } else {
        query.push(") f");
    }
    for (place, source) in sources.iter().enumerate() {
        if let Some(before) = source.window.asks_before() {
            push_older(&mut query, tenant, source, place, before);
        }
    }
    query.push(" LEFT JOIN (SELECT s.*, true AS is_row FROM (");
    select(&mut query);
    query.push(") s) x ON true");
    query
}

/// Adds the table of a source: the newest rows of both databases.
fn push_source(query: &mut QueryBuilder<Postgres>, tenant: &str, source: &RowSource<'_>, place: usize) {
    let moved = format!("moved{place}");
    let is_both = !source.candidates.is_empty();
    if is_both {
        push_candidates(query, &moved, tenant, &source.candidates);
    }
    query.push(source.name).push(" AS MATERIALIZED (");
    if is_both {
        query.push("SELECT n.* FROM ((");
    }
    (source.push_rows)(query, &source.window, "reports");
    if is_both {
        query.push(") UNION ALL (");
        (source.push_rows)(query, &DayWindow::everything(), &moved);
        query.push(format!(
            ")) n ORDER BY n.received_at DESC, n.report_id DESC, n.variant DESC LIMIT {}",
            source.limit
        ));
    }
    query.push(")");
}

/// Adds the days before a window that have reports, if the window has too few.
fn push_older(
    query: &mut QueryBuilder<Postgres>,
    tenant: &str,
    source: &RowSource<'_>,
    place: usize,
    before: Date,
) {
    query.push(
        " LEFT JOIN LATERAL (SELECT array_agg(d.day ORDER BY d.day DESC) AS days, \
         array_agg(d.reports ORDER BY d.day DESC) AS reports, sum(d.counted) >= ",
    );
    query.push_bind(APP_ROWS_LIMIT);
    query
        .push(" AS is_cut FROM (SELECT c.day, sum(c.reports)::bigint AS reports, count(*) AS counted FROM (");
    match source.days_of {
        DaysOf::Group(group) => {
            query.push("SELECT c.day, c.reports FROM (SELECT ").push_bind(group);
            query.push(" AS id UNION ALL SELECT m.id FROM groups m WHERE m.tenant = ");
            query.push_bind(tenant.to_owned()).push(" AND m.merged_into = ").push_bind(group);
            query.push(
                ") g CROSS JOIN LATERAL (SELECT n.day, sum(n.reports)::bigint AS reports FROM group_day_counts n WHERE n.tenant = ",
            );
            query.push_bind(tenant.to_owned()).push(" AND n.group_id = g.id AND n.day < ").push_bind(before);
            query.push(" GROUP BY n.day) c WHERE ");
            push_is_short(query, source, place);
        }
        DaysOf::Tenant | DaysOf::App(_) | DaysOf::Version { .. } => {
            // A day of which all reports were deleted, or are counted as others, stays with a count of 0.
            query.push(
                "SELECT a.day, a.reports - a.extrapolated AS reports FROM app_days a WHERE a.tenant = ",
            );
            query.push_bind(tenant.to_owned());
            if let DaysOf::App(app) | DaysOf::Version { app, .. } = source.days_of {
                query.push(" AND a.app = ").push_bind(app.replace('\0', ""));
            }
            if let DaysOf::Version { version, .. } = source.days_of {
                query.push(" AND a.version = ").push_bind(version.replace('\0', ""));
            }
            query.push(" AND a.day < ").push_bind(before).push(" AND ");
            push_is_short(query, source, place);
            query.push(" ORDER BY a.day DESC LIMIT ").push_bind(APP_ROWS_LIMIT);
        }
    }
    query.push(format!(") c GROUP BY c.day) d) o{place} ON true"));
}

fn push_is_short(query: &mut QueryBuilder<Postgres>, source: &RowSource<'_>, place: usize) {
    query.push(format!("f.found_rows[{}] < ", place + 1)).push_bind(source.limit);
}

fn read_older(row: &PgRow, source: &RowSource<'_>, place: usize) -> Result<OlderDays> {
    if source.window.asks_before().is_none() {
        return Ok(OlderDays::default());
    }
    let days: Option<Vec<Date>> = row.try_get(format!("days{place}").as_str())?;
    let reports: Option<Vec<i64>> = row.try_get(format!("reports{place}").as_str())?;
    let is_cut: Option<bool> = row.try_get(format!("is_cut{place}").as_str())?;
    let days = days.unwrap_or_default().into_iter().zip(reports.unwrap_or_default());
    // Days of a group are all there.
    let is_cut = is_cut.unwrap_or_default() && !matches!(source.days_of, DaysOf::Group(_));
    Ok(OlderDays { days: days.map(|(day, reports)| CountedDay { day, reports }).collect(), is_cut })
}

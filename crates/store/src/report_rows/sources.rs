//! The statement that reads the newest reports of something: it is repeated with more days if it has found too few.

use super::windows::{CountedDay, OlderDays, Window};
use crate::{GroupId, Result, TenantTx};
use sqlx::postgres::PgRow;
use sqlx::{FromRow, Postgres, QueryBuilder, Row};
use time::Date;

/// Rows of `app_days` that tell on which days an app has reports.
const APP_ROWS_LIMIT: i64 = 5_000;

/// Reports of which the days are looked up.
#[derive(Clone, Copy, Debug)]
pub(super) enum DaysOf<'s> {
    Tenant,
    App(&'s str),
    Version {
        app: &'s str,
        version: &'s str,
    },
    /// A group, and those that are merged into it.
    Group(GroupId),
}

/// Adds the part of a statement that reads the newest reports.
pub(super) type PushRows<'s> = Box<dyn Fn(&mut QueryBuilder<Postgres>, &Window) + Send + Sync + 's>;

/// The newest reports of something, as a table of a statement.
pub(super) struct Source<'s> {
    /// The table's name.
    pub(super) name: &'static str,
    pub(super) limit: i64,
    pub(super) window: Window,
    pub(super) days_of: DaysOf<'s>,
    pub(super) push_rows: PushRows<'s>,
}

/// Runs a statement over the newest reports: the one that `select` adds. More days are read if a source has less than its limit.
pub(super) async fn read_sources<T>(
    tx: &mut TenantTx,
    sources: &mut [Source<'_>],
    select: &(dyn Fn(&mut QueryBuilder<Postgres>) + Send + Sync),
) -> Result<Vec<T>>
where
    T: for<'r> FromRow<'r, PgRow>,
{
    loop {
        let mut query = build_statement(tx.parts().1, sources, select);
        // A plan that is kept for all values leaves no day out.
        let is_kept = !sources.iter().any(|source| source.window.is_bounded());
        let rows = query.build().persistent(is_kept).fetch_all(tx.parts().0).await?;
        let mut is_wider = false;
        if let Some(first) = rows.first() {
            let found: Vec<i64> = first.try_get("found_rows")?;
            for (place, source) in sources.iter_mut().enumerate() {
                let found = found.get(place).copied().unwrap_or_default();
                if found < source.limit {
                    let older = read_older(first, source, place)?;
                    is_wider |= source.window.widen(found, source.limit, older);
                }
            }
        }
        if !is_wider {
            let rows = rows.iter().filter_map(|row| match row.try_get::<Option<bool>, _>("is_row") {
                Ok(None) => None,
                Ok(Some(_)) => Some(T::from_row(row)),
                Err(error) => Some(Err(error)),
            });
            return Ok(rows.collect::<sqlx::Result<Vec<T>>>()?);
        }
    }
}

fn build_statement(
    tenant: &str,
    sources: &[Source<'_>],
    select: &(dyn Fn(&mut QueryBuilder<Postgres>) + Send + Sync),
) -> QueryBuilder<Postgres> {
    let mut query = QueryBuilder::<Postgres>::new("WITH ");
    for (place, source) in sources.iter().enumerate() {
        query.push(if place == 0 { "" } else { ", " });
        query.push(source.name).push(" AS MATERIALIZED (");
        (source.push_rows)(&mut query, &source.window);
        query.push(")");
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
    query.push(format!(" FROM (SELECT ARRAY[{}] AS found_rows) f", counts.join(", ")));
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

/// Adds the days before a window that have reports, if the window has too few.
fn push_older(
    query: &mut QueryBuilder<Postgres>,
    tenant: &str,
    source: &Source<'_>,
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

fn push_is_short(query: &mut QueryBuilder<Postgres>, source: &Source<'_>, place: usize) {
    query.push(format!("f.found_rows[{}] < ", place + 1)).push_bind(source.limit);
}

fn read_older(row: &PgRow, source: &Source<'_>, place: usize) -> Result<OlderDays> {
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

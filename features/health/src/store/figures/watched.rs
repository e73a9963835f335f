//! The registry of figures that rules can watch by name. A share of sessions takes one line of [`SESSION_SHARES`]; every
//! metric has its quantiles without any.

use super::comparison::{ChangeVerdict, MetricSums, share_change};
use super::hours::{
    ValuePlace, WATCHED_ROWS_LIMIT, WatchedRow, read_hour_rows, session_days, session_hour_counts,
};
use super::{HealthFigures, HealthSums};
use crate::store::metrics::{MetricDimension, read_sketch};
use std::collections::BTreeMap;
use time::{Date, OffsetDateTime};
use unslide_health_formats::{MetricName, MetricUnit};
use unslide_store::watched_figures::{
    FigureHook, FigurePeriod, FigureQuery, MeasuredFigure, WatchableFigure,
};
use unslide_store::{HookFuture, Result, TenantTx};

/// Rows between two yields to other tasks. To merge a full sketch takes some hundred microseconds.
const ROWS_BETWEEN_YIELDS: usize = 20;

/// The path of the page of one figure over time.
pub const FIGURE_PATH: &str = "/console/health/figure";

/// The figures of health.
pub const WATCHED_FIGURES: FigureHook =
    FigureHook { list: list_figures, measure: measure_figure, page: FIGURE_PATH };

/// A share of sessions or users: its counts as far as they are independent, and whether more of it is better.
struct SessionShare {
    name: &'static str,
    more_is_better: bool,
    count: fn(&HealthFigures) -> (f64, f64),
}

const SESSION_SHARES: &[SessionShare] = &[
    SessionShare { name: "crash_free_sessions", more_is_better: true, count: crash_free },
    SessionShare { name: "crash_free_users", more_is_better: true, count: crash_free_users },
    SessionShare { name: "out_of_memory_sessions", more_is_better: false, count: out_of_memory },
    SessionShare {
        name: "background_out_of_memory_sessions",
        more_is_better: false,
        count: background_out_of_memory,
    },
];

/// The share of requests that failed.
const REQUEST_FAILURES: &str = "request_failures";

/// The ends of the names of a metric's quantiles.
const QUANTILES: [(&str, f64); 5] =
    [("_p5", 0.05), ("_p50", 0.5), ("_p90", 0.9), ("_p95", 0.95), ("_p99", 0.99)];

fn crash_free(figures: &HealthFigures) -> (f64, f64) {
    let (crashed, sessions) = figures.crashed_of_sessions();
    figures.independent((sessions - crashed, sessions))
}

/// Returns the users without a crash, and all. Sampled sessions show a part of the users alone, so that their share is not
/// that of all: they count as no observations.
#[expect(clippy::cast_precision_loss, reason = "a test of significance")]
fn crash_free_users(figures: &HealthFigures) -> (f64, f64) {
    let (crashed, users) = figures.crashed_of_users();
    if figures.is_whole() { ((users - crashed) as f64, users as f64) } else { (0.0, 0.0) }
}

fn out_of_memory(figures: &HealthFigures) -> (f64, f64) {
    figures.independent((figures.out_of_memory_sessions, figures.sessions))
}

fn background_out_of_memory(figures: &HealthFigures) -> (f64, f64) {
    figures.independent((figures.background_out_of_memory_sessions, figures.sessions))
}

/// Returns the unit of a metric's quantiles; empty for a count, because `1` is the unit of shares.
fn quantile_unit(metric: MetricName) -> &'static str {
    match metric.unit() {
        MetricUnit::Count => "",
        unit => unit.as_str(),
    }
}

/// Lists every share, and every quantile of every metric.
fn list_figures() -> Vec<WatchableFigure> {
    let share = |name: &str, has_hosts| WatchableFigure {
        name: name.to_owned(),
        unit: "1",
        has_hosts,
        is_comparable: true,
    };
    let mut figures: Vec<_> = SESSION_SHARES.iter().map(|known| share(known.name, false)).collect();
    figures.push(share(REQUEST_FAILURES, true));
    for metric in MetricName::ALL.into_iter().filter(|metric| *metric != MetricName::Requests) {
        figures.extend(QUANTILES.iter().map(|(end, _)| WatchableFigure {
            name: format!("{metric}{end}"),
            unit: quantile_unit(metric),
            has_hosts: metric.is_of_requests(),
            is_comparable: metric.more_is_better().is_some(),
        }));
    }
    figures
}

/// A figure that is known by its name.
#[derive(Clone, Copy)]
enum KnownFigure {
    Sessions(&'static SessionShare),
    RequestFailures,
    Quantile(MetricName, f64),
}

impl KnownFigure {
    fn parse(name: &str) -> Option<KnownFigure> {
        if let Some(share) = SESSION_SHARES.iter().find(|share| share.name == name) {
            return Some(KnownFigure::Sessions(share));
        }
        if name == REQUEST_FAILURES {
            return Some(KnownFigure::RequestFailures);
        }
        parse_quantile(name).map(|(metric, share)| KnownFigure::Quantile(metric, share))
    }

    fn metric(self) -> Option<MetricName> {
        match self {
            KnownFigure::Sessions(_) => None,
            KnownFigure::RequestFailures => Some(MetricName::Requests),
            KnownFigure::Quantile(metric, _) => Some(metric),
        }
    }

    /// Returns the figure of some observations, compared with those before. Returns `None` if nothing was counted.
    fn measure(self, now: &WatchedSums, before: Option<&WatchedSums>) -> Option<MeasuredFigure> {
        let (unit, value, observations, old, change, more_is_better) = match self {
            KnownFigure::Sessions(share) => {
                let counts = |sums: &WatchedSums| (share.count)(&sums.sessions.figures());
                let ratio = |counts: (f64, f64)| (counts.1 > 0.0).then(|| counts.0 / counts.1);
                let (now, before) = (counts(now), before.map(counts));
                let change = before.and_then(|before| share_change(now, before, share.more_is_better));
                ("1", ratio(now)?, now.1, before.and_then(ratio), change, Some(share.more_is_better))
            }
            KnownFigure::RequestFailures => {
                let (now, before) = (&now.metric, before.map(|before| &before.metric));
                let change = before.and_then(|before| now.failed_change(before));
                let old = before.and_then(MetricSums::failed_share);
                ("1", now.failed_share()?, now.independent(), old, change, Some(false))
            }
            KnownFigure::Quantile(metric, share) => {
                let (now, before) = (&now.metric, before.map(|before| &before.metric));
                let better = metric.more_is_better();
                let compared = before.zip(better);
                let change = compared.and_then(|(before, better)| now.quantile_change(before, share, better));
                let old = before.and_then(|before| before.sketch.quantile(share));
                let value = now.sketch.quantile(share)?;
                (quantile_unit(metric), value, now.independent(), old, change, better)
            }
        };
        let is_worse = change == Some(ChangeVerdict::Worse);
        Some(MeasuredFigure { value, unit, observations, more_is_better, before: old, is_worse })
    }
}

/// Sums of the observations of a figure: of sessions, or of a metric.
#[derive(Default)]
struct WatchedSums {
    sessions: HealthSums,
    metric: MetricSums,
}

fn measure_figure<'t>(
    tx: &'t mut TenantTx,
    query: FigureQuery<'t>,
) -> HookFuture<'t, Option<MeasuredFigure>> {
    Box::pin(async move {
        let Some(figure) = KnownFigure::parse(query.figure) else { return Ok(None) };
        let now = read_sums(tx, query, figure, query.period).await?;
        let before = match query.before {
            Some(period) => Some(read_sums(tx, query, figure, period).await?),
            None => None,
        };
        Ok(figure.measure(&now, before.as_ref()))
    })
}

/// A figure in one hour or on one day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FigurePoint {
    /// The beginning of the hour or the day.
    pub begin: OffsetDateTime,
    pub measured: MeasuredFigure,
}

/// Returns a figure by hour or by day, as the query has its period, the newest first; without those that nothing was
/// counted in. Returns `None` if there is no such figure.
pub async fn list_points(tx: &mut TenantTx, query: FigureQuery<'_>) -> Result<Option<Vec<FigurePoint>>> {
    let Some(figure) = KnownFigure::parse(query.figure) else { return Ok(None) };
    let sums = match figure.metric() {
        Some(metric) => {
            let mut sums = BTreeMap::<OffsetDateTime, WatchedSums>::new();
            read_metric(tx, query, metric, query.period, |begin, row| {
                sums.entry(begin).or_default().metric.merge(row);
            })
            .await?;
            sums
        }
        None => read_sessions(tx, query, query.period).await?,
    };
    let points = sums.into_iter().rev().filter_map(|(begin, sums)| {
        let measured = figure.measure(&sums, None)?;
        Some(FigurePoint { begin, measured })
    });
    Ok(Some(points.collect()))
}

async fn read_sums(
    tx: &mut TenantTx,
    query: FigureQuery<'_>,
    figure: KnownFigure,
    period: FigurePeriod,
) -> Result<WatchedSums> {
    let mut whole = WatchedSums::default();
    match figure.metric() {
        Some(metric) => {
            read_metric(tx, query, metric, period, |_, row| whole.metric.merge(row)).await?;
        }
        None => {
            let sessions = read_sessions(tx, query, period).await?;
            sessions.values().for_each(|sums| whole.sessions.merge(&sums.sessions));
        }
    }
    Ok(whole)
}

/// Reads the sessions of a period by their hour or day.
async fn read_sessions(
    tx: &mut TenantTx,
    query: FigureQuery<'_>,
    period: FigurePeriod,
) -> Result<BTreeMap<OffsetDateTime, WatchedSums>> {
    let sums = match period {
        FigurePeriod::Hours(from, to) => {
            session_hour_counts(tx, query.app, query.version, (from, to)).await?
        }
        FigurePeriod::Days(from, to) => session_days(tx, query.app, query.version, (from, to)).await?,
    };
    let watched = |sessions| WatchedSums { sessions, ..WatchedSums::default() };
    Ok(sums.into_iter().map(|(begin, sums)| (begin, watched(sums))).collect())
}

/// Reads the name of a metric's quantile.
fn parse_quantile(figure: &str) -> Option<(MetricName, f64)> {
    QUANTILES
        .iter()
        .find_map(|(end, share)| Some((MetricName::parse(figure.strip_suffix(end)?)?, *share)))
        .filter(|(metric, _)| *metric != MetricName::Requests)
}

/// Passes the sums of each row of a period, with the beginning of its hour or day, to `each`.
async fn read_metric(
    tx: &mut TenantTx,
    query: FigureQuery<'_>,
    metric: MetricName,
    period: FigurePeriod,
    mut each: impl FnMut(OffsetDateTime, &MetricSums),
) -> Result<()> {
    let endpoint = query.endpoint.map(|endpoint| (MetricDimension::Endpoint, endpoint));
    let place = endpoint.or(query.host.map(|host| (MetricDimension::Host, host)));
    let place = place.map(|(dimension, value)| ValuePlace { dimension, value });
    let rows = match (period, place) {
        (FigurePeriod::Hours(from, to), place) => {
            read_hour_rows(tx, query, metric, (from, to), place).await?
        }
        (FigurePeriod::Days(from, to), Some(place)) => {
            read_value_rows(tx, query, metric, (from, to), place).await?
        }
        (FigurePeriod::Days(from, to), None) => read_whole_rows(tx, query, metric, (from, to)).await?,
    };
    for part in rows.chunks(ROWS_BETWEEN_YIELDS) {
        for row in part {
            let (observations, failed, squares) = (row.observations, row.failed, row.squares);
            let (sampled, sketch) = (row.sampled, read_sketch(&row.sketch)?);
            each(row.begin, &MetricSums { observations, failed, squares, sampled, sketch });
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn read_whole_rows(
    tx: &mut TenantTx,
    query: FigureQuery<'_>,
    metric: MetricName,
    period: (Date, Date),
) -> Result<Vec<WatchedRow>> {
    let (from, to) = period;
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        WatchedRow,
        r#"SELECT day::timestamp AT TIME ZONE 'UTC' AS "begin!", observations, failed, squares, sampled, sketch
         FROM metric_days
         WHERE tenant = $1 AND app = $2 AND day >= $3 AND day < $4 AND dimension = '' AND metric = $5
           AND ($6::text IS NULL OR version = $6)
         ORDER BY day DESC, version DESC LIMIT $7"#,
        tenant,
        query.app,
        from,
        to,
        metric.as_str(),
        query.version,
        WATCHED_ROWS_LIMIT
    )
    .fetch_all(connection)
    .await?)
}

async fn read_value_rows(
    tx: &mut TenantTx,
    query: FigureQuery<'_>,
    metric: MetricName,
    period: (Date, Date),
    place: ValuePlace<'_>,
) -> Result<Vec<WatchedRow>> {
    let (from, to) = period;
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        WatchedRow,
        r#"SELECT day::timestamp AT TIME ZONE 'UTC' AS "begin!", observations, failed, squares, sampled, sketch
         FROM metric_days
         WHERE tenant = $1 AND app = $2 AND day >= $3 AND day < $4 AND dimension = $9 AND value = $5 AND metric = $6
           AND dimension IN ('connection', 'endpoint', 'host', 'protocol', 'result')
           AND ($7::text IS NULL OR version = $7)
         ORDER BY day DESC, version DESC LIMIT $8"#,
        tenant,
        query.app,
        from,
        to,
        place.value,
        metric.as_str(),
        query.version,
        WATCHED_ROWS_LIMIT,
        place.dimension.as_str()
    )
    .fetch_all(connection)
    .await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_listed_quantile_is_parsed_and_every_name_is_listed_once() {
        let listed = list_figures();
        let names: BTreeSet<&str> = listed.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names.len(), listed.len());
        for figure in &listed {
            let is_share = figure.unit == "1";
            assert_eq!(parse_quantile(&figure.name).is_none(), is_share, "{}", figure.name);
        }
        assert_eq!(parse_quantile("launch_time_p90"), Some((MetricName::LaunchTime, 0.9)));
        assert_eq!(parse_quantile("cpu_time_per_hour_p5"), Some((MetricName::CpuTimePerHour, 0.05)));
        for unknown in ["requests_p50", "launch_time", "launch_time_p91", "_p50"] {
            assert_eq!(parse_quantile(unknown), None, "{unknown}");
        }
    }
}

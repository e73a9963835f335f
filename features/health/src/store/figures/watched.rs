//! The registry of figures that rules can watch by name. A share of sessions takes one line of [`SESSION_SHARES`]; every
//! metric has its quantiles without any.

use super::comparison::{ChangeVerdict, MetricSums, share_change};
use super::{HealthFigures, total_figures};
use crate::store::metrics::{MetricDimension, read_sketch};
use time::Date;
use unslide_health_formats::{MetricName, MetricUnit};
use unslide_store::watched_figures::{FigureHook, FigureQuery, MeasuredFigure, WatchableFigure};
use unslide_store::{HookFuture, Result, TenantTx};

/// Rows of a period, one for each version and day, that a figure of a metric is made of: the newest.
const WATCHED_ROWS_LIMIT: i64 = 1_000;
/// Rows between two yields to other tasks. To merge a full sketch takes some hundred microseconds.
const ROWS_BETWEEN_YIELDS: usize = 20;

/// The figures of health.
pub const WATCHED_FIGURES: FigureHook = FigureHook { list: list_figures, measure: measure_figure };

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

fn measure_figure<'t>(
    tx: &'t mut TenantTx,
    query: FigureQuery<'t>,
) -> HookFuture<'t, Option<MeasuredFigure>> {
    Box::pin(async move {
        if let Some(share) = SESSION_SHARES.iter().find(|share| share.name == query.figure) {
            return measure_sessions(tx, query, share).await;
        }
        if query.figure == REQUEST_FAILURES {
            let (now, before) = read_periods(tx, query, MetricName::Requests).await?;
            let change = before.as_ref().and_then(|before| now.failed_change(before));
            let old = before.as_ref().and_then(MetricSums::failed_share);
            return Ok(now.failed_share().map(|value| measured("1", value, now.independent(), old, change)));
        }
        let Some((metric, share)) = parse_quantile(query.figure) else { return Ok(None) };
        let (now, before) = read_periods(tx, query, metric).await?;
        let compared = before.as_ref().zip(metric.more_is_better());
        let change = compared.and_then(|(before, better)| now.quantile_change(before, share, better));
        let old = before.as_ref().and_then(|before| before.sketch.quantile(share));
        let unit = quantile_unit(metric);
        Ok(now.sketch.quantile(share).map(|value| measured(unit, value, now.independent(), old, change)))
    })
}

/// Reads the name of a metric's quantile.
fn parse_quantile(figure: &str) -> Option<(MetricName, f64)> {
    QUANTILES
        .iter()
        .find_map(|(end, share)| Some((MetricName::parse(figure.strip_suffix(end)?)?, *share)))
        .filter(|(metric, _)| *metric != MetricName::Requests)
}

fn measured(
    unit: &'static str,
    value: f64,
    observations: f64,
    before: Option<f64>,
    change: Option<ChangeVerdict>,
) -> MeasuredFigure {
    MeasuredFigure { value, unit, observations, before, is_worse: change == Some(ChangeVerdict::Worse) }
}

async fn measure_sessions(
    tx: &mut TenantTx,
    query: FigureQuery<'_>,
    share: &SessionShare,
) -> Result<Option<MeasuredFigure>> {
    let filter = (Some(query.app), query.version);
    let now = (share.count)(&total_figures(tx, filter, query.period).await?);
    let before = match query.before {
        Some(period) => Some((share.count)(&total_figures(tx, filter, period).await?)),
        None => None,
    };
    let change = before.and_then(|before| share_change(now, before, share.more_is_better));
    let ratio = |counts: (f64, f64)| (counts.1 > 0.0).then(|| counts.0 / counts.1);
    Ok(ratio(now).map(|value| measured("1", value, now.1, before.and_then(ratio), change)))
}

/// Reads a metric in the period of a query, and in the one before it if they are compared.
async fn read_periods(
    tx: &mut TenantTx,
    query: FigureQuery<'_>,
    metric: MetricName,
) -> Result<(MetricSums, Option<MetricSums>)> {
    let now = read_metric(tx, query, metric, query.period).await?;
    let before = match query.before {
        Some(period) => Some(read_metric(tx, query, metric, period).await?),
        None => None,
    };
    Ok((now, before))
}

/// The columns of a row that are read.
struct WatchedRow {
    observations: f64,
    failed: f64,
    squares: f64,
    sampled: bool,
    sketch: Vec<u8>,
}

async fn read_metric(
    tx: &mut TenantTx,
    query: FigureQuery<'_>,
    metric: MetricName,
    period: (Date, Date),
) -> Result<MetricSums> {
    let endpoint = query.endpoint.map(|endpoint| (MetricDimension::Endpoint, endpoint));
    let rows = match endpoint.or(query.host.map(|host| (MetricDimension::Host, host))) {
        Some((dimension, value)) => {
            read_value_rows(tx, query, metric, period, ValuePlace { dimension, value }).await?
        }
        None => read_whole_rows(tx, query, metric, period).await?,
    };
    let mut sums = MetricSums::default();
    for turn in rows.chunks(ROWS_BETWEEN_YIELDS) {
        for row in turn {
            sums.merge(&MetricSums {
                observations: row.observations,
                failed: row.failed,
                squares: row.squares,
                sampled: row.sampled,
                sketch: read_sketch(&row.sketch)?,
            });
        }
        tokio::task::yield_now().await;
    }
    Ok(sums)
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
        "SELECT observations, failed, squares, sampled, sketch FROM metric_days
         WHERE tenant = $1 AND app = $2 AND day >= $3 AND day < $4 AND dimension = '' AND metric = $5
           AND ($6::text IS NULL OR version = $6)
         ORDER BY day DESC, version DESC LIMIT $7",
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

/// A value of a dimension of requests.
struct ValuePlace<'p> {
    dimension: MetricDimension,
    value: &'p str,
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
        "SELECT observations, failed, squares, sampled, sketch FROM metric_days
         WHERE tenant = $1 AND app = $2 AND day >= $3 AND day < $4 AND dimension = $9 AND value = $5 AND metric = $6
           AND dimension IN ('connection', 'endpoint', 'host', 'protocol', 'result')
           AND ($7::text IS NULL OR version = $7)
         ORDER BY day DESC, version DESC LIMIT $8",
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

//! Figures of an app's versions: crashes, memory, and metric payloads, each compared with the version before.

use super::comparison::{ChangeVerdict, MetricSums, share_change, worse_beyond_share};
use super::{HealthFigures, MOST_VERSIONS, version_figures};
use crate::store::metrics::{MetricDimension, OTHER, read_sketch};
use serde::Serialize;
use std::collections::BTreeMap;
use time::Date;
use unslide_health_formats::MetricName;
use unslide_model::compare_versions;
use unslide_store::{Result, StoreError, TenantTx};
use utoipa::ToSchema;

/// Rows that one query reads. To merge a full sketch, with its two thousand buckets, takes some hundred microseconds.
const PAGE_ROWS: i64 = 100;
/// Rows of a period, one for each version, day, metric and value of a dimension, that figures are made of:
/// those of its most recent days, if there are more.
const MOST_ROWS: i64 = 50_000;

/// One figure of a version.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SignalFigure {
    /// Its name: `crash_free_sessions`, `crash_free_users`, `out_of_memory_sessions`, `request_failures`, or a metric.
    #[schema(example = "launch_time")]
    pub signal: &'static str,
    /// `share` of what is counted, or a quantile of the values: `p5`, `p50` or `p95`.
    #[schema(example = "p95")]
    pub statistic: &'static str,
    /// `1` for shares, else `ms`, `B`, `ms/s`, `fps`, `J`, `ms/h`, `B/h`, `J/h` or `1/h`.
    #[schema(example = "ms")]
    pub unit: &'static str,
    /// The figure. Quantiles are at most 1 % off.
    pub value: f64,
    /// Sessions, users or observations that it is computed from. What was sampled counts as many as it stands for.
    pub observations: f64,
    /// True where `observations` is an estimate: some of them were sampled. Of users it never is.
    pub estimated: bool,
    /// The same figure of the other version; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// Whether the change is more than noise, at 1 %: for shares by a two-proportion z-test, for quantiles where their 99 %
    /// confidence intervals have no value in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<ChangeVerdict>,
    /// Of a share whose change is within noise: the value beyond which it would be told as worse. Absent if there are too few
    /// observations to tell any change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worse_beyond: Option<f64>,
}

/// A version's figures, compared with those of another version.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct VersionSignals {
    /// The version; empty for what names none.
    #[schema(example = "3.1.4")]
    pub version: String,
    /// The version that it is compared with: the chosen one, or else the next older one of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_before: Option<String>,
    /// Its figures; what was not sent has none.
    #[schema(max_items = 64)]
    pub signals: Vec<SignalFigure>,
}

/// The figures of some versions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparedVersions {
    pub versions: Vec<VersionSignals>,
    /// The first day that metrics are made of, if not all of the period was read.
    pub metrics_from: Option<Date>,
}

pub(super) type MetricsOfVersion = BTreeMap<MetricName, MetricSums>;

/// Sums of one version in a period.
struct VersionSums {
    sessions: HealthFigures,
    metrics: MetricsOfVersion,
}

/// Returns the versions of an app that had sessions or metrics in a period, at most [`MOST_VERSIONS`], the
/// newest first. If there are more, those with the most sessions, or else with the most observations.
pub async fn compare_version_signals(
    tx: &mut TenantTx,
    app: &str,
    period: (Date, Date),
) -> Result<ComparedVersions> {
    compare_with_version(tx, app, period, None).await
}

/// Does the same, but compares each version with the one that is chosen, if it is one of them.
pub async fn compare_with_version(
    tx: &mut TenantTx,
    app: &str,
    period: (Date, Date),
    chosen: Option<&str>,
) -> Result<ComparedVersions> {
    let mut versions = seen_versions(tx, app, period).await?;
    versions.sort_by(|a, b| compare_versions(b, a));
    let sessions = version_figures(tx, app, &versions, period).await?;
    let mut metrics: BTreeMap<String, MetricsOfVersion> = BTreeMap::new();
    let metrics_from = read_whole(tx, app, &versions, period, |row| {
        let of = metrics.entry(row.version.clone()).or_default();
        of.entry(row.metric()?).or_default().merge(&row.sums()?);
        Ok(())
    })
    .await?;
    let of = |version: &String| {
        let health = sessions.iter().find(|known| known.version == *version).map(|known| known.figures);
        VersionSums {
            sessions: health.unwrap_or_default(),
            metrics: metrics.get(version).cloned().unwrap_or_default(),
        }
    };
    let figures: Vec<VersionSums> = versions.iter().map(of).collect();
    // Payloads without a version are not the version before, and neither are the versions that are counted
    // together.
    let is_one = |version: &str| !version.is_empty() && version != OTHER;
    let compared = versions.iter().enumerate().map(|(place, version)| {
        let before = match chosen {
            Some(chosen) => versions.iter().position(|other| other == chosen && other != version),
            None => {
                let older = (place + 1..versions.len()).find(|older| is_one(&versions[*older]));
                older.filter(|_| is_one(version))
            }
        };
        VersionSignals {
            version: version.clone(),
            version_before: before.map(|before| versions[before].clone()),
            signals: signals(&figures[place], before.map(|before| &figures[before])),
        }
    });
    Ok(ComparedVersions { versions: compared.collect(), metrics_from })
}

fn signals(sums: &VersionSums, before: Option<&VersionSums>) -> Vec<SignalFigure> {
    let VersionSums { sessions, metrics } = sums;
    let mut found = Vec::new();
    let sessions_before = before.map(|before| &before.sessions);
    found.extend(session_share("crash_free_sessions", crash_free, true, sessions, sessions_before));
    found.extend(user_share(sessions, sessions_before));
    found.extend(session_share("out_of_memory_sessions", out_of_memory, false, sessions, sessions_before));
    for (metric, sums) in metrics {
        let sums_before = before.and_then(|before| before.metrics.get(metric));
        if *metric == MetricName::Requests {
            found.extend(sums.failed_share().map(|value| SignalFigure {
                signal: "request_failures",
                statistic: "share",
                unit: "1",
                value,
                observations: sums.observations,
                estimated: sums.sampled,
                before: sums_before.and_then(MetricSums::failed_share),
                change: sums_before.and_then(|before| sums.failed_change(before)),
                worse_beyond: sums_before.and_then(|before| sums.failed_worse_beyond(before)),
            }));
        }
        let worst = if metric.more_is_better() == Some(true) { ("p5", 0.05) } else { ("p95", 0.95) };
        for (statistic, share) in [("p50", 0.5), worst] {
            let Some(value) = sums.sketch.quantile(share) else { continue };
            found.push(SignalFigure {
                signal: metric.as_str(),
                statistic,
                unit: metric.unit().as_str(),
                value,
                observations: sums.observations,
                estimated: sums.sampled,
                before: sums_before.and_then(|before| before.sketch.quantile(share)),
                change: sums_before
                    .zip(metric.more_is_better())
                    .and_then(|(before, better)| sums.quantile_change(before, share, better)),
                worse_beyond: None,
            });
        }
    }
    found
}

fn crash_free(figures: &HealthFigures) -> (i64, i64) {
    (figures.sessions - figures.crashed_sessions, figures.sessions)
}

fn out_of_memory(figures: &HealthFigures) -> (i64, i64) {
    (figures.out_of_memory_sessions, figures.sessions)
}

fn crash_free_users(figures: &HealthFigures) -> (i64, i64) {
    let (crashed, users) = figures.crashed_of_users();
    (users - crashed, users)
}

fn session_share(
    signal: &'static str,
    of: fn(&HealthFigures) -> (i64, i64),
    more_is_better: bool,
    now: &HealthFigures,
    before: Option<&HealthFigures>,
) -> Option<SignalFigure> {
    let compared = before.map(|before| (now.independent(of(now)), before.independent(of(before))));
    let figure = share_figure(signal, of(now), before.map(of), compared, more_is_better)?;
    Some(SignalFigure { estimated: now.estimated, ..figure })
}

/// Returns the share of users without a crash. It is not compared if only a part of the sessions was kept: it
/// depends on the size of that part.
#[expect(clippy::cast_precision_loss, reason = "a test of significance")]
fn user_share(now: &HealthFigures, before: Option<&HealthFigures>) -> Option<SignalFigure> {
    let exact = |of: &HealthFigures| {
        let (crash_free, users) = crash_free_users(of);
        (crash_free as f64, users as f64)
    };
    let whole = before.filter(|before| now.is_whole() && before.is_whole());
    let compared = whole.map(|before| (exact(now), exact(before)));
    share_figure("crash_free_users", crash_free_users(now), before.map(crash_free_users), compared, true)
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn share_figure(
    signal: &'static str,
    now: (i64, i64),
    before: Option<(i64, i64)>,
    compared: Option<((f64, f64), (f64, f64))>,
    more_is_better: bool,
) -> Option<SignalFigure> {
    let change = compared.and_then(|(now, before)| share_change(now, before, more_is_better));
    let worse_beyond = compared.filter(|_| change == Some(ChangeVerdict::WithinNoise));
    let share = |(some, all): (i64, i64)| (all > 0).then(|| some as f64 / all as f64);
    Some(SignalFigure {
        signal,
        statistic: "share",
        unit: "1",
        value: share(now)?,
        observations: now.1 as f64,
        estimated: false,
        before: before.and_then(share),
        change,
        worse_beyond: worse_beyond
            .and_then(|(now, before)| worse_beyond_share(now.1, before, more_is_better)),
    })
}

/// The columns of a row that are read.
pub(super) struct MetricRow {
    day: Date,
    pub(super) version: String,
    metric: String,
    pub(super) value: String,
    observations: f64,
    failed: f64,
    squares: f64,
    sampled: bool,
    sketch: Vec<u8>,
}

impl MetricRow {
    pub(super) fn metric(&self) -> Result<MetricName> {
        MetricName::parse(&self.metric)
            .ok_or_else(|| StoreError::corrupt("metric_days", "a metric that no program of ours knows"))
    }

    pub(super) fn sums(&self) -> Result<MetricSums> {
        let (observations, failed, squares) = (self.observations, self.failed, self.squares);
        Ok(MetricSums {
            observations,
            failed,
            squares,
            sampled: self.sampled,
            sketch: read_sketch(&self.sketch)?,
        })
    }
}

async fn seen_versions(tx: &mut TenantTx, app: &str, period: (Date, Date)) -> Result<Vec<String>> {
    let (from, to) = period;
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT r.version AS "version!" FROM (
             (SELECT version, sessions, 0::float8 AS observations FROM session_days
              WHERE tenant = $1 AND app = $2 AND day >= $3 AND day < $4 ORDER BY day DESC, version DESC LIMIT $5)
             UNION ALL
             (SELECT version, 0, observations FROM metric_days
              WHERE tenant = $1 AND app = $2 AND day >= $3 AND day < $4 AND dimension = ''
              ORDER BY day DESC, version DESC, metric DESC LIMIT $5)) r
         GROUP BY r.version ORDER BY sum(r.sessions) DESC, sum(r.observations) DESC, r.version LIMIT $6"#,
        tenant,
        app,
        from,
        to,
        MOST_ROWS,
        i64::try_from(MOST_VERSIONS).unwrap_or(i64::MAX)
    )
    .fetch_all(connection)
    .await?)
}

/// Passes the rows of a page to `each`, and yields to other tasks. Returns the last row if another page may
/// follow.
async fn hand_over(
    rows: Vec<MetricRow>,
    mut each: impl FnMut(&MetricRow) -> Result<()>,
) -> Result<Option<MetricRow>> {
    rows.iter().try_for_each(&mut each)?;
    tokio::task::yield_now().await;
    let full = i64::try_from(rows.len()).is_ok_and(|rows| rows == PAGE_ROWS);
    Ok(rows.into_iter().next_back().filter(|_| full))
}

/// Passes the rows to `each` page by page, each page read from the row `after` on. Returns the last day that
/// was read if there are more rows than are read.
macro_rules! by_pages {
    ($each:ident, |$after:ident| $page:block) => {{
        let mut last: Option<MetricRow> = None;
        for _ in 0..MOST_ROWS / PAGE_ROWS {
            let $after = last.as_ref();
            last = hand_over($page, &mut $each).await?;
            if last.is_none() {
                return Ok(None);
            }
        }
        Ok(last.map(|row| row.day))
    }};
}

/// Passes the rows of all values together to `each`, the newest day first, a page at a time. Returns the last
/// day that was read if there are more rows than are read.
async fn read_whole(
    tx: &mut TenantTx,
    app: &str,
    versions: &[String],
    period: (Date, Date),
    mut each: impl FnMut(&MetricRow) -> Result<()>,
) -> Result<Option<Date>> {
    let (from, to) = period;
    by_pages!(each, |after| {
        let (connection, tenant, _) = tx.parts();
        sqlx::query_as!(
            MetricRow,
            "SELECT day, version, metric, value, observations, failed, squares, sampled, sketch FROM metric_days
             WHERE tenant = $1 AND app = $2 AND day >= $3 AND day < $4 AND dimension = '' AND version = ANY($5)
               AND ($6::date IS NULL OR (day, version, metric) < ($6, $7::text, $8::text))
             ORDER BY day DESC, version DESC, metric DESC LIMIT $9",
            tenant,
            app,
            from,
            to,
            versions,
            after.map(|row| row.day),
            after.map(|row| &*row.version),
            after.map(|row| &*row.metric),
            PAGE_ROWS
        )
        .fetch_all(connection)
        .await?
    })
}

/// Does the same for the values of a dimension of requests.
pub(super) async fn read_dimension(
    tx: &mut TenantTx,
    app: &str,
    dimension: MetricDimension,
    period: (Date, Date),
    mut each: impl FnMut(&MetricRow) -> Result<()>,
) -> Result<Option<Date>> {
    let (from, to) = period;
    by_pages!(each, |after| {
        let (connection, tenant, _) = tx.parts();
        sqlx::query_as!(
            MetricRow,
            "SELECT day, version, metric, value, observations, failed, squares, sampled, sketch FROM metric_days
             WHERE tenant = $1 AND app = $2 AND day >= $3 AND day < $4 AND dimension = $10
               AND dimension IN ('connection', 'endpoint', 'host', 'protocol', 'result')
               AND ($5::date IS NULL OR (day, version, value, metric) < ($5, $6::text, $7::text, $8::text))
             ORDER BY day DESC, version DESC, value DESC, metric DESC LIMIT $9",
            tenant,
            app,
            from,
            to,
            after.map(|row| row.day),
            after.map(|row| &*row.version),
            after.map(|row| &*row.value),
            after.map(|row| &*row.metric),
            PAGE_ROWS,
            dimension.as_str()
        )
        .fetch_all(connection)
        .await?
    })
}

/// Does the same for the single values of one version in a dimension, by the table's key; of one metric, if
/// it is named.
pub(super) async fn read_values(
    tx: &mut TenantTx,
    app: &str,
    version: &str,
    dimension: MetricDimension,
    metric: Option<MetricName>,
    period: (Date, Date),
    mut each: impl FnMut(&MetricRow) -> Result<()>,
) -> Result<Option<Date>> {
    let (from, to) = period;
    by_pages!(each, |after| {
        let (connection, tenant, _) = tx.parts();
        sqlx::query_as!(
            MetricRow,
            "SELECT day, version, metric, value, observations, failed, squares, sampled, sketch FROM metric_days
             WHERE tenant = $1 AND app = $2 AND version = $5 AND day >= $3 AND day < $4 AND dimension = $6
               AND ($7::text IS NULL OR metric = $7)
               AND ($8::date IS NULL OR (day, value, metric) < ($8, $9::text, $10::text))
             ORDER BY day DESC, value DESC, metric DESC LIMIT $11",
            tenant,
            app,
            from,
            to,
            version,
            dimension.as_str(),
            metric.map(MetricName::as_str),
            after.map(|row| row.day),
            after.map(|row| &*row.value),
            after.map(|row| &*row.metric),
            PAGE_ROWS
        )
        .fetch_all(connection)
        .await?
    })
}

//! Figures of an app's requests by one of their dimensions, such as by host or by endpoint.

use super::comparison::MetricSums;
use super::signals::{MetricRow, MetricsOfVersion, read_dimension, read_values};
use crate::store::metrics::{MetricDimension, OTHER};
use serde::Serialize;
use std::collections::BTreeMap;
use time::Date;
use unslide_health_formats::{MetricName, WEIGHT_UNIT, find_error_name};
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

/// Values of each dimension that [`compare_app_requests`] lists: those with the most requests.
pub const MOST_HOSTS: usize = 200;
/// Rows that a list of one dimension has at most.
pub const MOST_LISTED: usize = 1_000;

/// Figures of the requests of an app to one host.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct HostFigures {
    /// The host; `(other)` for those beyond 200 of a version and day.
    #[schema(example = "api.example.com")]
    pub host: String,
    /// Requests. What was sampled counts as many as it stands for.
    pub requests: f64,
    /// True where `requests` is an estimate: some of them were sampled.
    pub estimated: bool,
    /// The share of them that failed, 0 to 1.
    pub failed: f64,
    /// The times and sizes that were measured.
    #[schema(max_items = 9)]
    pub phases: Vec<PhaseFigures>,
}

/// One phase of requests, or their size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct PhaseFigures {
    /// `request_wait`, `request_dns`, `request_connect`, `request_tls`, `request_first_byte` or `request_total`;
    /// `request_sent`, `request_received` or `request_redirects`.
    #[schema(example = "request_total")]
    pub phase: &'static str,
    /// `ms` of a phase, `B` of a size, `1` of redirects.
    #[schema(example = "ms")]
    pub unit: &'static str,
    /// The median, at most 1 % off.
    pub p50: f64,
    /// The value that 95 of 100 requests have at most, at most 1 % off.
    pub p95: f64,
    /// The bytes of all requests together, at most 1 % off; only of `request_sent` and `request_received`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<f64>,
}

/// Figures of the requests of an app with one value of a dimension, such as an endpoint or a result.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RequestFigures {
    /// The version of the app, if each version is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The host; the endpoint: method, host and template of the path; the status or the error code; the protocol; or a fact
    /// about the connection, such as `network cellular`. `(other)` for those beyond 200 of a version and day.
    #[schema(example = "GET api.example.com/orders/#")]
    pub value: String,
    /// The name of a known error code.
    #[schema(example = "NSURLErrorTimedOut")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Requests. A sampled one counts as many as it represents.
    pub requests: f64,
    /// True if `requests` is an estimate: some of them were sampled.
    pub estimated: bool,
    /// The share that failed, 0 to 1.
    pub failed: f64,
    /// The times and sizes that were measured.
    #[schema(max_items = 9)]
    pub phases: Vec<PhaseFigures>,
}

impl From<RequestFigures> for HostFigures {
    fn from(figures: RequestFigures) -> HostFigures {
        let RequestFigures { value: host, requests, estimated, failed, phases, .. } = figures;
        HostFigures { host, requests, estimated, failed, phases }
    }
}

/// Requests of a dimension that a list has not under their own values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct FoldedRequests {
    /// The dimension.
    #[schema(value_type = String, example = "endpoint")]
    pub by: MetricDimension,
    /// Requests that count as `(other)`, because their version had 200 values on that day. 0 if there are none.
    pub other: f64,
    /// Values with rows of their own that are not listed, because the list has as many as it can: those with the fewest
    /// requests.
    pub unlisted: usize,
}

/// The requests of a period that are read.
#[derive(Clone, Copy, Debug)]
pub struct RequestFilter<'f> {
    pub app: &'f str,
    /// The only version that counts; every version if absent.
    pub version: Option<&'f str>,
    /// The days that count, from the first up to the second, which is not part of them.
    pub period: (Date, Date),
}

/// The figures of the values of one dimension.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparedRequests {
    pub figures: Vec<RequestFigures>,
    /// `None` if every request is listed under its own value.
    pub folded: Option<FoldedRequests>,
    /// The first day that they are made of, if not all of the period was read.
    pub from: Option<Date>,
}

/// The requests of an app by each of their dimensions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppRequests {
    pub hosts: Vec<RequestFigures>,
    pub endpoints: Vec<RequestFigures>,
    pub results: Vec<RequestFigures>,
    pub protocols: Vec<RequestFigures>,
    pub connections: Vec<RequestFigures>,
    /// The dimensions with requests that are not listed under their own values.
    pub folded: Vec<FoldedRequests>,
    /// The first day that every list is made of, if not all of the period was read.
    pub from: Option<Date>,
}

/// Returns the requests of an app in a period by each of their dimensions.
pub async fn compare_app_requests(tx: &mut TenantTx, filter: RequestFilter<'_>) -> Result<AppRequests> {
    let mut requests = AppRequests::default();
    for dimension in MetricDimension::OF_REQUESTS {
        let found = compare_requests(tx, filter, dimension).await?;
        let list = match dimension {
            MetricDimension::Endpoint => &mut requests.endpoints,
            MetricDimension::RequestResult => &mut requests.results,
            MetricDimension::Protocol => &mut requests.protocols,
            MetricDimension::Connection => &mut requests.connections,
            _ => &mut requests.hosts,
        };
        *list = found.figures;
        requests.folded.extend(found.folded);
        requests.from = requests.from.max(found.from);
    }
    Ok(requests)
}

/// Returns the values of one dimension of an app's requests, those with the most requests first, at most [`MOST_HOSTS`].
pub async fn compare_requests(
    tx: &mut TenantTx,
    filter: RequestFilter<'_>,
    dimension: MetricDimension,
) -> Result<ComparedRequests> {
    let mut found: BTreeMap<String, MetricsOfVersion> = BTreeMap::new();
    let from = read_requests(tx, filter, dimension, |row| {
        let metrics = found.entry(row.value.clone()).or_default();
        metrics.entry(row.metric()?).or_default().merge(&row.sums()?);
        Ok(())
    })
    .await?;
    let figures = found.into_iter().map(|(value, metrics)| request_figures(None, value, &metrics));
    Ok(rank_requests(figures.collect(), dimension, MOST_HOSTS, from))
}

/// Returns the same of each version, at most [`MOST_LISTED`] rows.
pub async fn list_requests_by_version(
    tx: &mut TenantTx,
    filter: RequestFilter<'_>,
    dimension: MetricDimension,
) -> Result<ComparedRequests> {
    let mut found: BTreeMap<(String, String), MetricsOfVersion> = BTreeMap::new();
    let from = read_requests(tx, filter, dimension, |row| {
        let metrics = found.entry((row.version.clone(), row.value.clone())).or_default();
        metrics.entry(row.metric()?).or_default().merge(&row.sums()?);
        Ok(())
    })
    .await?;
    let figures = found
        .into_iter()
        .map(|((version, value), metrics)| request_figures(Some(version), value, &metrics))
        .collect();
    Ok(rank_requests(figures, dimension, MOST_LISTED, from))
}

/// Returns the hosts that an app's requests went to, those with the most requests first, at most [`MOST_HOSTS`].
pub async fn compare_hosts(tx: &mut TenantTx, filter: RequestFilter<'_>) -> Result<Vec<HostFigures>> {
    let found = compare_requests(tx, filter, MetricDimension::Host).await?;
    Ok(found.figures.into_iter().map(HostFigures::from).collect())
}

/// Puts those with the most requests first, of these those with the most failures, and counts what the list does not have.
fn rank_requests(
    mut figures: Vec<RequestFigures>,
    by: MetricDimension,
    limit: usize,
    from: Option<Date>,
) -> ComparedRequests {
    figures.sort_by(|a, b| {
        let by_requests = b.requests.total_cmp(&a.requests).then(b.failed.total_cmp(&a.failed));
        by_requests.then_with(|| (&a.value, &a.version).cmp(&(&b.value, &b.version)))
    });
    let other: f64 = figures.iter().filter(|row| row.value == OTHER).map(|row| row.requests).sum();
    let unlisted = figures.len().saturating_sub(limit);
    figures.truncate(limit);
    let folded = (other > 0.0 || unlisted > 0).then_some(FoldedRequests { by, other, unlisted });
    ComparedRequests { figures, folded, from }
}

fn request_figures(version: Option<String>, value: String, metrics: &MetricsOfVersion) -> RequestFigures {
    let total = metrics.get(&MetricName::Requests);
    let phases = metrics.iter().filter_map(|(phase, sums)| {
        let (p50, p95) = (sums.sketch.quantile(0.5)?, sums.sketch.quantile(0.95)?);
        let sum = sum_values(*phase, sums);
        Some(PhaseFigures { phase: phase.as_str(), unit: phase.unit().as_str(), p50, p95, sum })
    });
    RequestFigures {
        version,
        name: find_error_name(&value),
        value,
        requests: total.map_or(0.0, |sums| sums.observations),
        estimated: total.is_some_and(|sums| sums.sampled),
        failed: total.and_then(MetricSums::failed_share).unwrap_or(0.0),
        phases: phases.collect(),
    }
}

/// Returns the sum of a metric's values, each with its weight; `None` if they are not to be added up.
#[expect(clippy::cast_precision_loss, reason = "a thousand")]
pub(super) fn sum_values(metric: MetricName, sums: &MetricSums) -> Option<f64> {
    metric.has_sum().then(|| sums.sketch.sum() / WEIGHT_UNIT as f64)
}

/// Passes the rows of a dimension of requests to `each`. Returns the first day if not all of the period was read.
async fn read_requests(
    tx: &mut TenantTx,
    filter: RequestFilter<'_>,
    dimension: MetricDimension,
    each: impl FnMut(&MetricRow) -> Result<()>,
) -> Result<Option<Date>> {
    let RequestFilter { app, version, period } = filter;
    match version {
        Some(version) => read_values(tx, app, version, dimension, None, period, each).await,
        None => read_dimension(tx, app, dimension, period, each).await,
    }
}

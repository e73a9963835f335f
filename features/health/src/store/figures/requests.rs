//! Figures of an app's requests: by host, by endpoint, by result and by protocol.

use super::comparison::MetricSums;
use super::signals::{MetricRow, MetricsOfVersion, read_dimension, read_values};
use crate::store::metrics::MetricDimension;
use serde::Serialize;
use std::collections::BTreeMap;
use time::Date;
use unslide_health_formats::MetricName;
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

/// Hosts that are listed: those with the most requests.
pub const MOST_HOSTS: usize = 200;

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
}

/// The figures of the hosts of an app.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparedHosts {
    pub hosts: Vec<HostFigures>,
    /// The first day that they are made of, if not all of the period was read.
    pub from: Option<Date>,
}

/// Figures of the requests of an app with one endpoint, result or protocol.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RequestFigures {
    /// The endpoint: method, host and template of the path; the status or the error code; or the protocol. `(other)` for
    /// those beyond 200 of a version and day.
    #[schema(example = "GET api.example.com/orders/#")]
    pub value: String,
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

impl From<HostFigures> for RequestFigures {
    fn from(host: HostFigures) -> RequestFigures {
        let HostFigures { host: value, requests, estimated, failed, phases } = host;
        RequestFigures { value, requests, estimated, failed, phases }
    }
}

/// The figures of the values of one dimension.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparedRequests {
    pub figures: Vec<RequestFigures>,
    /// The first day that they are made of, if not all of the period was read.
    pub from: Option<Date>,
}

/// The requests of an app by each of their dimensions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppRequests {
    pub hosts: Vec<HostFigures>,
    pub endpoints: Vec<RequestFigures>,
    pub results: Vec<RequestFigures>,
    pub protocols: Vec<RequestFigures>,
    /// The first day that every list is made of, if not all of the period was read.
    pub from: Option<Date>,
}

/// Returns the requests of an app in a period by host, by endpoint, by result and by protocol.
pub async fn compare_app_requests(
    tx: &mut TenantTx,
    app: &str,
    version: Option<&str>,
    period: (Date, Date),
) -> Result<AppRequests> {
    let hosts = compare_hosts(tx, app, version, period).await?;
    let endpoints = compare_requests(tx, app, version, MetricDimension::Endpoint, period).await?;
    let results = compare_requests(tx, app, version, MetricDimension::RequestResult, period).await?;
    let protocols = compare_requests(tx, app, version, MetricDimension::Protocol, period).await?;
    Ok(AppRequests {
        from: [hosts.from, endpoints.from, results.from, protocols.from].into_iter().flatten().max(),
        hosts: hosts.hosts,
        endpoints: endpoints.figures,
        results: results.figures,
        protocols: protocols.figures,
    })
}

/// Returns the values of one dimension of an app's requests in a period, those with the most requests first, at most
/// [`MOST_HOSTS`].
pub async fn compare_requests(
    tx: &mut TenantTx,
    app: &str,
    version: Option<&str>,
    dimension: MetricDimension,
    period: (Date, Date),
) -> Result<ComparedRequests> {
    let (found, from) = read_requests(tx, app, version, dimension, period).await?;
    let figures =
        found.into_iter().map(|(value, metrics)| RequestFigures::from(host_figures(value, &metrics)));
    let mut figures: Vec<RequestFigures> = figures.collect();
    figures.sort_by(|a, b| b.requests.total_cmp(&a.requests).then_with(|| a.value.cmp(&b.value)));
    figures.truncate(MOST_HOSTS);
    Ok(ComparedRequests { figures, from })
}

/// Returns the hosts that an app's requests went to in a period, those with the most requests first, at most
/// [`MOST_HOSTS`].
pub async fn compare_hosts(
    tx: &mut TenantTx,
    app: &str,
    version: Option<&str>,
    period: (Date, Date),
) -> Result<ComparedHosts> {
    let (found, from) = read_requests(tx, app, version, MetricDimension::Host, period).await?;
    let mut hosts: Vec<HostFigures> =
        found.into_iter().map(|(host, metrics)| host_figures(host, &metrics)).collect();
    hosts.sort_by(|a, b| b.requests.total_cmp(&a.requests).then_with(|| a.host.cmp(&b.host)));
    hosts.truncate(MOST_HOSTS);
    Ok(ComparedHosts { hosts, from })
}

fn host_figures(host: String, metrics: &MetricsOfVersion) -> HostFigures {
    let total = metrics.get(&MetricName::Requests);
    let phases = metrics.iter().filter_map(|(phase, sums)| {
        let (p50, p95) = (sums.sketch.quantile(0.5)?, sums.sketch.quantile(0.95)?);
        Some(PhaseFigures { phase: phase.as_str(), unit: phase.unit().as_str(), p50, p95 })
    });
    HostFigures {
        host,
        requests: total.map_or(0.0, |sums| sums.observations),
        estimated: total.is_some_and(|sums| sums.sampled),
        failed: total.and_then(MetricSums::failed_share).unwrap_or(0.0),
        phases: phases.collect(),
    }
}

/// Returns the sums of each value of a dimension of requests, and the first day if not all of the period was read.
async fn read_requests(
    tx: &mut TenantTx,
    app: &str,
    version: Option<&str>,
    dimension: MetricDimension,
    period: (Date, Date),
) -> Result<(BTreeMap<String, MetricsOfVersion>, Option<Date>)> {
    let mut found: BTreeMap<String, MetricsOfVersion> = BTreeMap::new();
    let each = |row: &MetricRow| {
        let metrics = found.entry(row.value.clone()).or_default();
        metrics.entry(row.metric()?).or_default().merge(&row.sums()?);
        Ok(())
    };
    let from = match version {
        Some(version) => read_values(tx, app, version, dimension, None, period, each).await?,
        None => read_dimension(tx, app, dimension, period, each).await?,
    };
    Ok((found, from))
}

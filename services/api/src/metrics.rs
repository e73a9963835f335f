//! The service's metrics. Labels are route templates, methods and status classes; never ids, never
//! tenants.

use http::{Method, StatusCode};
use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};
use std::time::Duration;
use unslide_runtime::{MetricFactory, status_class};

const REQUEST_SECONDS_BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Metrics of requests, uploads and records.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: IntCounterVec,
    latency: HistogramVec,
    /// Requests that a tenant's own limit refused, by the limit.
    pub refused: IntCounterVec,
    /// Bytes of symbol uploads that reached object storage whole.
    pub upload_bytes: IntCounter,
    records: IntCounterVec,
    /// Requests for a stored report with a lost or damaged body.
    pub lost_bodies: IntCounter,
}

#[derive(Clone, Debug)]
pub struct ConnectionMetrics {
    pub open: IntGauge,
    /// Connections that were closed because their client received nothing.
    pub stalled: IntCounter,
    /// Connections that were closed to make room for others.
    pub evicted: IntCounter,
}

impl ConnectionMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub fn new(registry: &Registry) -> Result<ConnectionMetrics, prometheus::Error> {
        let make = MetricFactory(registry);
        let closed = make.register_counters(
            "unslide_api_closed_connections_total",
            "Connections closed because the client took no answer (stalled), or for others while they had no request or no key (evicted).",
            &["reason"],
        )?;
        Ok(ConnectionMetrics {
            open: make.register_gauge("unslide_api_connections", "Open connections of clients.")?,
            stalled: closed.with_label_values(&["stalled"]),
            evicted: closed.with_label_values(&["evicted"]),
        })
    }
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let (make, labels) = (MetricFactory(registry), ["method", "route", "status"]);
        Ok(Metrics {
            requests: make.register_counters(
                "unslide_api_requests_total",
                "Requests answered, by route template and status class.",
                &labels,
            )?,
            latency: make.register_histograms(
                "unslide_api_request_seconds",
                "From the request's head to the answer's head, by route template.",
                &REQUEST_SECONDS_BUCKETS,
                &labels[..2],
            )?,
            refused: make.register_counters(
                "unslide_api_refused_total",
                "Requests that a tenant's own limit refused.",
                &["limit"],
            )?,
            upload_bytes: make.register_counter(
                "unslide_api_upload_bytes_total",
                "Bytes of symbol uploads that reached object storage whole.",
            )?,
            records: make.register_counters(
                "unslide_api_records_total",
                "Reports and events of features that the broker has taken.",
                &["kind"],
            )?,
            lost_bodies: make.register_counter(
                "unslide_api_lost_bodies_total",
                "Requests for a stored report with a lost or damaged body.",
            )?,
        })
    }

    /// Counts reports that the broker has taken.
    pub fn count_reports(&self, number: usize) {
        self.records.with_label_values(&["reports"]).inc_by(number as u64);
    }

    /// Counts events of a kind that the broker has taken.
    pub fn events(&self, kind: &str, number: usize) {
        self.records.with_label_values(&[kind]).inc_by(number as u64);
    }

    /// Counts one answered request. `route` is the route's template, or `-` if none matches.
    pub fn count_request(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let class = status_class(status);
        // Any token is a method: unknown methods share a label.
        let method = match *method {
            Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::DELETE | Method::PATCH => {
                method.as_str()
            }
            _ => "other",
        };
        self.requests.with_label_values(&[method, route, class]).inc();
        self.latency.with_label_values(&[method, route]).observe(took.as_secs_f64());
    }
}

//! The service's metrics. Labels are route templates, methods and status classes; never ids, never
//! tenants.

use crate::state::Api;
use http::{Method, StatusCode};
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use std::time::Duration;
use unslide_runtime::sampled;

/// Registers the gauge of open connections.
///
/// # Errors
/// Where the registry has a metric of this name already.
pub fn connections(registry: &Registry) -> Result<IntGauge, prometheus::Error> {
    let open = IntGauge::new("unslide_api_connections", "Open connections of clients.")?;
    registry.register(Box::new(open.clone()))?;
    Ok(open)
}

/// Registers what the bounds of the api, its cache, object storage and the database hold.
///
/// # Errors
/// Where the registry has metrics of these names already.
pub fn watch(registry: &Registry, api: &Api) -> Result<(), prometheus::Error> {
    let of = api.clone();
    let family = ("unslide_api_in_work", "Requests and symbol uploads in work.");
    sampled::gauges(registry, family, "kind", move || {
        let (requests, uploads) = (of.load.available_permits(), of.receiving.available_permits());
        [
            ("requests", of.limits.requests.saturating_sub(requests) as u64),
            ("uploads", of.limits.uploads.saturating_sub(uploads) as u64),
        ]
    })?;
    let of = api.clone();
    let family = ("unslide_api_body_bytes", "Bytes of report bodies in memory, announced or received.");
    sampled::gauges(registry, family, "kind", move || {
        let held = crate::memory::room(&of.limits).saturating_sub(of.memory.available_permits());
        [("reports", (held as u64) << 10)]
    })?;
    let (cache, objects, store) = (&api.symcaches, &api.objects, &api.store);
    let of = cache.clone();
    let family = ("unslide_symcaches", "Symcaches on disk and in memory, and answers that there is none.");
    sampled::gauges(registry, family, "state", move || of.stats().by_state())?;
    let of = cache.clone();
    let family = ("unslide_symcaches_bytes", "Bytes of symcaches on disk, kept and being downloaded.");
    sampled::gauges(registry, family, "state", move || of.stats().bytes_by_state())?;
    let of = cache.clone();
    let family = ("unslide_symcaches_evicted_total", "What made room for others, by why it did.");
    sampled::counters(registry, family, "reason", move || of.stats().evicted_by_reason())?;
    let of = objects.clone();
    let family = ("unslide_objects_requests", "Requests to object storage that run, or wait for their turn.");
    sampled::gauges(registry, family, "state", move || of.stats().by_state())?;
    let of = objects.clone();
    let family = ("unslide_objects_requests_total", "Requests to object storage, by their end.");
    sampled::counters(registry, family, "end", move || of.stats().by_end())?;
    let of = store.clone();
    let family = ("unslide_postgres_connections", "Connections to the database, all and those not in use.");
    sampled::gauges(registry, family, "state", move || of.connections())
}

/// What the api counts.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: IntCounterVec,
    latency: HistogramVec,
    /// Requests that a tenant's own limit refused, by the limit.
    pub refused: IntCounterVec,
    /// Bytes of symbol uploads that reached object storage whole.
    pub upload_bytes: IntCounter,
    /// Reports that the broker has taken.
    pub reports: IntCounter,
    /// Bytes of those reports.
    pub report_bytes: IntCounter,
    /// Requests for a stored report whose body is lost or damaged.
    pub lost_bodies: IntCounter,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Where the registry has metrics of these names already.
    pub fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let labels = ["method", "route", "status"];
        let metrics = Metrics {
            requests: IntCounterVec::new(
                Opts::new(
                    "unslide_api_requests_total",
                    "Requests answered, by route template and status class.",
                ),
                &labels,
            )?,
            latency: HistogramVec::new(
                HistogramOpts::new(
                    "unslide_api_request_seconds",
                    "From the request's head to the answer's head, by route template.",
                )
                .buckets(vec![
                    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
                ]),
                &labels[..2],
            )?,
            refused: IntCounterVec::new(
                Opts::new("unslide_api_refused_total", "Requests that a tenant's own limit refused."),
                &["limit"],
            )?,
            upload_bytes: IntCounter::new(
                "unslide_api_upload_bytes_total",
                "Bytes of symbol uploads that reached object storage whole.",
            )?,
            reports: IntCounter::new("unslide_api_reports_total", "Reports that the broker has taken.")?,
            report_bytes: IntCounter::new(
                "unslide_api_report_bytes_total",
                "Bytes of the reports that the broker has taken, uncompressed.",
            )?,
            lost_bodies: IntCounter::new(
                "unslide_api_lost_bodies_total",
                "Requests for a stored report whose body is lost or damaged.",
            )?,
        };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.latency.clone()))?;
        registry.register(Box::new(metrics.refused.clone()))?;
        registry.register(Box::new(metrics.upload_bytes.clone()))?;
        registry.register(Box::new(metrics.reports.clone()))?;
        registry.register(Box::new(metrics.report_bytes.clone()))?;
        registry.register(Box::new(metrics.lost_bodies.clone()))?;
        Ok(metrics)
    }

    /// Counts one answered request. `route` is the route's template, `-` where none fits.
    pub fn answered(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let class = match status.as_u16() / 100 {
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            5 => "5xx",
            _ => "1xx",
        };
        // Any token is a method: unknown ones share a label.
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

//! The service's metrics. Labels are route templates, methods and status classes; never ids, never
//! tenants.

use crate::permits::Resource;
use crate::state::Api;
use http::{Method, StatusCode};
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use std::time::Duration;
use unslide_artifacts::{ObjectStore, SymcacheCache};
use unslide_model::Figures;
use unslide_runtime::sampled;
use unslide_store::Store;
use unslide_stream::Producer;

/// Registers the gauge of open connections, and the counter of those that were closed because their
/// client took nothing.
///
/// # Errors
/// Where the registry has metrics of these names already.
pub fn connections(registry: &Registry) -> Result<(IntGauge, IntCounter), prometheus::Error> {
    let open = IntGauge::new("unslide_api_connections", "Open connections of clients.")?;
    let stalled = IntCounter::new(
        "unslide_api_stalled_connections_total",
        "Connections that were closed because the client did not take its answer.",
    )?;
    registry.register(Box::new(open.clone()))?;
    registry.register(Box::new(stalled.clone()))?;
    Ok((open, stalled))
}

/// What the api says of its own bounds.
const FIGURES: [Figures<Api>; 3] = [
    Figures {
        name: "unslide_api_in_work",
        help: "Requests, symbol uploads and readers of dead letters in work, and requests that wait.",
        label: "kind",
        read: |api| {
            let letters = api.limits.letters.saturating_sub(api.letters.available_permits());
            vec![
                ("requests", api.permits.held(Resource::Requests)),
                ("waits", api.permits.held(Resource::Waits)),
                ("uploads", api.permits.held(Resource::Uploads)),
                ("letters", letters as u64),
            ]
        },
    },
    Figures {
        name: "unslide_api_turns",
        help: "Requests that wait until others of their tenant are done with what they want.",
        label: "kind",
        read: |api| {
            let waiting = |of: Resource| (of.name(), api.permits.waiting(of));
            vec![waiting(Resource::Downloads), waiting(Resource::Connections), waiting(Resource::Letters)]
        },
    },
    Figures {
        name: "unslide_api_body_bytes",
        help: "Bytes of bodies in memory, announced, received or unpacked, and of answers.",
        label: "kind",
        read: |api| {
            let held = |of: Resource| crate::memory::held(&api.permits, of);
            vec![("reports", held(Resource::Bodies)), ("answers", held(Resource::Answers))]
        },
    },
];

/// Registers what the bounds of the api, its cache, object storage and the database hold.
///
/// # Errors
/// Where the registry has metrics of these names already.
pub fn watch(registry: &Registry, api: &Api) -> Result<(), prometheus::Error> {
    sampled::watch(registry, api, &FIGURES)?;
    sampled::watch(registry, &api.symcaches, &SymcacheCache::FIGURES)?;
    sampled::watch(registry, &api.objects, &ObjectStore::FIGURES)?;
    sampled::watch(registry, &api.store, &Store::FIGURES)?;
    sampled::watch(registry, &api.producer, &Producer::FIGURES)
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

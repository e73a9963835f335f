//! The service's metrics. Labels are route templates, methods and status classes; never ids, never
//! tenants.

use http::{Method, StatusCode};
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};
use std::time::Duration;

/// What the api counts.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: IntCounterVec,
    latency: HistogramVec,
    /// Bytes of symbol uploads that reached object storage whole.
    pub upload_bytes: IntCounter,
    /// Reports that the broker has taken.
    pub reports: IntCounter,
    /// Bytes of those reports.
    pub report_bytes: IntCounter,
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
            upload_bytes: IntCounter::new(
                "unslide_api_upload_bytes_total",
                "Bytes of symbol uploads that reached object storage whole.",
            )?,
            reports: IntCounter::new("unslide_api_reports_total", "Reports that the broker has taken.")?,
            report_bytes: IntCounter::new(
                "unslide_api_report_bytes_total",
                "Bytes of the reports that the broker has taken, uncompressed.",
            )?,
        };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.latency.clone()))?;
        registry.register(Box::new(metrics.upload_bytes.clone()))?;
        registry.register(Box::new(metrics.reports.clone()))?;
        registry.register(Box::new(metrics.report_bytes.clone()))?;
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

//! Metrics of the door. Labels are cells, status classes and reasons; never tenants.

use http::StatusCode;
use prometheus::{GaugeVec, Histogram, IntCounterVec, IntGauge, Registry};
use unslide_runtime::{MetricFactory, status_class};

const ASK_SECONDS_BUCKETS: [f64; 9] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0];

/// Metrics of connections, requests, callers and the directory.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub connections: IntGauge,
    requests: IntCounterVec,
    refused: IntCounterVec,
    callers: IntCounterVec,
    /// Time to find the caller of a request that the door does not remember.
    pub ask_seconds: Histogram,
    cells: GaugeVec,
    /// Seconds since the directory was read last.
    pub directory_age: GaugeVec,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let make = MetricFactory(registry);
        Ok(Metrics {
            connections: make.register_gauge("unslide_door_connections", "Open connections of clients.")?,
            requests: make.register_counters(
                "unslide_door_requests_total",
                "Requests passed on, by cell and status class.",
                &["cell", "status"],
            )?,
            refused: make.register_counters(
                "unslide_door_refused_total",
                "Requests that the door did not pass on, and connections that it closed at once, by reason.",
                &["reason"],
            )?,
            callers: make.register_counters(
                "unslide_door_callers_total",
                "How the door found the tenant of a request: remembered, asked, for anyone, unknown, or silent cells.",
                &["found"],
            )?,
            ask_seconds: make.register_histogram(
                "unslide_door_ask_seconds",
                "Time to ask the cells for the tenant of a request.",
                &ASK_SECONDS_BUCKETS,
            )?,
            cells: make.register_float_gauges(
                "unslide_door_cell_up",
                "1 if the cell answers questions of the door, 0 if not.",
                &["cell"],
            )?,
            directory_age: make.register_float_gauges(
                "unslide_door_directory_age_seconds",
                "Time since the directory of cells was read.",
                &[],
            )?,
        })
    }

    /// Counts a request that was passed on.
    pub fn count_request(&self, cell: &str, status: StatusCode) {
        self.requests.with_label_values(&[cell, status_class(status)]).inc();
    }

    /// Counts a request or a connection that was refused.
    pub fn count_refused(&self, reason: &str) {
        self.refused.with_label_values(&[reason]).inc();
    }

    /// Counts how the tenant of a request was found.
    pub fn count_caller(&self, found: &str) {
        self.callers.with_label_values(&[found]).inc();
    }

    /// Records whether a cell answers.
    pub fn set_cell(&self, cell: &str, is_up: bool) {
        self.cells.with_label_values(&[cell]).set(f64::from(u8::from(is_up)));
    }

    /// Forgets a cell that is no longer in the directory.
    pub fn forget_cell(&self, cell: &str) {
        let _ = self.cells.remove_label_values(&[cell]);
    }
}

//! The builder's metrics.

use prometheus::{Error, Gauge, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use unslide_runtime::MetricFactory;

const JOB_SECONDS_BUCKETS: [f64; 10] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];

#[derive(Clone)]
pub(crate) struct Metrics {
    /// Jobs that ended, by kind and outcome (`done`, `failed`, `again`, `put_off`, `lost`).
    pub(crate) jobs: IntCounterVec,
    /// Duration of a job, by kind.
    pub(crate) job_seconds: HistogramVec,
    /// Jobs that run in this process, by kind.
    pub(crate) running: IntGaugeVec,
    /// Jobs that have not ended, by kind and status.
    pub(crate) waiting: IntGaugeVec,
    /// How long the oldest job that is due has waited, by kind, in seconds.
    pub(crate) oldest: IntGaugeVec,
    /// Jobs that may not be given up and make no progress, by kind.
    pub(crate) stalled: IntGaugeVec,
    /// Waits for symbols that exist but were not requested, as of the last search.
    pub(crate) missed_wakes: IntGauge,
    /// Outbox messages that cannot be sent and are kept.
    pub(crate) set_aside: IntGauge,
    /// Objects to rebuild, by outcome (`built`, `rejected`, `gone`).
    pub(crate) backfilled: IntCounterVec,
    /// Builds of derived objects, by name and outcome (`built`, `empty`, `failed`).
    pub(crate) derived: IntCounterVec,
    /// Age of the oldest unsent outbox message when last read, in seconds.
    pub(crate) relay_lag: Gauge,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> Result<Metrics, Error> {
        let make = MetricFactory(registry);
        let relay_lag =
            Gauge::new("unslide_builder_relay_lag_seconds", "Age of the oldest unsent outbox message.")?;
        registry.register(Box::new(relay_lag.clone()))?;
        Ok(Metrics {
            jobs: make.register_counters(
                "unslide_builder_jobs_total",
                "Jobs that ended, by outcome.",
                &["kind", "outcome"],
            )?,
            job_seconds: make.register_histograms(
                "unslide_builder_job_seconds",
                "How long a job took.",
                &JOB_SECONDS_BUCKETS,
                &["kind"],
            )?,
            running: make.register_gauges(
                "unslide_builder_jobs_running",
                "Jobs that run in this process.",
                &["kind"],
            )?,
            waiting: make.register_gauges(
                "unslide_builder_jobs_waiting",
                "Jobs that are not over.",
                &["kind", "status"],
            )?,
            oldest: make.register_gauges(
                "unslide_builder_oldest_job_seconds",
                "How long the oldest job that is due has waited for a builder; 0 without one.",
                &["kind"],
            )?,
            stalled: make.register_gauges(
                "unslide_builder_stalled_jobs",
                "Jobs that builders died with again and again, or that have failed for an hour.",
                &["kind"],
            )?,
            missed_wakes: make.register_gauge(
                "unslide_builder_missed_wakes",
                "Waits for symbols that are ready but were never requested, at the last check.",
            )?,
            set_aside: make.register_gauge(
                "unslide_builder_set_aside_messages",
                "Outbox messages that cannot be sent and are kept.",
            )?,
            backfilled: make.register_counters(
                "unslide_builder_backfilled_total",
                "Rebuilds of symcaches after a change of the format, by their result.",
                &["status"],
            )?,
            derived: make.register_counters(
                "unslide_builder_derived_total",
                "Builds of what analyses read beside symcaches, by their result.",
                &["object", "status"],
            )?,
            relay_lag,
        })
    }
}

//! The builder's metrics.

use crate::work_folder::WorkFolder;
use crate::worker::Builder;
use prometheus::{
    Error, Gauge, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};
use unslide_artifacts::ObjectStore;
use unslide_runtime::sampled;
use unslide_store::Store;
use unslide_stream::Producer;

/// Registers what the work folder and the clients of the servers say of their bounds.
///
/// # Errors
/// Where the registry has metrics of these names already.
pub(crate) fn watch(registry: &Registry, builder: &Builder) -> Result<(), Error> {
    sampled::watch(registry, &builder.objects, &ObjectStore::FIGURES)?;
    sampled::watch(registry, &builder.store, &Store::FIGURES)?;
    sampled::watch(registry, &builder.producer, &Producer::FIGURES)?;
    sampled::watch(registry, &builder.work, &WorkFolder::FIGURES)
}

#[derive(Clone)]
pub(crate) struct Metrics {
    /// Jobs that ended, by kind and outcome (`done`, `failed`, `again`, `put_off`, `lost`).
    pub(crate) jobs: IntCounterVec,
    /// How long a job took, by kind.
    pub(crate) job_seconds: HistogramVec,
    /// Jobs in work in this process, by kind.
    pub(crate) running: IntGaugeVec,
    /// Jobs that are not over, by kind and status.
    pub(crate) waiting: IntGaugeVec,
    /// Objects by what became of them.
    pub(crate) objects: IntCounterVec,
    /// Objects that were to be built anew, by what became of them (`built`, `rejected`, `gone`).
    pub(crate) backfilled: IntCounterVec,
    /// How long the building of one symcache took.
    pub(crate) build_seconds: HistogramVec,
    /// Bytes of symcaches that were built.
    pub(crate) symcache_bytes: IntCounter,
    /// Bytes of objects that symcaches were built from.
    pub(crate) object_bytes: IntCounter,
    /// Reports asked for again because their symbols came.
    pub(crate) woken: IntCounter,
    /// Reports asked for again because somebody wanted them.
    pub(crate) reprocessed: IntCounter,
    /// Reports asked for again because their symbols could not be fetched.
    pub(crate) retried: IntCounter,
    /// Uploads given up because their bytes never came to their end.
    pub(crate) abandoned: IntCounter,
    /// Outbox messages sent, by kind.
    pub(crate) relayed: IntCounterVec,
    /// Outbox messages that could not be sent at a try.
    pub(crate) relay_failures: IntCounter,
    /// Age of the oldest unsent outbox message at the last look, in seconds.
    pub(crate) relay_lag: Gauge,
    /// 1 where this process is the relay.
    pub(crate) relaying: IntGauge,
    /// Requests that nobody answered in time and that were sent again.
    pub(crate) resent: IntCounter,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> Result<Metrics, Error> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(format!("unslide_builder_{name}"), help), labels)
        };
        let counter = |name: &str, help: &str| IntCounter::new(format!("unslide_builder_{name}"), help);
        let gauge = |name: &str, help: &str| IntGauge::new(format!("unslide_builder_{name}"), help);
        let seconds = |name: &str, help: &str, labels: &[&str]| {
            let buckets = vec![0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];
            let options = HistogramOpts::new(format!("unslide_builder_{name}"), help).buckets(buckets);
            HistogramVec::new(options, labels)
        };
        let metrics = Metrics {
            jobs: counters("jobs_total", "Jobs that ended, by outcome.", &["kind", "outcome"])?,
            job_seconds: seconds("job_seconds", "How long a job took.", &["kind"])?,
            running: IntGaugeVec::new(
                Opts::new("unslide_builder_jobs_running", "Jobs in work in this process."),
                &["kind"],
            )?,
            waiting: IntGaugeVec::new(
                Opts::new("unslide_builder_jobs_waiting", "Jobs that are not over."),
                &["kind", "status"],
            )?,
            objects: counters("objects_total", "Objects by what became of them.", &["status"])?,
            backfilled: counters("backfilled_total", "Objects to be built anew, by their end.", &["status"])?,
            build_seconds: seconds("symcache_build_seconds", "How long a symcache was built.", &["kind"])?,
            symcache_bytes: counter("symcache_bytes_total", "Bytes of symcaches that were built.")?,
            object_bytes: counter("object_bytes_total", "Bytes of objects that were read.")?,
            woken: counter("woken_reports_total", "Reports asked for again because symbols came.")?,
            reprocessed: counter("reprocessed_reports_total", "Reports asked for again on demand.")?,
            retried: counter(
                "retried_reports_total",
                "Reports asked for again because their symbols could not be fetched.",
            )?,
            abandoned: counter("abandoned_uploads_total", "Uploads whose bytes never came to their end.")?,
            relayed: counters("relayed_total", "Outbox messages sent to Kafka.", &["kind"])?,
            relay_failures: counter("relay_failures_total", "Outbox batches that could not be sent.")?,
            relay_lag: Gauge::new(
                "unslide_builder_relay_lag_seconds",
                "Age of the oldest unsent outbox message.",
            )?,
            relaying: gauge("relaying", "1 where this process sends the outbox.")?,
            resent: counter("resent_requests_total", "Unanswered requests that were sent again.")?,
        };
        registry.register(Box::new(metrics.jobs.clone()))?;
        registry.register(Box::new(metrics.job_seconds.clone()))?;
        registry.register(Box::new(metrics.running.clone()))?;
        registry.register(Box::new(metrics.waiting.clone()))?;
        registry.register(Box::new(metrics.objects.clone()))?;
        registry.register(Box::new(metrics.backfilled.clone()))?;
        registry.register(Box::new(metrics.build_seconds.clone()))?;
        registry.register(Box::new(metrics.symcache_bytes.clone()))?;
        registry.register(Box::new(metrics.object_bytes.clone()))?;
        registry.register(Box::new(metrics.woken.clone()))?;
        registry.register(Box::new(metrics.reprocessed.clone()))?;
        registry.register(Box::new(metrics.retried.clone()))?;
        registry.register(Box::new(metrics.abandoned.clone()))?;
        registry.register(Box::new(metrics.relayed.clone()))?;
        registry.register(Box::new(metrics.relay_failures.clone()))?;
        registry.register(Box::new(metrics.relay_lag.clone()))?;
        registry.register(Box::new(metrics.relaying.clone()))?;
        registry.register(Box::new(metrics.resent.clone()))?;
        Ok(metrics)
    }
}

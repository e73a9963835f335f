//! The service's metrics.

use crate::account::outcome_name;
use crate::symbols::Symbols;
use crate::tenants::Tenants;
use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry,
};
use std::sync::Arc;
use unslide_artifacts::{ObjectStore, SymcacheCache};
use unslide_proto::headers;
use unslide_runtime::sampled;
use unslide_stream::Record;
use unslide_stream::lane::{Done, Observer, TransactionEnd};
use unslide_symbolicate::Enriched;

/// What the symbolizer counts.
#[derive(Clone, Debug)]
pub struct Metrics {
    records: IntCounterVec,
    outcomes: IntCounterVec,
    reasons: IntCounterVec,
    bodies: IntCounter,
    body_bytes: IntCounter,
    fetches: prometheus::IntGauge,
    breaker_open: prometheus::IntGauge,
    breaker_openings: IntCounter,
    buckets: IntGaugeVec,
    tenant_config_age: prometheus::IntGauge,
    lacking_outputs: prometheus::IntGauge,
    frames: IntCounterVec,
    latency: Histogram,
    transactions: IntCounterVec,
    transaction_seconds: HistogramVec,
    in_flight: IntGaugeVec,
    fetched: IntGaugeVec,
    produced: IntGaugeVec,
    lag: IntGaugeVec,
    open: IntGaugeVec,
    partitions: IntGaugeVec,
    symcaches: IntGaugeVec,
    symcache_bytes: prometheus::IntGauge,
    symcache_fetches: IntCounter,
    symcache_failures: IntCounter,
    symcache_hits: IntCounter,
    symcache_evictions: IntCounter,
}

/// Registers what the cache and object storage say of their bounds.
///
/// # Errors
/// Where the registry has metrics of these names already.
pub fn watch(
    registry: &Registry,
    cache: &SymcacheCache,
    objects: &ObjectStore,
) -> Result<(), prometheus::Error> {
    sampled::watch(registry, cache, &SymcacheCache::FIGURES)?;
    sampled::watch(registry, objects, &ObjectStore::FIGURES)
}

fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    made: prometheus::Result<C>,
) -> prometheus::Result<C> {
    let made = made?;
    registry.register(Box::new(made.clone()))?;
    Ok(made)
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Where the registry has metrics of these names already.
    pub fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let name = |name: &str| format!("unslide_symbolizer_{name}");
        let counter = |n: &str, help: &str| registered(registry, IntCounter::new(name(n), help));
        let gauge = |n: &str, help: &str| registered(registry, prometheus::IntGauge::new(name(n), help));
        let counters = |n: &str, help: &str, labels: &[&str]| {
            registered(registry, IntCounterVec::new(Opts::new(name(n), help), labels))
        };
        let gauges = |n: &str, help: &str, label: &str| {
            registered(registry, IntGaugeVec::new(Opts::new(name(n), help), &[label]))
        };
        let seconds = vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0];
        let latency = HistogramOpts::new(
            name("latency_seconds"),
            "From a record's arrival at the broker to the commit of its outcome, live lane.",
        );
        let transaction =
            HistogramOpts::new(name("transaction_seconds"), "From begin to end of a transaction.");
        Ok(Metrics {
            records: counters("records_total", "Input records of committed transactions.", &["lane"])?,
            outcomes: counters("outcomes_total", "Committed outcomes.", &["lane", "outcome"])?,
            reasons: counters(
                "reasons_total",
                "Committed dead letters and copies for retry and overflow, by their reason.",
                &["lane", "reason"],
            )?,
            bodies: counter("bodies_total", "Outputs too large for their topic, stored as objects.")?,
            body_bytes: counter("body_bytes_total", "Bytes of outputs stored as objects.")?,
            fetches: gauge("fetches", "Fetches of symcaches under way, waited for or not.")?,
            breaker_open: gauge("breaker_open", "1 while object storage fails and nothing is fetched.")?,
            breaker_openings: counter("breaker_openings_total", "How often the circuit breaker opened.")?,
            buckets: gauges("tenant_buckets", "Tenants whose rate is counted.", "lane")?,
            tenant_config_age: gauge(
                "tenant_config_age_seconds",
                "Age of what is known of the tenants: since the table was last read to its end.",
            )?,
            lacking_outputs: gauge(
                "topics_without_output",
                "Inputs of single tenants that are not read because they have no output.",
            )?,
            frames: counters("frames_total", "Frames answered, by status.", &["status"])?,
            latency: registered(registry, Histogram::with_opts(latency.buckets(seconds.clone())))?,
            transactions: counters("transactions_total", "Transactions by their end.", &["lane", "end"])?,
            transaction_seconds: registered(
                registry,
                HistogramVec::new(transaction.buckets(seconds), &["lane"]),
            )?,
            in_flight: gauges("in_flight_bytes", "Input held between poll and commit.", "lane")?,
            fetched: gauges("fetched_bytes", "Input fetched from the brokers and not yet polled.", "lane")?,
            produced: gauges("produced_bytes", "Outputs sent to the brokers and not acknowledged.", "lane")?,
            lag: gauges("lag_records", "Records of assigned partitions that wait.", "lane")?,
            open: gauges("open_offsets", "Offsets that open transactions hold back.", "lane")?,
            partitions: gauges("partitions", "Partitions assigned to this worker.", "lane")?,
            symcaches: gauges("symcaches", "Debug ids that the cache knows of, by what it knows.", "state")?,
            symcache_bytes: gauge("symcache_bytes", "Bytes of symcaches on disk.")?,
            symcache_fetches: counter("symcache_fetches_total", "Requests to object storage.")?,
            symcache_failures: counter("symcache_failures_total", "Requests to object storage that failed.")?,
            symcache_hits: counter("symcache_hits_total", "Answers that needed no request.")?,
            symcache_evictions: counter("symcache_evictions_total", "Symcaches that made room for others.")?,
        })
    }

    /// A report was answered; whether it counts is decided by the commit.
    pub fn symbolicated(&self, enriched: &Enriched) {
        let counts = &enriched.frames;
        for (status, count) in [
            ("symbolicated", counts.symbolicated),
            ("device", counts.device),
            ("missing_symbol", counts.missing_symbol),
            ("unknown_image", counts.unknown_image),
            ("missing", counts.missing),
            ("malformed", counts.malformed),
            ("unsupported", counts.unsupported),
            ("fetching_failed", counts.fetching_failed),
            ("invalid_address", counts.invalid_address),
        ] {
            if count > 0 {
                self.frames.with_label_values(&[status]).inc_by(count);
            }
        }
    }

    /// A transaction was committed.
    pub fn committed(&self, lane: &'static str, records: &[&Record], done: &[&Done], now_micros: i64) {
        self.records.with_label_values(&[lane]).inc_by(records.len() as u64);
        for (_, outcome) in done.iter().flat_map(|d| &d.outcomes) {
            self.outcomes.with_label_values(&[lane, outcome_name(*outcome)]).inc();
        }
        for output in done.iter().flat_map(|d| &d.outputs) {
            if let Some(reason) = output.headers.text(headers::REASON) {
                self.reasons.with_label_values(&[lane, reason]).inc();
            }
        }
        if lane == crate::live::NAME {
            for millis in records.iter().filter_map(|r| r.time_millis) {
                let micros = (now_micros - millis.saturating_mul(1_000)).max(0);
                self.latency.observe(micros as f64 / 1e6);
            }
        }
    }

    /// A body was stored as an object.
    pub fn body_stored(&self, bytes: usize) {
        self.bodies.inc();
        self.body_bytes.inc_by(bytes as u64);
    }

    /// Takes the figures of what the lanes share over.
    pub fn refresh_shared(&self, symbols: &Symbols, tenants: &Tenants, now_micros: i64) {
        let gauge = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        self.fetches.set(gauge(symbols.under_way()));
        let breaker = symbols.breaker();
        self.breaker_open.set(i64::from(breaker.is_open()));
        let openings = &self.breaker_openings;
        openings.inc_by(breaker.opened().saturating_sub(openings.get()));
        if let Some(read) = tenants.read_through_micros() {
            self.tenant_config_age.set((now_micros - read).max(0) / 1_000_000);
        }
    }

    /// So many tenants' rates are counted on a lane.
    pub fn buckets(&self, lane: &str, buckets: usize) {
        self.buckets.with_label_values(&[lane]).set(i64::try_from(buckets).unwrap_or(i64::MAX));
    }

    /// So many inputs of tenants have no output.
    pub fn lacking_outputs(&self, inputs: usize) {
        self.lacking_outputs.set(i64::try_from(inputs).unwrap_or(i64::MAX));
    }

    /// Takes the figures of the cache over.
    pub fn refresh(&self, cache: &SymcacheCache) {
        let gauge = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let stats = cache.stats();
        self.symcaches.with_label_values(&["found"]).set(gauge(stats.entries()));
        self.symcaches.with_label_values(&["missing"]).set(gauge(stats.missing));
        self.symcache_bytes.set(gauge(stats.bytes));
        for (counter, total) in [
            (&self.symcache_fetches, stats.fetches),
            (&self.symcache_failures, stats.failures),
            (&self.symcache_hits, stats.hits),
            (&self.symcache_evictions, stats.evictions.all()),
        ] {
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }

    /// The figures of one lane.
    pub fn lane(&self, lane: &'static str) -> Arc<dyn Observer> {
        Arc::new(LaneMetrics { metrics: self.clone(), lane })
    }
}

struct LaneMetrics {
    metrics: Metrics,
    lane: &'static str,
}

impl Observer for LaneMetrics {
    fn transaction(&self, end: TransactionEnd, seconds: f64) {
        let end = match end {
            TransactionEnd::Committed => "committed",
            TransactionEnd::Aborted => "aborted",
            TransactionEnd::Unknown => "unknown",
        };
        self.metrics.transactions.with_label_values(&[self.lane, end]).inc();
        self.metrics.transaction_seconds.with_label_values(&[self.lane]).observe(seconds);
    }

    fn in_flight(&self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.metrics.in_flight.with_label_values(&[self.lane]).set(bytes);
    }

    fn fetched(&self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.metrics.fetched.with_label_values(&[self.lane]).set(bytes);
    }

    fn produced(&self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.metrics.produced.with_label_values(&[self.lane]).set(bytes);
    }

    fn lag(&self, records: i64, open: i64) {
        self.metrics.lag.with_label_values(&[self.lane]).set(records);
        self.metrics.open.with_label_values(&[self.lane]).set(open);
    }

    fn assigned(&self, partitions: usize) {
        let partitions = i64::try_from(partitions).unwrap_or(i64::MAX);
        self.metrics.partitions.with_label_values(&[self.lane]).set(partitions);
    }
}

//! Metrics of the service.

use crate::admission::tenants::Tenants;
use crate::output::ledger::outcome_name;
use crate::symbols::SymbolSource;
use prometheus::{Histogram, HistogramVec, IntCounterVec, IntGaugeVec, Registry};
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::{ObjectStore, SymcacheCache};
use unslide_proto::headers;
use unslide_runtime::{MetricFactory, sampled};
use unslide_stream::Record;
use unslide_stream::lane::{Done, Observer, TransactionEnd};
use unslide_symbolicate::Enrichment;

/// Counters, gauges and histograms of the symbolizer.
#[derive(Clone, Debug)]
pub struct Metrics {
    records: IntCounterVec,
    outcomes: IntCounterVec,
    reasons: IntCounterVec,
    breaker_open: prometheus::IntGauge,
    tenant_config_age: prometheus::IntGauge,
    lacking_outputs: prometheus::IntGauge,
    frames: IntCounterVec,
    latency: Histogram,
    transactions: IntCounterVec,
    transaction_seconds: HistogramVec,
    in_flight: IntGaugeVec,
    lag: IntGaugeVec,
    open: IntGaugeVec,
    partitions: IntGaugeVec,
}

/// Registers the metrics of the cache and of object storage.
///
/// # Errors
/// Returns an error if the registry already has metrics of these names.
pub fn register_sampled(
    registry: &Registry,
    cache: &SymcacheCache,
    objects: &ObjectStore,
) -> Result<(), prometheus::Error> {
    sampled::register_families(registry, cache, &SymcacheCache::CACHE_STATS)?;
    sampled::register_families(registry, objects, &ObjectStore::OBJECT_STORE_STATS)
}

const BATCH_SECONDS_BUCKETS: [f64; 13] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0];

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Returns an error if the registry already has metrics of these names.
    pub fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let make = MetricFactory(registry);
        Ok(Metrics {
            records: make.register_counters(
                "unslide_symbolizer_records_total",
                "Input records of committed transactions.",
                &["lane"],
            )?,
            outcomes: make.register_counters(
                "unslide_symbolizer_outcomes_total",
                "Committed outcomes.",
                &["lane", "outcome"],
            )?,
            reasons: make.register_counters(
                "unslide_symbolizer_reasons_total",
                "Committed dead letters and copies for retry and overflow, by their reason.",
                &["lane", "reason"],
            )?,
            breaker_open: make.register_gauge(
                "unslide_symbolizer_breaker_open",
                "1 while object storage fails and nothing is fetched.",
            )?,
            tenant_config_age: make.register_gauge(
                "unslide_symbolizer_tenant_config_age_seconds",
                "Time since the table of tenants was last read to its end.",
            )?,
            lacking_outputs: make.register_gauge(
                "unslide_symbolizer_topics_without_output",
                "Inputs of single tenants that are not read because they have no output.",
            )?,
            frames: make.register_counters(
                "unslide_symbolizer_frames_total",
                "Frames answered, by status.",
                &["status"],
            )?,
            latency: make.register_histogram(
                "unslide_symbolizer_latency_seconds",
                "From a record's arrival at the broker to the commit of its outcome, live lane.",
                &BATCH_SECONDS_BUCKETS,
            )?,
            transactions: make.register_counters(
                "unslide_symbolizer_transactions_total",
                "Transactions by their end.",
                &["lane", "end"],
            )?,
            transaction_seconds: make.register_histograms(
                "unslide_symbolizer_transaction_seconds",
                "From begin to end of a transaction.",
                &BATCH_SECONDS_BUCKETS,
                &["lane"],
            )?,
            in_flight: make.register_gauges(
                "unslide_symbolizer_in_flight_bytes",
                "Input held between poll and commit.",
                &["lane"],
            )?,
            lag: make.register_gauges(
                "unslide_symbolizer_lag_records",
                "Records of assigned partitions that wait.",
                &["lane"],
            )?,
            open: make.register_gauges(
                "unslide_symbolizer_open_offsets",
                "Offsets that open transactions hold back.",
                &["lane"],
            )?,
            partitions: make.register_gauges(
                "unslide_symbolizer_partitions",
                "Partitions assigned to this worker.",
                &["lane"],
            )?,
        })
    }

    /// Counts the frames of an answered report by status, before its transaction commits.
    pub fn count_frames(&self, enriched: &Enrichment) {
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

    /// Records the outcomes of a committed transaction.
    pub fn record_committed(&self, lane: &'static str, records: &[&Record], done: &[&Done], now_micros: i64) {
        self.records.with_label_values(&[lane]).inc_by(records.len() as u64);
        for (_, outcome) in done.iter().flat_map(|d| &d.outcomes) {
            self.outcomes.with_label_values(&[lane, outcome_name(*outcome)]).inc();
        }
        for output in done.iter().flat_map(|d| &d.outputs) {
            if let Some(reason) = output.headers.get_text(headers::REASON) {
                self.reasons.with_label_values(&[lane, reason]).inc();
            }
        }
        if lane == unslide_proto::lanes::LIVE {
            for millis in records.iter().filter_map(|r| r.time_millis) {
                let micros = (now_micros - millis.saturating_mul(1_000)).max(0);
                self.latency.observe(micros as f64 / 1e6);
            }
        }
    }

    /// Refreshes the gauges of state that the lanes share.
    pub fn refresh_shared(&self, symbols: &SymbolSource, tenants: &Tenants, monotonic: Duration) {
        self.breaker_open.set(i64::from(symbols.breaker().is_open()));
        if let Some(looked_at) = tenants.looked_at() {
            let age = monotonic.saturating_sub(looked_at).as_secs();
            self.tenant_config_age.set(i64::try_from(age).unwrap_or(i64::MAX));
        }
    }

    /// Sets the number of tenants' inputs without an output.
    pub fn lacking_outputs(&self, inputs: usize) {
        self.lacking_outputs.set(i64::try_from(inputs).unwrap_or(i64::MAX));
    }

    /// Returns the observer that records the metrics of one lane.
    pub fn lane_observer(&self, lane: &'static str) -> Arc<dyn Observer> {
        Arc::new(LaneMetrics { metrics: self.clone(), lane })
    }
}

struct LaneMetrics {
    metrics: Metrics,
    lane: &'static str,
}

impl Observer for LaneMetrics {
    fn record_transaction(&self, end: TransactionEnd, seconds: f64) {
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

    fn record_lag(&self, records: i64, open: i64) {
        self.metrics.lag.with_label_values(&[self.lane]).set(records);
        self.metrics.open.with_label_values(&[self.lane]).set(open);
    }

    fn record_assigned(&self, partitions: usize) {
        let partitions = i64::try_from(partitions).unwrap_or(i64::MAX);
        self.metrics.partitions.with_label_values(&[self.lane]).set(partitions);
    }
}

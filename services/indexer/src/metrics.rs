//! Metrics of the service.

mod tenant_gauges;

pub use tenant_gauges::TenantGauges;

use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use std::sync::Arc;
use time::{Duration, OffsetDateTime};
use unslide_artifacts::ObjectStore;
use unslide_runtime::{MetricFactory, sampled};
use unslide_store::Store;
use unslide_store::dead_letters::DeadLetterStage;
use unslide_store::deltas::DueDeltas;
use unslide_store::gateway_events::EventOutcome;
use unslide_store::reports::ArrivalOutcome;
use unslide_store::segments::PendingDay;

/// Registers the metrics of object storage and of the database.
///
/// # Errors
/// Returns an error if the registry already has metrics of these names.
pub fn register_sampled(
    registry: &Registry,
    objects: &ObjectStore,
    store: &Store,
) -> Result<(), prometheus::Error> {
    sampled::register_families(registry, objects, &ObjectStore::OBJECT_STORE_STATS)?;
    sampled::register_families(registry, store, &Store::POOL_STATS)
}

const BATCH_SECONDS_BUCKETS: [f64; 12] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Names one of the readers of this process in metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ReaderLabel {
    topic: Arc<str>,
    reader: Arc<str>,
}

impl ReaderLabel {
    /// Returns the label of the reader with this number among the readers of a topic.
    pub fn new(topic: &str, number: usize) -> ReaderLabel {
        ReaderLabel { topic: topic.into(), reader: number.to_string().into() }
    }

    /// Returns the label of the reader for the records that this one deferred.
    #[must_use]
    pub fn for_deferred(&self) -> ReaderLabel {
        ReaderLabel { topic: Arc::clone(&self.topic), reader: format!("{} deferred", self.reader).into() }
    }

    fn label_values(&self) -> [&str; 2] {
        [&self.topic, &self.reader]
    }
}

/// Returns the name for the outcome of a report, in metrics and spans.
pub fn arrival_outcome_name(outcome: ArrivalOutcome) -> &'static str {
    match outcome {
        ArrivalOutcome::New => "new",
        ArrivalOutcome::Revised => "revised",
        ArrivalOutcome::Superseded => "superseded",
        ArrivalOutcome::Duplicate => "duplicate",
        ArrivalOutcome::Deleted => "deleted",
        ArrivalOutcome::Expired => "expired",
        ArrivalOutcome::SwitchedOff => "switched_off",
    }
}

/// The labels of gauges that each reader sets.
const READER: [&str; 2] = ["topic", "reader"];

/// Counters, gauges and histograms of the indexer.
#[derive(Clone, Debug)]
pub struct Metrics {
    records: IntCounterVec,
    /// Requests that ended without a new revision.
    pub answered: IntCounter,
    /// Time from the first record of a batch to its commit.
    pub batch_seconds: Histogram,
    /// Time from a report's arrival in Kafka until queries find it.
    pub latency_seconds: Histogram,
    in_flight: IntGaugeVec,
    lag: IntGaugeVec,
    /// Records that wait for symbolizers.
    pub input_lag: IntGauge,
    pub deferred_records: IntCounter,
    deferred_waiting: IntGaugeVec,
    deferred_seconds: IntGaugeVec,
    deferred_left: IntGaugeVec,
    /// Deferred ranges of which the topic has lost records before they were stored.
    pub deferred_lost: IntCounter,
    /// Records that were passed on to other cells.
    pub passed_on: IntCounter,
    pub maintenance_failing: IntGauge,
    /// Frames of stored reports that are gone or damaged.
    pub damaged_frames: IntCounter,
    /// Objects that could not be deleted and are tried again, of all services.
    pub undeleted_objects: IntGauge,
    pending_seconds: IntGauge,
    unfolded_seconds: IntGauge,
    /// Rows that moved to ClickHouse.
    pub history_moved_rows: IntCounter,
    /// Time for which each round at ClickHouse has failed.
    pub history_failing_seconds: IntGauge,
    dead_letters: IntCounterVec,
    oldest_dead_letter: IntGaugeVec,
    reader_stopped: IntGaugeVec,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Returns an error if the registry already has metrics of these names.
    pub fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let make = MetricFactory(registry);
        Ok(Metrics {
            records: make.register_counters(
                "unslide_indexer_records_total",
                "Reports and events of features read, by outcome.",
                &["kind", "outcome"],
            )?,
            answered: make.register_counter(
                "unslide_indexer_requests_closed_total",
                "Requests that ended without a new revision.",
            )?,
            batch_seconds: make.register_histogram(
                "unslide_indexer_batch_seconds",
                "From a batch's first work to its commit.",
                &BATCH_SECONDS_BUCKETS,
            )?,
            latency_seconds: make.register_histogram(
                "unslide_indexer_latency_seconds",
                "From a new report's arrival in Kafka to the commit that stores it.",
                &BATCH_SECONDS_BUCKETS,
            )?,
            in_flight: make.register_gauges(
                "unslide_indexer_in_flight_bytes",
                "Bytes of the records that are being read and stored.",
                &READER,
            )?,
            input_lag: make.register_gauge(
                "unslide_indexer_input_lag_records",
                "Records of the input topics that no symbolizer has read yet.",
            )?,
            lag: make.register_gauges(
                "unslide_indexer_lag_records",
                "Offsets between the positions and the log's end.",
                &READER,
            )?,
            deferred_records: make.register_counter(
                "unslide_indexer_deferred_records_total",
                "Records that were put off because their tenant used more than its share.",
            )?,
            deferred_waiting: make.register_gauges(
                "unslide_indexer_deferred_records",
                "Records that were put off and are not stored yet.",
                &READER,
            )?,
            deferred_seconds: make.register_gauges(
                "unslide_indexer_deferred_seconds",
                "Age of the oldest record that was put off; 0 without one.",
                &READER,
            )?,
            deferred_left: make.register_gauges(
                "unslide_indexer_deferred_retention_seconds",
                "Time until the topic's retention deletes the oldest record that was put off.",
                &READER,
            )?,
            deferred_lost: make.register_counter(
                "unslide_indexer_deferred_lost_total",
                "Ranges of records that were put off and deleted from their topic before they were stored.",
            )?,
            passed_on: make.register_counter(
                "unslide_indexer_passed_on_total",
                "Records of tenants that moved to another cell, passed on to its topics.",
            )?,
            maintenance_failing: make
                .register_gauge("unslide_indexer_maintenance_failing", "1 while maintenance fails.")?,
            damaged_frames: make.register_counter(
                "unslide_indexer_damaged_frames_total",
                "Bodies of stored reports found gone or damaged in their segment.",
            )?,
            undeleted_objects: make.register_gauge(
                "unslide_indexer_undeleted_objects",
                "Objects that could not be deleted when they were due and are tried again.",
            )?,
            pending_seconds: make.register_gauge(
                "unslide_indexer_pending_body_seconds",
                "How long the oldest body has been in the database.",
            )?,
            unfolded_seconds: make.register_gauge(
                "unslide_indexer_unfolded_seconds",
                "Age of the oldest report that is due to be folded into the counts of its group; 0 without one.",
            )?,
            history_moved_rows: make.register_counter(
                "unslide_indexer_history_moved_rows_total",
                "Rows of reports that moved to ClickHouse.",
            )?,
            history_failing_seconds: make.register_gauge(
                "unslide_indexer_history_failing_seconds",
                "How long moves to ClickHouse, or deletions there, have failed; 0 if they work.",
            )?,
            dead_letters: make.register_counters(
                "unslide_indexer_dead_letters_total",
                "Dead letters, by the stage that failed and the reason.",
                &["stage", "reason"],
            )?,
            oldest_dead_letter: make.register_gauges(
                "unslide_indexer_oldest_dead_letter_seconds",
                "Age of a stage's oldest dead letter that waits for a replay; 0 without one.",
                &["stage"],
            )?,
            reader_stopped: make.register_gauges(
                "unslide_indexer_reader_stopped",
                "1 while a reader stands at a record that it can't store and may not skip.",
                &READER,
            )?,
        })
    }

    pub fn dead_letter(&self, stage: DeadLetterStage, reason: &str) {
        self.dead_letters.with_label_values(&[stage.as_str(), reason]).inc();
    }

    /// Sets the age of a stage's oldest dead letter.
    pub fn set_oldest_dead_letter(&self, stage: DeadLetterStage, age: Option<Duration>) {
        let seconds = age.map_or(0, |age| age.whole_seconds().max(0));
        self.oldest_dead_letter.with_label_values(&[stage.as_str()]).set(seconds);
    }

    /// Sets whether a reader is stopped at a record that it may not skip.
    pub fn set_stopped(&self, reader: &ReaderLabel, stopped: bool) {
        self.reader_stopped.with_label_values(&reader.label_values()).set(i64::from(stopped));
    }

    pub fn count_report(&self, outcome: ArrivalOutcome) {
        self.records.with_label_values(&["reports", arrival_outcome_name(outcome)]).inc();
    }

    /// Counts an event of a feature's topic.
    pub fn event(&self, kind: &str, outcome: EventOutcome) {
        self.records.with_label_values(&[kind, outcome.as_str()]).inc();
    }

    /// Sets the age of the oldest body that waits in the database to be moved.
    pub fn set_pending_age(&self, pending: &[PendingDay], now: OffsetDateTime) {
        let oldest = pending.iter().map(|p| p.oldest).min();
        self.pending_seconds.set(oldest.map_or(0, |oldest| (now - oldest).whole_seconds().max(0)));
    }

    /// Sets the age of the oldest row that is due to be folded.
    pub fn set_unfolded_age(&self, due: &[DueDeltas], now: OffsetDateTime) {
        let oldest = due.iter().map(|one| one.oldest).min();
        self.unfolded_seconds.set(oldest.map_or(0, |oldest| (now - oldest).whole_seconds().max(0)));
    }

    /// Sets the bytes of a reader's records in flight.
    pub fn in_flight(&self, reader: &ReaderLabel, bytes: usize) {
        self.in_flight
            .with_label_values(&reader.label_values())
            .set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Sets the metrics of a reader's deferred records: how many wait, the age of the oldest in seconds, and
    /// the time in seconds until retention deletes it.
    pub fn set_deferred(&self, reader: &ReaderLabel, records: i64, age: i64, left: i64) {
        let values = reader.label_values();
        self.deferred_waiting.with_label_values(&values).set(records);
        self.deferred_seconds.with_label_values(&values).set(age);
        self.deferred_left.with_label_values(&values).set(left);
    }

    /// Sets how far the positions of a reader's partitions are behind the log's end.
    pub fn set_lag(&self, reader: &ReaderLabel, records: i64) {
        self.lag.with_label_values(&reader.label_values()).set(records);
    }
}

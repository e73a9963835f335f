//! The service's metrics.

use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
use time::OffsetDateTime;
use unslide_artifacts::ObjectStore;
use unslide_runtime::sampled;
use unslide_store::Store;
use unslide_store::reports::Outcome;
use unslide_store::segments::Pending;

/// Registers what object storage and the database say of their bounds.
///
/// # Errors
/// Where the registry has metrics of these names already.
pub fn watch(registry: &Registry, objects: &ObjectStore, store: &Store) -> Result<(), prometheus::Error> {
    sampled::watch(registry, objects, &ObjectStore::FIGURES)?;
    sampled::watch(registry, store, &Store::FIGURES)
}

/// What the indexer counts.
#[derive(Clone, Debug)]
pub struct Metrics {
    records: IntCounterVec,
    /// Records that were passed over, with a row that says why.
    pub unreadable: IntCounter,
    /// Requests for a better revision.
    pub requests: IntCounter,
    /// Requests that were sent again because nobody answered.
    pub resent: IntCounter,
    /// Requests that ended without a new revision.
    pub answered: IntCounter,
    /// Batches given up because another indexer had moved the position.
    pub fenced: IntCounter,
    /// Batches that the database refused and that were tried again.
    pub retries: IntCounter,
    /// From the first record of a batch to its commit.
    pub batch_seconds: Histogram,
    /// Bytes of reports before compression.
    pub bytes: IntCounter,
    in_work: IntGaugeVec,
    lag: IntGaugeVec,
    /// Partitions that this indexer reads.
    pub partitions: IntGaugeVec,
    /// 1 while upkeep fails.
    pub upkeep_failing: IntGauge,
    segments: IntCounterVec,
    segment_frames: IntCounterVec,
    segment_bytes: IntCounterVec,
    /// Segments that could not be written and are tried again.
    pub segment_failures: IntCounter,
    /// Frames of stored reports that are gone or damaged.
    pub damaged_frames: IntCounter,
    /// Objects deleted because nothing refers to them.
    pub objects_deleted: IntCounter,
    /// Reports deleted because their tenant keeps them no longer.
    pub expired: IntCounter,
    /// Bodies kept apart that were fetched.
    pub apart: IntCounter,
    pending_bytes: IntGauge,
    pending_seconds: IntGauge,
    letters: IntCounterVec,
    /// Seconds since the oldest dead letter arrived that nobody has replayed; 0 without one.
    pub oldest_letter: IntGauge,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Where the registry has metrics of these names already.
    pub fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let by_topic = |name: &str, help: &str| {
            let gauge = IntGaugeVec::new(Opts::new(name, help), &["topic"])?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let records = IntCounterVec::new(
            Opts::new("unslide_indexer_reports_total", "Enriched reports read, by what became of them."),
            &["outcome"],
        )?;
        registry.register(Box::new(records.clone()))?;
        let batch_seconds = Histogram::with_opts(
            HistogramOpts::new("unslide_indexer_batch_seconds", "From a batch's first work to its commit.")
                .buckets(vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]),
        )?;
        registry.register(Box::new(batch_seconds.clone()))?;
        let upkeep_failing = IntGauge::new("unslide_indexer_upkeep_failing", "1 while upkeep fails.")?;
        registry.register(Box::new(upkeep_failing.clone()))?;
        let by_kind = |name: &str, help: &str| {
            let counter = IntCounterVec::new(Opts::new(name, help), &["kind"])?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let letters = IntCounterVec::new(
            Opts::new("unslide_indexer_dead_letters_total", "Dead letters read, by why they are dead."),
            &["reason"],
        )?;
        registry.register(Box::new(letters.clone()))?;
        let oldest_letter = IntGauge::new(
            "unslide_indexer_oldest_dead_letter_seconds",
            "Age of the oldest dead letter that nobody has replayed.",
        )?;
        registry.register(Box::new(oldest_letter.clone()))?;
        Ok(Metrics {
            records,
            unreadable: counter(
                "unslide_indexer_unreadable_total",
                "Records passed over, with a row in unreadable_records that says why.",
            )?,
            requests: counter(
                "unslide_indexer_requests_total",
                "Requests for a better revision of a report.",
            )?,
            resent: counter(
                "unslide_indexer_requests_resent_total",
                "Requests sent again because nobody answered.",
            )?,
            answered: counter(
                "unslide_indexer_requests_closed_total",
                "Requests that ended without a new revision.",
            )?,
            fenced: counter(
                "unslide_indexer_fenced_total",
                "Batches given up because another indexer had moved the position.",
            )?,
            retries: counter(
                "unslide_indexer_retries_total",
                "Batches that the database refused for now and that were tried again.",
            )?,
            batch_seconds,
            bytes: counter("unslide_indexer_report_bytes_total", "Bytes of reports read, uncompressed.")?,
            in_work: by_topic(
                "unslide_indexer_in_work_bytes",
                "Bytes of the records that are being read and stored, bodies kept apart included.",
            )?,
            lag: by_topic("unslide_indexer_lag_records", "Offsets between the positions and the log's end.")?,
            partitions: by_topic("unslide_indexer_partitions", "Partitions that this indexer reads.")?,
            upkeep_failing,
            segments: by_kind(
                "unslide_indexer_segments_total",
                "Segments written, of moved bodies or of other segments.",
            )?,
            segment_frames: by_kind(
                "unslide_indexer_segment_frames_total",
                "Bodies in the segments that were written.",
            )?,
            segment_bytes: by_kind("unslide_indexer_segment_bytes_total", "Bytes of segments written.")?,
            segment_failures: counter(
                "unslide_indexer_segment_failures_total",
                "Segments that could not be written and are tried again.",
            )?,
            damaged_frames: counter(
                "unslide_indexer_damaged_frames_total",
                "Bodies of stored reports found gone or damaged in their segment.",
            )?,
            objects_deleted: counter(
                "unslide_indexer_objects_deleted_total",
                "Objects deleted because nothing refers to them.",
            )?,
            expired: counter(
                "unslide_indexer_expired_total",
                "Reports deleted because their tenant keeps them no longer.",
            )?,
            apart: counter(
                "unslide_indexer_apart_bodies_total",
                "Reports whose body the symbolizer had kept apart.",
            )?,
            pending_bytes: gauge(
                "unslide_indexer_pending_body_bytes",
                "Bytes of compressed bodies in the database.",
            )?,
            pending_seconds: gauge(
                "unslide_indexer_pending_body_seconds",
                "How long the oldest body has been in the database.",
            )?,
            letters,
            oldest_letter,
        })
    }

    /// Counts a dead letter.
    pub fn letter(&self, reason: &str) {
        self.letters.with_label_values(&[reason]).inc();
    }

    /// Counts a report.
    pub fn stored(&self, outcome: Outcome) {
        let name = match outcome {
            Outcome::New => "new",
            Outcome::Revised => "revised",
            Outcome::Superseded => "superseded",
            Outcome::Duplicate => "duplicate",
            Outcome::Deleted => "deleted",
            Outcome::Expired => "expired",
        };
        self.records.with_label_values(&[name]).inc();
    }

    /// Counts a segment that was written.
    pub fn segment(&self, kind: &str, frames: u64, bytes: u64) {
        self.segments.with_label_values(&[kind]).inc();
        self.segment_frames.with_label_values(&[kind]).inc_by(frames);
        self.segment_bytes.with_label_values(&[kind]).inc_by(bytes);
    }

    /// Says what waits in the database to be moved.
    pub fn pending(&self, pending: &[Pending], now: OffsetDateTime) {
        let bytes: u64 = pending.iter().map(|p| p.bytes).sum();
        self.pending_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        let oldest = pending.iter().map(|p| p.oldest).min();
        self.pending_seconds.set(oldest.map_or(0, |oldest| (now - oldest).whole_seconds().max(0)));
    }

    /// Says how many bytes of a topic's records are in work.
    pub fn in_work(&self, topic: &str, bytes: usize) {
        self.in_work.with_label_values(&[topic]).set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Says how far behind the log's end a topic's positions are.
    pub fn lag(&self, topic: &str, records: i64) {
        self.lag.with_label_values(&[topic]).set(records);
    }

    /// Says how many partitions of a topic this indexer reads.
    pub fn reading(&self, topic: &str, partitions: usize) {
        self.partitions.with_label_values(&[topic]).set(i64::try_from(partitions).unwrap_or(i64::MAX));
    }
}

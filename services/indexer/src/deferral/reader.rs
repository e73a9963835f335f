//! The second reader: stores deferred records in the time that the first reader leaves.
//!
//! It reads each partition with deferred records once, for all tenants together. It stops at the end of the
//! ranges that it last read from the database: later records may be the first reader's.

use super::cell_writer::{CellWriter, MovedRecord};
use super::known_tenants::KnownTenants;
use super::{OwnerRules, losses, topic_names};
use crate::failure::IndexerError;
use crate::pipeline::Pipeline;
use crate::pipeline::resources::Resources;
use crate::pipeline::skips::SkipLimit;
use crate::topics::Positions;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use unslide_model::{TenantId, format_causes};
use unslide_store::StoreError;
use unslide_store::deferred::{self, DeferredRange};
use unslide_store::place::TenantPlace;
use unslide_store::positions::PartitionPosition;
use unslide_store::reports::Effects;
use unslide_stream::admin::read_retention;
use unslide_stream::{BatchLimits, Record, RecordRef, SpreadConsumer, TopicPartition};

/// Interval at which it polls for deferred records that its first reader has not announced.
const RANGE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Time that it waits for the first reader to become idle. After that it reads at the same time, because
/// deferred records have to be stored before retention deletes them.
const FIRST_READER_TIMEOUT: Duration = Duration::from_secs(1);
const FAILURE_BACKOFF: Duration = Duration::from_secs(1);
/// Pause before records of a tenant are tried again that wait for ClickHouse, or for topics of another cell. Those of other tenants are
/// stored.
const TENANT_BACKOFF: Duration = Duration::from_secs(15);
/// Interval at which it looks whether tenants that are moving between cells have arrived.
const PLACE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a tenant began to move while its records were being stored.
const MOVE_BACKOFF: Duration = Duration::from_millis(100);
/// Interval at which metrics are set.
const REPORT_INTERVAL: Duration = Duration::from_secs(15);
/// Maximum number of records that one round reads for each record that it may store.
const SCAN_FACTOR: usize = 20;
/// Retention for the metric if a topic keeps all records.
const UNLIMITED_SECONDS: i64 = 10 * 365 * 86_400;

/// Tenants that another cell may be serving, each with the prefix of the topics of that cell. `None` while it is not known in which cell the tenant
/// stays.
type Elsewhere = BTreeMap<TenantId, Option<String>>;

/// The state that the two readers of a session share. Cheap to clone.
#[derive(Clone)]
pub struct Signals {
    /// True while the first reader stores a batch.
    pub busy: Arc<watch::Sender<bool>>,
    /// Notified when the first reader has deferred records.
    pub deferred: Arc<Notify>,
    /// True until the first reader has reached the ends that the logs had at the start.
    pub behind: Arc<AtomicBool>,
    /// The error that keeps deferred records from being stored.
    pub trouble: Arc<Mutex<Option<String>>>,
}

impl Signals {
    /// Creates the signals of a session.
    pub fn new(behind: bool, trouble: Arc<Mutex<Option<String>>>) -> Signals {
        let (busy, deferred) = (Arc::new(watch::Sender::new(false)), Arc::default());
        Signals { busy, deferred, behind: Arc::new(AtomicBool::new(behind)), trouble }
    }
}

/// The partitions that are being read.
struct Reading {
    consumer: SpreadConsumer,
    /// Offset in each partition that is not after its first deferred record. The consumer has passed no
    /// deferred record.
    positions: Positions,
    /// Records after the ranges that were last read from the database.
    ahead: Vec<Record>,
}

/// Stores deferred records of one session's partitions.
pub struct DeferredReader {
    resources: Resources,
    rules: OwnerRules,
    pipeline: Pipeline,
    signals: Signals,
    /// The partitions of the session, with the ids of their topics.
    partitions: Positions,
    reading: Option<Reading>,
    known: KnownTenants,
    cell_writer: CellWriter,
    /// Tenants with records that wait for ClickHouse, or for topics of another cell, and until when.
    held: BTreeMap<TenantId, Instant>,
    /// True if deferred records belong to a tenant that is moving between cells.
    has_moving: bool,
    /// True if the logs must be checked for lost deferred records.
    unchecked: bool,
    reported: Option<Instant>,
}

impl DeferredReader {
    /// Creates a reader that does not read yet.
    pub fn new(resources: &Resources, partitions: Positions, signals: Signals) -> DeferredReader {
        let mut resources = resources.clone();
        resources.label = resources.label.for_deferred();
        let Resources { store, metrics, label, .. } = &resources;
        resources.skips = SkipLimit::new(store.clone(), metrics.clone(), label);
        DeferredReader {
            rules: OwnerRules::new(&resources),
            pipeline: Pipeline::new(&resources),
            cell_writer: CellWriter::new(&resources),
            resources,
            signals,
            partitions,
            reading: None,
            known: KnownTenants::default(),
            held: BTreeMap::new(),
            has_moving: false,
            unchecked: true,
            reported: None,
        }
    }

    /// Stores deferred records until it is dropped with the session.
    pub async fn run(mut self) -> Infallible {
        loop {
            match Box::pin(self.store_some()).await {
                Ok(stored) => {
                    *self.signals.trouble.lock() = None;
                    let interval = if self.has_moving { PLACE_POLL_INTERVAL } else { RANGE_POLL_INTERVAL };
                    if !stored {
                        _ = timeout(interval, self.signals.deferred.notified()).await;
                    }
                }
                Err(IndexerError::HistoryAway { tenants, source }) => {
                    let error = format_causes(&source);
                    tracing::warn!(error, tenants = tenants.len(), "deferred reports wait for ClickHouse");
                    self.hold_tenants(tenants);
                }
                Err(IndexerError::NotPassedOn { tenants, source }) => {
                    let error = format_causes(&source);
                    tracing::error!(
                        error,
                        tenants = tenants.len(),
                        "records of tenants that moved to another cell are not passed on to it and wait"
                    );
                    self.hold_tenants(tenants);
                }
                // The next look at the ranges says which tenant it is.
                Err(IndexerError::Store(StoreError::TenantMoving)) => {
                    self.reading = None;
                    sleep(MOVE_BACKOFF).await;
                }
                Err(trouble) => {
                    (self.reading, self.unchecked) = (None, true);
                    self.report_trouble(&trouble);
                    sleep(FAILURE_BACKOFF).await;
                }
            }
        }
    }

    /// Leaves the records of these tenants alone for a while.
    fn hold_tenants(&mut self, tenants: BTreeSet<TenantId>) {
        (self.reading, self.unchecked) = (None, true);
        let until = Instant::now() + TENANT_BACKOFF;
        self.held.extend(tenants.into_iter().map(|tenant| (tenant, until)));
    }

    fn report_trouble(&self, trouble: &IndexerError) {
        let topic = &self.resources.topics.shared;
        if let IndexerError::Store(StoreError::Fenced { .. }) = trouble {
            tracing::warn!(kafka.topic = topic, error = %trouble, "a batch of deferred records was given up");
            return;
        }
        let text = format_causes(trouble);
        tracing::warn!(kafka.topic = topic, error = text, "deferred records cannot be stored yet");
        *self.signals.trouble.lock() = Some(format!("deferred records cannot be stored: {text}"));
    }

    /// Stores a batch, and passes records of tenants that have moved on to their cells. Returns false if no existing tenant has
    /// deferred records that need not wait.
    async fn store_some(&mut self) -> Result<bool, IndexerError> {
        let (mut ranges, elsewhere) = self.load_ranges().await?;
        if self.unchecked && !ranges.is_empty() {
            let read_to = |range: &DeferredRange| self.reading.as_ref()?.read_to(&topic_partition(range));
            ranges = losses::note_lost(&self.resources, ranges, read_to).await?;
        }
        self.unchecked = false;
        self.report_metrics(&ranges).await?;
        let tenants = ranges.iter().map(|range| &range.tenant);
        let unknown = self.known.find_unknown(&self.resources.store, tenants).await?;
        self.held.retain(|_, until| *until > Instant::now());
        let is_moving = |tenant: &TenantId| matches!(elsewhere.get(tenant), Some(None));
        self.has_moving = ranges.iter().any(|range| is_moving(&range.tenant));
        ranges.retain(|range| {
            !unknown.contains(&range.tenant)
                && !self.held.contains_key(&range.tenant)
                && !is_moving(&range.tenant)
        });
        if ranges.is_empty() {
            self.reading = None;
            return Ok(false);
        }
        let mut busy = self.signals.busy.subscribe();
        _ = timeout(FIRST_READER_TIMEOUT, busy.wait_for(|busy| !busy)).await;
        let mut reading = match self.reading.take().filter(|reading| reading.can_read(&ranges)) {
            Some(reading) => reading,
            None => self.open_reading(&ranges)?,
        };
        let (records, is_idle) = self.next_records(&mut reading, &ranges).await?;
        // A deferred record is in the log unless it was deleted, so a missing one needs a check.
        self.unchecked |= is_idle;
        if !records.is_empty() {
            let (records, passed_on) = self.pass_on(records, &elsewhere).await?;
            let behind = self.signals.behind.load(Ordering::SeqCst);
            let effects = if behind { Effects::Deferred } else { Effects::Now };
            let began = Instant::now();
            let stored =
                self.pipeline.store_deferred(records, passed_on, ranges, &mut reading.positions, effects);
            Box::pin(stored).await?;
            self.resources.metrics.batch_seconds.observe(began.elapsed().as_secs_f64());
        }
        self.reading = Some(reading);
        Ok(true)
    }

    /// Returns the ranges of this session's partitions, and their tenants that another cell may be serving.
    async fn load_ranges(&self) -> Result<(Vec<DeferredRange>, Elsewhere), IndexerError> {
        let topics = topic_names(&self.partitions);
        let mut located = deferred::list_located_ranges(&self.resources.store, &topics).await?;
        located.retain(|located| self.partitions.contains_key(&topic_partition(&located.range)));
        let elsewhere = located.iter().filter(|located| located.location.place != TenantPlace::Here);
        let elsewhere =
            elsewhere.map(|located| (located.range.tenant.clone(), located.location.moved_to.clone()));
        let elsewhere = elsewhere.collect();
        Ok((located.into_iter().map(|located| located.range).collect(), elsewhere))
    }

    /// Passes those of these records on that belong to tenants in other cells. Returns all records, and which of them were passed on.
    async fn pass_on(
        &mut self,
        records: Vec<(Record, Option<TenantId>)>,
        elsewhere: &Elsewhere,
    ) -> Result<(Vec<Record>, BTreeMap<RecordRef, TenantId>), IndexerError> {
        let moved = records.iter().filter_map(|(record, owner)| {
            let tenant = owner.as_ref()?;
            let prefix = elsewhere.get(tenant)?.as_deref()?;
            Some(MovedRecord { record, tenant, prefix })
        });
        let moved: Vec<MovedRecord<'_>> = moved.collect();
        self.cell_writer.pass_on(&moved).await?;
        let passed_on = moved.iter().map(|moved| (moved.record.at.clone(), moved.tenant.clone())).collect();
        Ok((records.into_iter().map(|(record, _)| record).collect(), passed_on))
    }

    fn open_reading(&self, ranges: &[DeferredRange]) -> Result<Reading, IndexerError> {
        let mut positions = Positions::new();
        for range in ranges {
            let first = PartitionPosition {
                topic: range.topic.clone(),
                partition: range.partition,
                topic_id: range.topic_id.clone(),
                next_offset: range.from,
            };
            let position = positions.entry(topic_partition(range)).or_insert(first);
            position.next_offset = position.next_offset.min(range.from);
        }
        let starts = positions.iter().map(|(place, at)| (place, at.next_offset));
        let consumer = SpreadConsumer::open(&self.resources.kafka, starts)?;
        Ok(Reading { consumer, positions, ahead: Vec::new() })
    }

    /// Reads the next records. Returns the deferred ones among them with their tenants, and true if expected records did
    /// not arrive.
    async fn next_records(
        &self,
        reading: &mut Reading,
        ranges: &[DeferredRange],
    ) -> Result<(Vec<(Record, Option<TenantId>)>, bool), IndexerError> {
        let settings = &self.resources.settings;
        let limits = BatchLimits {
            records: settings.batch_records.min(self.pipeline.most_records()),
            bytes: settings.batch_bytes,
            wait: settings.batch_wait(),
        };
        let ends = end_offsets(ranges);
        let (mut chosen, mut bytes, mut seen) = (Vec::new(), 0, 0);
        while chosen.len() < limits.records && bytes < limits.bytes && seen < limits.records * SCAN_FACTOR {
            let mut records = std::mem::take(&mut reading.ahead);
            if records.is_empty() {
                records = reading.consumer.next_batch(limits).await?;
            }
            if records.is_empty() {
                return Ok((chosen, seen == 0));
            }
            seen += records.len();
            let is_ahead = |record: &Record| {
                ends.get(&(Arc::clone(&record.at.topic), record.at.partition))
                    .is_none_or(|end| record.at.offset >= *end)
            };
            let (ahead, records): (Vec<_>, Vec<_>) = records.into_iter().partition(is_ahead);
            let (records, owners) = self.rules.find_owners(&self.resources.host, records).await?;
            for (record, owner) in records.into_iter().zip(owners) {
                let waits = match &owner {
                    Some(owner) => {
                        ranges.iter().any(|range| range.tenant == *owner && is_in_range(range, &record))
                    }
                    None => self.rules.may_change(),
                };
                if waits {
                    bytes += record.size();
                    chosen.push((record, owner));
                }
            }
            if !ahead.is_empty() {
                reading.ahead = ahead;
                // The consumer is past the end of an open range and has not found its last record.
                let is_missing = chosen.is_empty();
                return Ok((chosen, is_missing));
            }
        }
        Ok((chosen, false))
    }

    async fn report_metrics(&mut self, ranges: &[DeferredRange]) -> Result<(), IndexerError> {
        if self.reported.is_some_and(|at| at.elapsed() < REPORT_INTERVAL) && !ranges.is_empty() {
            return Ok(());
        }
        let topics: Vec<String> =
            ranges.iter().map(|range| range.topic.clone()).collect::<BTreeSet<_>>().into_iter().collect();
        let kept = read_retention(&self.resources.kafka, &topics).await?;
        let now = self.resources.store.clock().now();
        let (mut oldest, mut left) = (0, UNLIMITED_SECONDS);
        for range in ranges {
            let age = (now - range.oldest_at).whole_seconds().max(0);
            let millis = kept.get(&range.topic).and_then(|kept| kept.millis);
            let seconds = millis.map_or(UNLIMITED_SECONDS, |millis| millis / 1_000);
            (oldest, left) = (oldest.max(age), left.min(seconds - age));
        }
        let records = ranges.iter().map(|range| range.records).sum();
        self.resources.metrics.set_deferred(&self.resources.label, records, oldest, left);
        self.reported = Some(Instant::now());
        // Records that no consumer reads may have been deleted as well.
        self.unchecked = true;
        Ok(())
    }
}

impl Drop for DeferredReader {
    fn drop(&mut self) {
        // Another indexer may have the partitions next.
        self.resources.metrics.set_deferred(&self.resources.label, 0, 0, UNLIMITED_SECONDS);
    }
}

impl Reading {
    /// Returns the first offset of a partition that was not read, or not decided.
    fn read_to(&self, place: &TopicPartition) -> Option<i64> {
        let is_here = |record: &&Record| (&record.at.topic, record.at.partition) == (&place.0, place.1);
        let ahead = self.ahead.iter().find(is_here).map(|record| record.at.offset);
        ahead.or_else(|| self.consumer.passed_offset(place))
    }

    /// Returns true if it reads these partitions, and has passed no deferred record that waits.
    fn can_read(&self, ranges: &[DeferredRange]) -> bool {
        let read = |range: &DeferredRange| {
            let position = self.positions.get(&topic_partition(range));
            position.is_some_and(|at| at.topic_id == range.topic_id && at.next_offset <= range.from)
        };
        ranges.iter().all(read) && end_offsets(ranges).len() == self.positions.len()
    }
}

fn topic_partition(range: &DeferredRange) -> TopicPartition {
    (range.topic.as_str().into(), range.partition)
}

/// Returns the offset after the last deferred record of each partition.
fn end_offsets(ranges: &[DeferredRange]) -> BTreeMap<TopicPartition, i64> {
    let mut ends = BTreeMap::new();
    for range in ranges {
        let end = ends.entry(topic_partition(range)).or_insert(range.to);
        *end = (*end).max(range.to);
    }
    ends
}

fn is_in_range(range: &DeferredRange, record: &Record) -> bool {
    range.topic == *record.at.topic
        && range.partition == record.at.partition
        && (range.from..range.to).contains(&record.at.offset)
}

//! Turns records into rows: reads and stores them. If a single record makes that fail, the pipeline finds it
//! and skips it.

mod batch;
mod moved_items;
mod record_bound;
pub mod replays;
pub mod resources;
pub mod skips;
#[cfg(test)]
mod tests;

use crate::deferral::Deferral;
use crate::failure::IndexerError;
use crate::failure::{Failure, RECORD_TRIES_LIMIT};
use crate::metrics::{Metrics, ReaderLabel};
use crate::records::enriched::Unreadable;
use crate::records::{self, Item, Parsed, PolledRecord, Reading, RecordAction};
use crate::rewriting::LoadedRewriters;
use crate::topics::Positions;
use batch::{BatchWriter, Write};
use futures::FutureExt as _;
use record_bound::RecordBound;
use resources::Resources;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::segment::MAX_BODY_BYTES;
use unslide_model::{TenantId, format_causes};
use unslide_proto::topics::TopicNames;
use unslide_report::ReadLimits;
use unslide_runtime::panic_text;
use unslide_store::dead_letters::DeadLetter;
use unslide_store::deferred::DeferredRange;
use unslide_store::reports::Effects;
use unslide_store::{Store, StoreError};
use unslide_stream::{Record, RecordRef};

/// Number of other records to try before a failure counts as a failure of all records.
const REHEARSED_RECORDS_LIMIT: usize = 8;
/// Number of times that a batch is tried again at once because a tenant began to move meanwhile.
const MOVE_RETRIES_LIMIT: u32 = 3;

/// Sets the metric of bytes in flight, and resets it to 0 when dropped.
struct InFlight<'a> {
    metrics: &'a Metrics,
    reader: &'a ReaderLabel,
}

impl InFlight<'_> {
    fn set_bytes(&self, bytes: usize) {
        self.metrics.in_flight(self.reader, bytes);
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.set_bytes(0);
    }
}

/// Stores the records of one reader.
pub struct Pipeline {
    resources: Resources,
    names: TopicNames,
    deferral: Deferral,
    batches: BatchWriter,
    bound: RecordBound,
    /// True if a statement of the batch ran out of time, so that the next batch may not have more records.
    ran_out_of_time: bool,
}

impl Pipeline {
    /// Creates a pipeline that has stored no records yet.
    pub fn new(resources: &Resources) -> Pipeline {
        Pipeline {
            resources: resources.clone(),
            names: resources.kafka.topic_names(),
            deferral: Deferral::new(resources),
            batches: BatchWriter::new(resources),
            bound: RecordBound::unbounded(),
            ran_out_of_time: false,
        }
    }

    /// Returns the number of records that the next batch may have.
    pub fn most_records(&self) -> usize {
        self.bound.most_records()
    }

    /// Stores records together with the positions after them, and moves `positions`. Records of a tenant that
    /// uses more than its share are deferred.
    ///
    /// # Errors
    /// Returns an error if a server fails, if another indexer moved a position, or if records fail that may
    /// not be skipped.
    pub async fn store_records(
        &mut self,
        records: Vec<Record>,
        positions: &mut Positions,
        effects: Effects,
    ) -> Result<(), IndexerError> {
        let began = self.resources.host.clock.monotonic_micros();
        // The reader was idle until now.
        self.resources.shares.record_busy(began, began);
        let (records, mut deferred) = self.deferral.decide_deferrals(records, positions).await?;
        let action = |at: &RecordRef| deferred.remove(at).map_or(RecordAction::Store, RecordAction::Defer);
        self.store_in_parts(records, action, positions, effects).await?;
        self.resources.shares.record_busy(began, self.resources.host.clock.monotonic_micros());
        Ok(())
    }

    /// Stores records that were deferred, and removes them from `ranges`. `positions` are the starts of the
    /// ranges. Records in `passed_on` are in another cell already, and are only removed.
    ///
    /// # Errors
    /// Returns the same errors as [`Pipeline::store_records`], and an error if the start of a range has moved.
    pub async fn store_deferred(
        &mut self,
        records: Vec<Record>,
        mut passed_on: BTreeMap<RecordRef, TenantId>,
        ranges: Vec<DeferredRange>,
        positions: &mut Positions,
        effects: Effects,
    ) -> Result<(), IndexerError> {
        self.batches.store_from(ranges);
        let action =
            |at: &RecordRef| passed_on.remove(at).map_or(RecordAction::Store, RecordAction::SkipPassedOn);
        self.store_in_parts(records, action, positions, effects).await
    }

    async fn store_in_parts(
        &mut self,
        records: Vec<Record>,
        mut action: impl FnMut(&RecordRef) -> RecordAction,
        positions: &mut Positions,
        effects: Effects,
    ) -> Result<(), IndexerError> {
        let Resources { metrics, label, .. } = &self.resources;
        let (metrics, label) = (metrics.clone(), label.clone());
        let in_flight = InFlight { metrics: &metrics, reader: &label };
        in_flight.set_bytes(records.iter().map(Record::size).sum());
        self.ran_out_of_time = false;
        let polled = records.into_iter().map(|record| PolledRecord { action: action(&record.at), record });
        let items = self.read_items(polled.collect()).await?;
        self.store_items(items, positions, effects).await?;
        if !self.ran_out_of_time {
            self.bound.grow();
        }
        Ok(())
    }

    /// Returns the state of deferred records.
    pub fn deferral(&mut self) -> &mut Deferral {
        &mut self.deferral
    }

    /// Moves positions past offsets that hold no records.
    ///
    /// # Errors
    /// Returns the same errors as [`BatchWriter::pass_offsets`].
    pub async fn pass_offsets(
        &self,
        positions: &mut Positions,
        passed: impl Fn(&unslide_stream::TopicPartition) -> Option<i64>,
    ) -> Result<(), StoreError> {
        self.batches.pass_offsets(positions, passed).await
    }

    /// Returns true if this pipeline stores records of this topic.
    /// The dead letters of a tenant that moved to this cell are in topics of the same name with another prefix.
    pub fn can_store(&self, topic: &str) -> bool {
        let topics = &self.resources.topics;
        let unprefixed = self.names.name_with_prefix(&topics.shared, "");
        topics.tenant_of(&self.names, topic).is_some()
            || unprefixed.is_some_and(|unprefixed| topic.ends_with(&unprefixed))
    }

    /// Stores the record of a dead letter that was read again, and records that.
    ///
    /// # Errors
    /// Returns [`StoreFailure::Record`] if the record still can't be stored, and [`StoreFailure::Server`] if a
    /// server fails; then the caller has to try again.
    pub async fn replay_record(&mut self, letter: &DeadLetter, record: Record) -> Result<(), StoreFailure> {
        let polled = PolledRecord { record, action: RecordAction::Store };
        let Some(item) = self.read_items(vec![polled]).await?.pop() else { return Ok(()) };
        match item.parsed {
            Parsed::Failed(failure) => return Err(failure.into()),
            Parsed::Unreadable(Unreadable { reason, detail }) => {
                return Err(Failure { reason, detail }.into());
            }
            _ => {}
        }
        separate_failures(&self.resources.store, self.batches.replay_item(&item, letter)).await
    }

    fn retry_pause(&self) -> Duration {
        self.resources.settings.batch_wait()
    }

    async fn read_items(&self, records: Vec<PolledRecord>) -> Result<Vec<Item>, IndexerError> {
        let Resources { host, kafka, content, signatures, read, readers, rewriters, .. } = &self.resources;
        let rewriters = match content.is_rewritten() {
            true => rewriters.load_rewriters(&self.resources.store).await?,
            false => LoadedRewriters::default(),
        };
        let reading = Reading {
            content: *content,
            readers: readers.clone(),
            rewriters,
            signatures: Arc::clone(signatures),
            limits: ReadLimits {
                max_bytes: kafka.max_output_bytes().max(MAX_BODY_BYTES),
                ..ReadLimits::default()
            },
            now: host.clock.now(),
            has_spans: host.tracer.is_on(),
        };
        let mut items = records::read_records(host, &reading, *read, records).await?;
        items.iter_mut().for_each(|item| self.refuse_foreign(item));
        Ok(items)
    }

    /// Rejects a report of another tenant in the topic of one tenant.
    fn refuse_foreign(&self, item: &mut Item) {
        let Some(owner) = self.resources.topics.tenant_of(&self.names, &item.at.topic) else { return };
        if let Parsed::Report(report) = &item.parsed
            && owner != report.tenant
        {
            let detail = format!("the topic is {owner}'s and the record says {}", report.tenant);
            item.parsed = Parsed::Unreadable(Unreadable { reason: "tenant_mismatch", detail });
        }
        item.tenant = Some(owner);
    }

    /// Stores items. If the database refuses a batch or takes too long, the batch is halved until the one
    /// record that cannot be stored is found.
    async fn store_items(
        &mut self,
        items: Vec<Item>,
        positions: &mut Positions,
        effects: Effects,
    ) -> Result<(), IndexerError> {
        if let Some((item, failure)) = all_failed(&items) {
            return Err(self.resources.skips.refuse_alone(&item.at, failure));
        }
        let mut parts = ending_with_failures(items);
        let (mut others_succeed, mut moves) = (false, 0);
        while let Some(mut items) = parts.pop() {
            if let Some(item) = items.last()
                && let Some(failure) = item.failure()
            {
                self.resources.skips.admit_record(item, failure).await?;
            }
            let Err(failure) = self.attempt_store(&items, positions, effects).await else {
                others_succeed |= items.iter().any(Item::is_stored);
                self.defer_elsewhere(&items, &mut parts);
                continue;
            };
            let failure = match failure {
                StoreFailure::Moving if moves < MOVE_RETRIES_LIMIT && !self.batches.is_storing_deferred() => {
                    moves += 1;
                    parts.push(items);
                    continue;
                }
                StoreFailure::History(error) => {
                    self.defer_moved(&mut items, &mut parts, error).await?;
                    parts.push(items);
                    continue;
                }
                failure => failure.into_record_failure()?,
            };
            let [item] = items.as_mut_slice() else {
                let later = items.split_off(items.len() / 2);
                parts.push(later);
                parts.push(items);
                continue;
            };
            if item.failure().is_some() {
                return Err(self.resources.skips.refuse_alone(&item.at, &failure));
            }
            let Err(failure) = self.attempt_alone(item, positions, effects, failure).await else {
                others_succeed = true;
                self.defer_elsewhere(&items, &mut parts);
                continue;
            };
            let failure = failure.into_record_failure()?;
            if !others_succeed && !self.another_succeeds(&parts, positions, effects, &failure).await? {
                return Err(self.resources.skips.refuse_alone(&item.at, &failure));
            }
            item.parsed = Parsed::Failed(failure);
            parts.push(items);
        }
        self.resources.skips.review_stop(positions);
        Ok(())
    }

    /// Defers the reports with rows in ClickHouse, which does not give them now, and all later reports of their tenants in the
    /// same partitions: revisions are stored in their order.
    ///
    /// # Errors
    /// Returns [`IndexerError::HistoryAway`] for records that were deferred before, and the error itself if no report is the cause.
    async fn defer_moved(
        &mut self,
        items: &mut [Item],
        parts: &mut [Vec<Item>],
        error: StoreError,
    ) -> Result<(), IndexerError> {
        let moved = moved_items::find_moved(&self.resources.store, items).await?;
        if moved.is_empty() {
            return Err(error.into());
        }
        let tenants: BTreeSet<TenantId> = moved.iter().map(|(tenant, _)| tenant.clone()).collect();
        if self.batches.is_storing_deferred() {
            return Err(IndexerError::HistoryAway { tenants, source: error });
        }
        tracing::warn!(
            error = format_causes(&error),
            reports = moved.len(),
            "revisions of reports whose rows are in ClickHouse wait for it"
        );
        for (tenant, at) in &moved {
            self.deferral.defer_from((Arc::clone(&at.topic), at.partition), tenant, at.offset);
        }
        for item in items.iter_mut().chain(parts.iter_mut().flatten()) {
            self.deferral.defer_behind(item);
        }
        Ok(())
    }

    /// Notes the items that were deferred because another cell may be serving their tenants, and defers the later ones of these
    /// tenants in the same partitions: records of a tenant are stored in their order.
    fn defer_elsewhere(&mut self, items: &[Item], parts: &mut [Vec<Item>]) {
        let tenants = self.batches.take_elsewhere();
        if tenants.is_empty() {
            return;
        }
        for item in items {
            if let Some(tenant) = item.tenant.as_ref().filter(|tenant| tenants.contains(tenant)) {
                let place = (Arc::clone(&item.at.topic), item.at.partition);
                self.deferral.defer_from(place, tenant, item.at.offset);
            }
        }
        parts.iter_mut().flatten().for_each(|item| self.deferral.defer_behind(item));
    }

    async fn attempt_store(
        &mut self,
        items: &[Item],
        positions: &mut Positions,
        effects: Effects,
    ) -> Result<(), StoreFailure> {
        let stored =
            separate_failures(&self.resources.store, self.batches.store_items(items, positions, effects))
                .await;
        if matches!(&stored, Err(StoreFailure::Record(failure)) if failure.is_timeout()) {
            self.ran_out_of_time = true;
            self.bound.shrink(items.len());
        }
        stored
    }

    /// Retries a failed record separately until it has failed [`RECORD_TRIES_LIMIT`] times.
    async fn attempt_alone(
        &mut self,
        item: &Item,
        positions: &mut Positions,
        effects: Effects,
        mut failure: Failure,
    ) -> Result<(), StoreFailure> {
        for _ in 1..RECORD_TRIES_LIMIT {
            tokio::time::sleep(self.retry_pause()).await;
            match self.attempt_store(std::slice::from_ref(item), positions, effects).await {
                Err(StoreFailure::Record(again)) => failure = again,
                ended => return ended,
            }
        }
        Err(failure.into())
    }

    /// Returns true if another record of the batch could be stored, or if there is none to compare with. If a
    /// single record runs out of time, the database may be slow for all records, so the result is false.
    async fn another_succeeds(
        &mut self,
        parts: &[Vec<Item>],
        positions: &Positions,
        effects: Effects,
        failure: &Failure,
    ) -> Result<bool, IndexerError> {
        let others: Vec<&Item> = parts.iter().rev().flatten().filter(|item| item.is_stored()).collect();
        let step = others.len().div_ceil(REHEARSED_RECORDS_LIMIT).max(1);
        for other in others.iter().step_by(step) {
            let write = Write { positions, advance: true, effects, replay: None };
            let rehearsed = self.batches.rehearse_items(std::slice::from_ref(*other), &write);
            match separate_failures(&self.resources.store, rehearsed).await {
                Ok(()) => return Ok(true),
                Err(StoreFailure::Record(_) | StoreFailure::History(_) | StoreFailure::Moving) => {}
                Err(StoreFailure::Server(error)) => return Err(error),
            }
        }
        Ok(others.is_empty() && !failure.is_timeout())
    }
}

/// Reason why records could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreFailure {
    /// The records themselves fail: another attempt gives the same result.
    #[error("{}: {}", .0.reason, .0.detail)]
    Record(Failure),
    /// A report's row is in ClickHouse, which does not give it now.
    #[error("the row of a report is in ClickHouse, which does not give it now")]
    History(#[source] StoreError),
    /// A tenant began to move to another cell after the batch had looked at its place.
    #[error("a tenant is moving to another cell")]
    Moving,
    /// A server fails.
    #[error(transparent)]
    Server(#[from] IndexerError),
}

impl StoreFailure {
    /// Returns the failure of the records, or the error of the server.
    fn into_record_failure(self) -> Result<Failure, IndexerError> {
        match self {
            StoreFailure::Record(failure) => Ok(failure),
            StoreFailure::History(error) => Err(error.into()),
            StoreFailure::Moving => Err(StoreError::TenantMoving.into()),
            StoreFailure::Server(error) => Err(error),
        }
    }
}

impl From<Failure> for StoreFailure {
    fn from(failure: Failure) -> StoreFailure {
        StoreFailure::Record(failure)
    }
}

/// Separates failures of the records themselves, including panics, from failures of servers. A timeout of a
/// statement counts against the records if the database still answers.
async fn separate_failures(
    store: &Store,
    work: impl Future<Output = Result<(), StoreError>>,
) -> Result<(), StoreFailure> {
    match AssertUnwindSafe(Box::pin(work)).catch_unwind().await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if error.is_history() => Err(StoreFailure::History(error)),
        Ok(Err(StoreError::TenantMoving)) => Err(StoreFailure::Moving),
        Ok(Err(error)) if error.is_of_record() => Err(Failure::from_refusal(&error).into()),
        Ok(Err(error)) if error.is_timeout() => {
            store.ping().await.map_err(IndexerError::from)?;
            Err(Failure::timed_out(&error).into())
        }
        Ok(Err(error)) => Err(IndexerError::from(error).into()),
        Err(panic) => Err(Failure::from_panic(panic_text(&*panic)).into()),
    }
}

/// Returns the first of several items if all of them failed.
fn all_failed(items: &[Item]) -> Option<(&Item, &Failure)> {
    let compared: Vec<&Item> = items.iter().filter(|item| !item.is_deferred()).collect();
    let [first, _, ..] = compared.as_slice() else { return None };
    let all = compared.iter().all(|item| item.failure().is_some());
    first.failure().filter(|_| all).map(|failure| (*first, failure))
}

/// Splits the items into parts, the last part first. Each part ends with an item that failed or with the last
/// item, because the decision to skip a record depends on the records that were skipped before it.
fn ending_with_failures(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut parts: Vec<Vec<Item>> = vec![Vec::new()];
    for item in items {
        let ends = item.failure().is_some();
        if let Some(part) = parts.last_mut() {
            part.push(item);
        }
        if ends {
            parts.push(Vec::new());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.reverse();
    parts
}

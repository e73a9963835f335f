//! Reads one topic, or one topic and the tenants' topics of its kind. Shares the partitions with the other
//! indexers, continues at the stored positions, and stores the records.

mod assignment;
mod catch_up;
pub mod replay_target;

use crate::deferral::Deferral;
use crate::deferral::reader::{DeferredReader, Signals};
use crate::failure::IndexerError;
use crate::pipeline::Pipeline;
use crate::pipeline::resources::Resources;
use crate::topics::Positions;
use assignment::{Assignment, Lease};
use catch_up::CatchUp;
use parking_lot::Mutex;
use replay_target::ReplayTarget;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use unslide_model::format_causes;
use unslide_store::reports::Effects;
use unslide_store::{Store, StoreError, positions};
use unslide_stream::{BatchLimits, Record, SpreadConsumer, TopicPartition};

const FAILURE_BACKOFF: Duration = Duration::from_secs(1);
/// Pause after a failure that only an operator can fix.
const OPERATOR_FAILURE_BACKOFF: Duration = Duration::from_secs(5);
/// Interval at which the topic's metadata is read: for the lag, new partitions, and another topic under the
/// same name.
const METADATA_INTERVAL: Duration = Duration::from_secs(15);

/// Status of a reader, for its readiness probe. Cheap to clone.
#[derive(Clone)]
pub struct State {
    trouble: Arc<Mutex<Option<String>>>,
    caught_up: Arc<AtomicBool>,
    others: Arc<Mutex<Vec<ReplayTarget>>>,
    deferred_trouble: Arc<Mutex<Option<String>>>,
}

/// State of a session, which reads until the topics or their partitions change.
struct Session {
    topics: Vec<String>,
    /// True if some topic is not read.
    troubles: bool,
    assignment: Assignment,
    positions: Positions,
    pipeline: Pipeline,
    catch_up: CatchUp,
    signals: Signals,
}

impl State {
    fn new() -> State {
        State {
            trouble: Arc::new(Mutex::new(Some("has not begun to read".to_owned()))),
            caught_up: Arc::new(AtomicBool::new(false)),
            others: Arc::default(),
            deferred_trouble: Arc::default(),
        }
    }

    /// Returns the current problem as an error, if there is one.
    pub fn check_trouble(&self) -> Result<(), String> {
        let trouble = self.trouble.lock().clone().or_else(|| self.deferred_trouble.lock().clone());
        trouble.map_or(Ok(()), Err)
    }

    /// Returns true if all records that the logs held at the start are stored, by any indexer.
    ///
    /// # Errors
    /// Returns an error if the database does not return the positions of the other indexers.
    pub async fn caught_up(&self, store: &Store) -> Result<bool, StoreError> {
        if !self.caught_up.load(Ordering::SeqCst) {
            return Ok(false);
        }
        if self.others.lock().is_empty() {
            return Ok(true);
        }
        let positions = positions::read_stored_positions(store).await?;
        let mut others = self.others.lock();
        others.retain(|target| !target.is_reached(&positions));
        Ok(others.is_empty())
    }
}

/// A reader of one topic, and of tenants' topics of the same kind.
pub struct OutputReader {
    resources: Resources,
    /// Topics for which this reader may have leases.
    leased: Mutex<BTreeSet<String>>,
    owner: String,
    state: State,
}

impl OutputReader {
    /// Creates a reader that has not started. `owner` is its name among the readers that share partitions.
    pub fn new(resources: Resources, owner: String) -> OutputReader {
        OutputReader { resources, leased: Mutex::default(), owner, state: State::new() }
    }

    /// Returns the readiness messages for topics that are not read. They name no tenant; the log does.
    fn describe_troubles(&self, troubles: &[(Arc<str>, IndexerError)]) -> Vec<String> {
        let (shared, own): (Vec<_>, Vec<_>) =
            troubles.iter().partition(|(topic, _)| **topic == *self.resources.topics.shared);
        let mut told: Vec<String> = shared.iter().map(|(_, trouble)| format_causes(trouble)).collect();
        if !own.is_empty() {
            told.push(format!(
                "{} topics of single tenants are not read, the log says which and why",
                own.len()
            ));
        }
        told
    }

    /// Returns the status of the reader.
    pub fn state(&self) -> State {
        self.state.clone()
    }

    /// Announces this reader to the other readers of the topic.
    pub async fn announce_reader(&self) {
        let Lease { store, owner, time } = self.build_lease();
        if let Err(error) =
            positions::announce_reader(store, &self.resources.topics.shared, owner, time).await
        {
            tracing::debug!(error = format_causes(&error), "it is there once it asks for partitions");
        }
    }

    /// Reads until the shutdown begins, and restarts after every failure.
    pub async fn run(self) {
        let topic = &self.resources.topics.shared;
        while !self.resources.host.shutdown.is_begun() {
            let Err(trouble) = Box::pin(self.run_session()).await else { continue };
            if let IndexerError::Store(StoreError::Fenced { .. }) = trouble {
                // Another indexer has the partition, or an operator moved the position.
                tracing::warn!(kafka.topic = topic, error = %trouble, "a batch was given up");
                continue;
            }
            let text = format_causes(&trouble);
            let pause = if trouble.needs_operator() {
                tracing::error!(kafka.topic = topic, error = text, "the indexer does not read on");
                OPERATOR_FAILURE_BACKOFF
            } else {
                tracing::warn!(kafka.topic = topic, error = text, "reading failed and is tried again");
                FAILURE_BACKOFF
            };
            *self.state.trouble.lock() = Some(text);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.resources.host.shutdown.wait_until_begun() => {}
            }
        }
        let leased = std::mem::take(&mut *self.leased.lock());
        for topic in leased {
            if let Err(error) = positions::give_up(&self.resources.store, &topic, &self.owner).await {
                tracing::warn!(
                    kafka.topic = topic,
                    error = format_causes(&error),
                    "leases stay until they run out"
                );
            }
        }
    }

    /// Reads until the topics or their partitions change hands, something fails, or the shutdown begins.
    async fn run_session(&self) -> Result<(), IndexerError> {
        let lease = self.build_lease();
        let topics = self.resources.topics.list_existing(&self.resources.kafka).await?;
        self.leased.lock().extend(topics.iter().cloned());
        let mut assignment = Assignment::take_shares(&self.resources.kafka, &topics, &lease).await?;
        let positions = std::mem::take(&mut assignment.positions);
        let mut pipeline = Pipeline::new(&self.resources);
        pipeline.deferral().refresh_waiting(&positions).await?;
        let (troubles, catch_up) = self.begin_session(&assignment, &positions, pipeline.deferral());
        tracing::info!(kafka.topics = topics.len(), kafka.partitions = positions.len(), "reading");
        let signals = Signals::new(catch_up.is_behind(), Arc::clone(&self.state.deferred_trouble));
        let deferred = DeferredReader::new(&self.resources, positions.clone(), signals.clone());
        let session = Session { topics, troubles, assignment, positions, pipeline, catch_up, signals };
        tokio::select! {
            ended = self.read_batches(session, &lease) => ended,
            never = deferred.run() => match never {},
        }
    }

    async fn read_batches(&self, session: Session, lease: &Lease<'_>) -> Result<(), IndexerError> {
        let Session { topics, troubles, mut assignment, mut positions, mut pipeline, mut catch_up, signals } =
            session;
        let mut consumer = self.open_consumer(&positions)?;
        let third = Duration::from_secs(self.resources.settings.lease_seconds) / 3;
        let begun = Instant::now();
        let [mut shared, mut looked, mut listed] = [begun; 3];
        let refresh = Duration::from_millis(self.resources.kafka.topic_refresh_milliseconds);
        while !self.resources.host.shutdown.is_begun() {
            // An operator may have fixed the problem.
            if troubles && begun.elapsed() >= OPERATOR_FAILURE_BACKOFF {
                return Ok(());
            }
            if self.resources.topics.tenants
                && has_passed(&mut listed, refresh)
                && self.resources.topics.list_existing(&self.resources.kafka).await? != topics
            {
                return Ok(());
            }
            if has_passed(&mut shared, third) && !assignment.renew_leases(lease).await? {
                return Ok(());
            }
            if has_passed(&mut looked, METADATA_INTERVAL) {
                if !assignment.refresh_facts(&self.resources.kafka).await? {
                    return Ok(());
                }
                self.report_lag(&assignment, &positions, consumer.as_ref());
                if let Some(consumer) = &consumer {
                    pipeline.pass_offsets(&mut positions, |place| consumer.passed_offset(place)).await?;
                }
            }
            let Some(consumer) = &mut consumer else {
                let ended = self.resources.host.shutdown.wait_until_begun();
                let _ = tokio::time::timeout(third.min(refresh), ended).await;
                continue;
            };
            let records = tokio::select! {
                records = consumer.next_batch(self.batch_limits(pipeline.most_records())) => records?,
                () = self.resources.host.shutdown.wait_until_begun() => return Ok(()),
            };
            let is_behind = catch_up.is_behind();
            signals.busy.send_replace(!records.is_empty());
            let storing = self.store_batch(&mut pipeline, records, &mut positions, is_behind);
            if !assignment.keep_while(lease, third, storing).await? {
                return Ok(());
            }
            signals.busy.send_replace(false);
            if pipeline.deferral().has_waiting() {
                signals.deferred.notify_one();
            }
            if is_behind {
                pipeline.deferral().refresh_waiting(&positions).await?;
                let deferral = pipeline.deferral();
                let read_to = |place: &TopicPartition| {
                    positions.get(place).map(|at| at.next_offset).max(consumer.passed_offset(place))
                };
                if catch_up
                    .update_progress(|place| read_to(place).map(|next| deferral.stored_to(place, next)))
                {
                    let topic = &self.resources.topics.shared;
                    tracing::info!(kafka.topic = topic, "caught up with the log's end at the start");
                    self.state.caught_up.store(true, Ordering::SeqCst);
                    signals.behind.store(false, Ordering::SeqCst);
                    pipeline.pass_offsets(&mut positions, |place| consumer.passed_offset(place)).await?;
                }
            }
        }
        Ok(())
    }

    /// Creates a consumer that starts at the stored positions. Returns `None` if there are no partitions.
    fn open_consumer(&self, positions: &Positions) -> Result<Option<SpreadConsumer>, IndexerError> {
        let starts = positions.iter().map(|(place, at)| (place, at.next_offset));
        let consumer = (!positions.is_empty()).then(|| SpreadConsumer::open(&self.resources.kafka, starts));
        Ok(consumer.transpose()?)
    }

    fn build_lease(&self) -> Lease<'_> {
        let seconds = i64::try_from(self.resources.settings.lease_seconds).unwrap_or(i64::MAX);
        Lease { store: &self.resources.store, owner: &self.owner, time: time::Duration::seconds(seconds) }
    }

    /// Logs the topics that are read and those that are not. Returns true if some topic is not read, and the
    /// partitions that have to catch up.
    fn begin_session(
        &self,
        assignment: &Assignment,
        positions: &Positions,
        deferral: &Deferral,
    ) -> (bool, CatchUp) {
        for (topic, trouble) in &assignment.troubles {
            tracing::error!(kafka.topic = &**topic, error = format_causes(trouble), "a topic is not read");
        }
        // A problem with one tenant's topic must not block the others' requests.
        let whole = assignment.troubles.iter().all(|(topic, _)| **topic != *self.resources.topics.shared);
        let stored_to = |place: &TopicPartition, next| deferral.stored_to(place, next);
        let catch_up = CatchUp::new(assignment, positions, stored_to, whole);
        *self.state.others.lock() = assignment.list_other_targets(&self.resources.topics.shared);
        self.state.caught_up.store(catch_up.is_over(), Ordering::SeqCst);
        self.resources.skips.review_stop(positions);
        let troubles = self.describe_troubles(&assignment.troubles);
        *self.state.trouble.lock() = (!troubles.is_empty()).then(|| troubles.join("; "));
        (!troubles.is_empty(), catch_up)
    }

    fn batch_limits(&self, most_records: usize) -> BatchLimits {
        let settings = &self.resources.settings;
        BatchLimits {
            records: settings.batch_records.min(most_records),
            bytes: settings.batch_bytes,
            wait: settings.batch_wait(),
        }
    }

    async fn store_batch(
        &self,
        pipeline: &mut Pipeline,
        records: Vec<Record>,
        positions: &mut Positions,
        behind: bool,
    ) -> Result<(), IndexerError> {
        if records.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let effects = if behind { Effects::Deferred } else { Effects::Now };
        Box::pin(pipeline.store_records(records, positions, effects)).await?;
        self.resources.metrics.batch_seconds.observe(started.elapsed().as_secs_f64());
        Ok(())
    }

    fn report_lag(&self, assignment: &Assignment, positions: &Positions, consumer: Option<&SpreadConsumer>) {
        let behind = assignment.log_ends(positions).map(|(place, end)| {
            let stored = positions.get(&place).map_or(0, |at| at.next_offset);
            // The offsets after the last record may hold no records.
            let passed = consumer.and_then(|consumer| consumer.passed_offset(&place)).unwrap_or(stored);
            (end - stored.max(passed)).max(0)
        });
        self.resources.metrics.set_lag(&self.resources.label, behind.sum());
    }
}

/// Returns true if `time` has passed since `last`, and then sets `last` to now.
fn has_passed(last: &mut Instant, time: Duration) -> bool {
    let is_over = last.elapsed() >= time;
    if is_over {
        *last = Instant::now();
    }
    is_over
}

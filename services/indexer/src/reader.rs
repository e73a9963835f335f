//! Reads one topic, or one and those of tenants: shares their partitions with the other indexers, goes on from the stored
//! positions, and stores what comes.

use crate::apart;
use crate::batch::{self, Batches, Content, Item, Positions, Said, causes};
use crate::config::Settings;
use crate::enriched::Unreadable;
use crate::goals::Goal;
use crate::holding::{Holding, Lease, Topics};
use crate::metrics::Metrics;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use unslide_artifacts::ObjectStore;
use unslide_artifacts::segment::MAX_BODY_BYTES;
use unslide_proto::topics::TopicNames;
use unslide_report::ReadLimits;
use unslide_runtime::{CpuError, Host};
use unslide_store::positions;
use unslide_store::reports::Effects;
use unslide_store::{Store, StoreError};
use unslide_stream::{BatchLimits, Place, Record, SpreadConsumer, StreamError};

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after a failure that only an operator can mend.
const LONG_PAUSE: Duration = Duration::from_secs(5);
/// How often the topic is asked what it is: for the lag, new partitions, and another topic under
/// the same name.
const LOOK: Duration = Duration::from_secs(15);

/// Why a reader cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("reading records failed")]
    Cpu(#[from] CpuError),
    #[error("a body that was kept apart can't be fetched")]
    Objects(#[from] unslide_artifacts::StoreError),
    #[error(
        "the topic {topic} is another one than was read before (its id was {was} and is {is}): its offsets mean \
         something else, so nothing is stored until an operator resets the positions (unslide migrate --topics \
         --recover)"
    )]
    OtherTopic { topic: String, was: String, is: String },
    #[error(
        "the position {offset} of {topic}/{partition} lies outside the log ({start}..={end}): records are missing, so \
         nothing is stored until an operator resets the position (unslide migrate --topics --recover)"
    )]
    OutOfRange { topic: String, partition: i32, offset: i64, start: i64, end: i64 },
}

impl Trouble {
    /// True where nothing will change by itself.
    fn needs_operator(&self) -> bool {
        matches!(
            self,
            Trouble::OtherTopic { .. }
                | Trouble::OutOfRange { .. }
                | Trouble::Stream(StreamError::OutOfRange { .. })
        ) || matches!(self, Trouble::Objects(error) if error.is_operators_fault())
    }
}

/// How a reader does, for its probe. Cheap to clone.
#[derive(Clone)]
pub struct State {
    trouble: Arc<Mutex<Option<String>>>,
    caught_up: Arc<AtomicBool>,
    others: Arc<Mutex<Vec<Goal>>>,
}

impl State {
    fn new() -> State {
        State {
            trouble: Arc::new(Mutex::new(Some("has not begun to read".to_owned()))),
            caught_up: Arc::new(AtomicBool::new(false)),
            others: Arc::default(),
        }
    }

    /// What is wrong, if anything is.
    pub fn check(&self) -> Result<(), String> {
        self.trouble.lock().clone().map_or(Ok(()), Err)
    }

    /// True where everything that the logs held at the start was stored, whoever reads it.
    ///
    /// # Errors
    /// Where the database does not tell how far the others are.
    pub async fn caught_up(&self, store: &Store) -> Result<bool, StoreError> {
        if !self.caught_up.load(Ordering::SeqCst) {
            return Ok(false);
        }
        if self.others.lock().is_empty() {
            return Ok(true);
        }
        let positions = positions::all(store).await?;
        let mut others = self.others.lock();
        others.retain(|goal| !goal.is_reached(&positions));
        Ok(others.is_empty())
    }
}

/// What is in work, until it is dropped.
struct InWork<'a> {
    metrics: &'a Metrics,
    topic: &'a str,
}

impl InWork<'_> {
    fn is(&self, bytes: usize) {
        self.metrics.in_work(self.topic, bytes);
    }
}

impl Drop for InWork<'_> {
    fn drop(&mut self) {
        self.is(0);
    }
}

/// A reader of one topic, and of tenants' topics of the same kind.
pub struct Reader {
    topics: Topics,
    names: TopicNames,
    /// Topics of which this reader may have leases.
    leased: Mutex<BTreeSet<String>>,
    content: Content,
    owner: String,
    settings: Settings,
    kafka: unslide_stream::Settings,
    store: Store,
    objects: ObjectStore,
    host: Host,
    metrics: Metrics,
    state: State,
}

impl Reader {
    /// A reader that has not begun.
    #[expect(clippy::too_many_arguments, reason = "everything that the reader lives in, named at one place")]
    pub fn new(
        topics: Topics,
        content: Content,
        owner: String,
        settings: Settings,
        kafka: unslide_stream::Settings,
        store: Store,
        objects: ObjectStore,
        host: Host,
        metrics: Metrics,
    ) -> Reader {
        let (names, leased) = (kafka.topics(), Mutex::default());
        let state = State::new();
        Reader {
            topics,
            names,
            leased,
            content,
            owner,
            settings,
            kafka,
            store,
            objects,
            host,
            metrics,
            state,
        }
    }

    /// What readiness says of topics that are not read. It names no tenant's: the log does.
    fn told(&self, troubles: &[(Arc<str>, Trouble)]) -> Vec<String> {
        let (shared, own): (Vec<_>, Vec<_>) =
            troubles.iter().partition(|(topic, _)| **topic == *self.topics.shared);
        let mut told: Vec<String> = shared.iter().map(|(_, trouble)| causes(trouble)).collect();
        if !own.is_empty() {
            told.push(format!(
                "{} topics of single tenants are not read, the log says which and why",
                own.len()
            ));
        }
        told
    }

    /// How it does.
    pub fn state(&self) -> State {
        self.state.clone()
    }

    /// Reads until the shutdown begins, whatever goes wrong meanwhile.
    pub async fn run(self) {
        let topic = &self.topics.shared;
        while !self.host.shutdown.is_begun() {
            let Err(trouble) = self.session().await else { continue };
            if let Trouble::Store(StoreError::Fenced { .. }) = trouble {
                // Another indexer has the partition, or an operator moved the position.
                self.metrics.fenced.inc();
                tracing::warn!(kafka.topic = topic, error = %trouble, "a batch was given up");
                continue;
            }
            let text = causes(&trouble);
            let pause = if trouble.needs_operator() {
                tracing::error!(kafka.topic = topic, error = text, "the indexer does not read on");
                LONG_PAUSE
            } else {
                self.metrics.retries.inc();
                tracing::warn!(kafka.topic = topic, error = text, "reading failed and is tried again");
                PAUSE
            };
            *self.state.trouble.lock() = Some(text);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.host.shutdown.begun() => {}
            }
        }
        let leased = std::mem::take(&mut *self.leased.lock());
        for topic in leased {
            if let Err(error) = positions::give_up(&self.store, &topic, &self.owner).await {
                tracing::warn!(kafka.topic = topic, error = causes(&error), "leases stay until they run out");
            }
        }
    }

    /// Reads until the topics or their partitions change hands, something fails, or the shutdown begins.
    async fn session(&self) -> Result<(), Trouble> {
        let seconds = i64::try_from(self.settings.lease_seconds).unwrap_or(i64::MAX);
        let lease = Lease { store: &self.store, owner: &self.owner, time: time::Duration::seconds(seconds) };
        let topics = self.topics.now(&self.kafka).await?;
        self.leased.lock().extend(topics.iter().cloned());
        let mut holding = Holding::take(&self.kafka, &topics, &lease).await?;
        let mut positions = std::mem::take(&mut holding.positions);
        for (topic, trouble) in &holding.troubles {
            tracing::error!(kafka.topic = &**topic, error = causes(trouble), "a topic is not read");
        }
        // One tenant's topic must not keep the others' requests back.
        let whole = holding.troubles.iter().all(|(topic, _)| **topic != *self.topics.shared);
        let troubles = self.told(&holding.troubles);
        self.metrics.reading(&self.topics.shared, positions.len());
        let ends: BTreeMap<Place, i64> = holding.ends(&positions).collect();
        let mut behind: BTreeSet<Place> = positions
            .iter()
            .filter(|(place, at)| ends.get(*place) > Some(&at.next_offset))
            .map(|(place, _)| place.clone())
            .collect();
        *self.state.others.lock() = holding.of_others(&self.topics.shared);
        self.state.caught_up.store(behind.is_empty() && whole, Ordering::SeqCst);
        *self.state.trouble.lock() = (!troubles.is_empty()).then(|| troubles.join("; "));
        tracing::info!(kafka.topics = topics.len(), kafka.partitions = positions.len(), "reading");
        let mut consumer = match positions.is_empty() {
            true => None,
            false => {
                let starts = positions.iter().map(|(place, at)| (place, at.next_offset));
                Some(SpreadConsumer::open(&self.kafka, starts)?)
            }
        };
        let mut batches = Batches::new(self.store.clone(), self.metrics.clone(), &self.settings);
        let third = Duration::from_secs(self.settings.lease_seconds) / 3;
        let begun = Instant::now();
        let (mut shared, mut looked, mut listed) = (begun, begun, begun);
        let refresh = Duration::from_millis(self.kafka.topic_refresh_milliseconds);
        while !self.host.shutdown.is_begun() {
            if !troubles.is_empty() && begun.elapsed() >= LONG_PAUSE {
                // An operator may have put it right.
                return Ok(());
            }
            if self.topics.tenants && listed.elapsed() >= refresh {
                listed = Instant::now();
                if self.topics.now(&self.kafka).await? != topics {
                    return Ok(());
                }
            }
            if shared.elapsed() >= third {
                shared = Instant::now();
                if !holding.keep(&lease).await? {
                    return Ok(());
                }
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                if !holding.look(&self.kafka).await? {
                    return Ok(());
                }
                self.report_lag(&holding, &positions, consumer.as_ref());
                if let Some(consumer) = &consumer {
                    batches.pass(&mut positions, |place| consumer.passed(place)).await?;
                }
            }
            let Some(consumer) = &mut consumer else {
                tokio::select! {
                    () = tokio::time::sleep(third.min(refresh)) => {}
                    () = self.host.shutdown.begun() => {}
                }
                continue;
            };
            let records = consumer
                .next_batch(BatchLimits {
                    records: self.settings.batch_records,
                    bytes: self.settings.batch_bytes,
                    wait: self.settings.batch_wait(),
                })
                .await?;
            self.store_batch(records, &mut batches, &mut positions, !behind.is_empty()).await?;
            if !behind.is_empty() {
                let at =
                    |place: &Place| positions.get(place).map(|at| at.next_offset).max(consumer.passed(place));
                behind.retain(|place| at(place) < ends.get(place).copied());
                if behind.is_empty() && whole {
                    tracing::info!(
                        kafka.topic = self.topics.shared,
                        "caught up with the log's end at the start"
                    );
                    self.state.caught_up.store(true, Ordering::SeqCst);
                    batches.pass(&mut positions, |place| consumer.passed(place)).await?;
                }
            }
        }
        Ok(())
    }

    async fn store_batch(
        &self,
        records: Vec<Record>,
        batches: &mut Batches,
        positions: &mut Positions,
        behind: bool,
    ) -> Result<(), Trouble> {
        if records.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let limits = ReadLimits {
            max_bytes: self.kafka.max_output_bytes().max(MAX_BODY_BYTES),
            ..ReadLimits::default()
        };
        let effects = if behind { Effects::Deferred } else { Effects::Now };
        let requests = Arc::from(self.names.resymbolicate.as_str());
        let polled: usize = records.iter().map(Record::size).sum();
        let work = InWork { metrics: &self.metrics, topic: &self.topics.shared };
        work.is(polled);
        // Bodies that were kept apart are large: not more of them at once than a batch may have bytes.
        for records in apart::parts(records, self.settings.batch_bytes) {
            let read = apart::read(&self.objects, &self.host, records, self.settings.batch_wait());
            let records = read.await?;
            let fetched = || records.iter().filter(|fetched| fetched.key.is_some());
            self.metrics.apart.inc_by(u64::try_from(fetched().count()).unwrap_or_default());
            let bodies = fetched().filter_map(|fetched| fetched.record.value.as_ref());
            work.is(polled + bodies.map(bytes::Bytes::len).sum::<usize>());
            let mut items = batch::read(&self.host, self.content, records, limits, &requests).await?;
            self.refuse_foreign(&mut items);
            batches.store(items, positions, effects).await?;
        }
        self.metrics.batch_seconds.observe(started.elapsed().as_secs_f64());
        Ok(())
    }

    /// On one tenant's topic nobody else's report is believed.
    fn refuse_foreign(&self, items: &mut [Item]) {
        for item in items {
            if let Said::Report(report) = &item.said
                && let Some(owner) = self.topics.tenant_of(&self.names, &item.at.topic)
                && owner != report.tenant
            {
                let detail = format!("the topic is {owner}'s and the record says {}", report.tenant);
                item.said = Said::Unreadable(Unreadable { reason: "tenant_mismatch", detail });
            }
        }
    }

    fn report_lag(&self, holding: &Holding, positions: &Positions, consumer: Option<&SpreadConsumer>) {
        let behind = holding.ends(positions).map(|(place, end)| {
            let stored = positions.get(&place).map_or(0, |at| at.next_offset);
            // What lies behind the last record may be no record.
            let passed = consumer.and_then(|consumer| consumer.passed(&place)).unwrap_or(stored);
            (end - stored.max(passed)).max(0)
        });
        self.metrics.lag(&self.topics.shared, behind.sum());
    }
}

//! Reads one topic: shares its partitions with the other indexers, goes on from the stored
//! positions, and stores what comes.

use crate::batch::{self, Batches, Content, causes};
use crate::config::Settings;
use crate::metrics::Metrics;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use unslide_report::ReadLimits;
use unslide_runtime::{CpuError, Host};
use unslide_store::positions::{self, Position};
use unslide_store::reports::Effects;
use unslide_store::{Store, StoreError};
use unslide_stream::{
    BatchLimits, PositionedBatch, PositionedConsumer, StreamError, TopicFacts, topic_facts,
};

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after a failure that only an operator can mend.
const LONG_PAUSE: Duration = Duration::from_secs(5);
/// How often the topic is asked what it is: for the lag, new partitions, and another topic under
/// the same name.
const LOOK: Duration = Duration::from_secs(15);

/// Why a reader cannot go on.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("reading records failed")]
    Cpu(#[from] CpuError),
    #[error(
        "the topic {topic} is another one than was read before (its id was {was} and is {is}): its offsets mean \
         something else, so nothing is stored until an operator resets the positions"
    )]
    OtherTopic { topic: String, was: String, is: String },
    #[error(
        "the position {offset} of {topic}/{partition} lies outside the log ({start}..={end}): records are missing, so \
         nothing is stored until an operator resets the position"
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
        )
    }
}

/// How a reader does, for its probe. Cheap to clone.
#[derive(Clone)]
pub struct State {
    trouble: Arc<Mutex<Option<String>>>,
    caught_up: Arc<AtomicBool>,
}

impl State {
    fn new() -> State {
        State {
            trouble: Arc::new(Mutex::new(Some("has not begun to read".to_owned()))),
            caught_up: Arc::new(AtomicBool::new(false)),
        }
    }

    /// What is wrong, if anything is.
    pub fn check(&self) -> Result<(), String> {
        self.trouble.lock().clone().map_or(Ok(()), Err)
    }

    /// True where everything that the log held at the start was stored.
    pub fn caught_up(&self) -> bool {
        self.caught_up.load(Ordering::SeqCst)
    }
}

/// A reader of one topic.
pub struct Reader {
    topic: String,
    content: Content,
    owner: String,
    settings: Settings,
    kafka: unslide_stream::Settings,
    store: Store,
    host: Host,
    metrics: Metrics,
    state: State,
}

impl Reader {
    /// A reader that has not begun.
    #[expect(clippy::too_many_arguments, reason = "everything that the reader lives in, named at one place")]
    pub fn new(
        topic: String,
        content: Content,
        owner: String,
        settings: Settings,
        kafka: unslide_stream::Settings,
        store: Store,
        host: Host,
        metrics: Metrics,
    ) -> Reader {
        Reader { topic, content, owner, settings, kafka, store, host, metrics, state: State::new() }
    }

    /// How it does.
    pub fn state(&self) -> State {
        self.state.clone()
    }

    /// Reads until the shutdown begins, whatever goes wrong meanwhile.
    pub async fn run(self) {
        while !self.host.shutdown.is_begun() {
            let Err(trouble) = self.session().await else { continue };
            if let Trouble::Store(StoreError::Fenced { .. }) = trouble {
                // Another indexer has the partition, or an operator moved the position.
                self.metrics.fenced.inc();
                tracing::warn!(kafka.topic = self.topic, error = %trouble, "a batch was given up");
                continue;
            }
            let text = causes(&trouble);
            let pause = if trouble.needs_operator() {
                tracing::error!(kafka.topic = self.topic, error = text, "the indexer does not read on");
                LONG_PAUSE
            } else {
                self.metrics.retries.inc();
                tracing::warn!(kafka.topic = self.topic, error = text, "reading failed and is tried again");
                PAUSE
            };
            *self.state.trouble.lock() = Some(text);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.host.shutdown.begun() => {}
            }
        }
        if let Err(error) = positions::give_up(&self.store, &self.topic, &self.owner).await {
            tracing::warn!(
                kafka.topic = self.topic,
                error = causes(&error),
                "leases stay until they run out"
            );
        }
    }

    async fn share(&self, facts: &TopicFacts) -> Result<Vec<i32>, StoreError> {
        let partitions = facts.partitions.iter().map(|p| p.partition + 1).max().unwrap_or(0);
        let lease = time::Duration::seconds(i64::try_from(self.settings.lease_seconds).unwrap_or(i64::MAX));
        positions::share(&self.store, &self.topic, partitions, &self.owner, lease).await
    }

    /// The positions of these partitions, each checked against what the log holds.
    async fn positions(&self, facts: &TopicFacts, mine: &[i32]) -> Result<BTreeMap<i32, Position>, Trouble> {
        let mut found = BTreeMap::new();
        for held in facts.partitions.iter().filter(|p| mine.contains(&p.partition)) {
            let first = Position {
                topic: self.topic.clone(),
                partition: held.partition,
                topic_id: facts.id.to_string(),
                next_offset: held.start,
            };
            let position = positions::begin(&self.store, &first).await?;
            if position.topic_id != first.topic_id {
                let (topic, was, is) = (first.topic, position.topic_id, first.topic_id);
                return Err(Trouble::OtherTopic { topic, was, is });
            }
            if !(held.start..=held.end).contains(&position.next_offset) {
                return Err(Trouble::OutOfRange {
                    topic: first.topic,
                    partition: held.partition,
                    offset: position.next_offset,
                    start: held.start,
                    end: held.end,
                });
            }
            found.insert(held.partition, position);
        }
        Ok(found)
    }

    /// Reads until the partitions change hands, something fails, or the shutdown begins.
    async fn session(&self) -> Result<(), Trouble> {
        let mut facts = topic_facts(&self.kafka, &self.topic).await?;
        let mine = self.share(&facts).await?;
        let mut positions = self.positions(&facts, &mine).await?;
        self.metrics.reading(&self.topic, mine.len());
        let ends: BTreeMap<i32, i64> = facts.partitions.iter().map(|p| (p.partition, p.end)).collect();
        let mut behind: BTreeSet<i32> =
            positions.iter().filter(|(p, at)| ends.get(p) > Some(&at.next_offset)).map(|(p, _)| *p).collect();
        self.state.caught_up.store(behind.is_empty(), Ordering::SeqCst);
        *self.state.trouble.lock() = None;
        tracing::info!(kafka.topic = self.topic, kafka.partitions = ?mine, "reading");
        let starts: Vec<(i32, i64)> = positions.iter().map(|(p, at)| (*p, at.next_offset)).collect();
        let mut consumer = match starts.as_slice() {
            [] => None,
            starts => Some(PositionedConsumer::open(&self.kafka, &self.topic, starts).await?),
        };
        let mut batches = Batches::new(self.store.clone(), self.metrics.clone(), self.settings.keep_days);
        let third = Duration::from_secs(self.settings.lease_seconds) / 3;
        let (mut shared, mut looked) = (Instant::now(), Instant::now());
        while !self.host.shutdown.is_begun() {
            if shared.elapsed() >= third {
                shared = Instant::now();
                if self.share(&facts).await? != mine {
                    return Ok(());
                }
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                let now = topic_facts(&self.kafka, &self.topic).await?;
                if now.id != facts.id || now.partitions.len() != facts.partitions.len() {
                    return Ok(());
                }
                facts = now;
                self.report_lag(&facts, &positions);
            }
            let Some(consumer) = &mut consumer else {
                tokio::select! {
                    () = tokio::time::sleep(third) => {}
                    () = self.host.shutdown.begun() => {}
                }
                continue;
            };
            let batch = consumer
                .next_batch(BatchLimits {
                    records: self.settings.batch_records,
                    bytes: self.settings.batch_bytes,
                    wait: self.settings.batch_wait(),
                })
                .await?;
            let ended = batch.ends.clone();
            self.store_batch(batch, &mut batches, &mut positions, !behind.is_empty()).await?;
            if !behind.is_empty() {
                let there = |p: &i32| positions.get(p).map(|at| at.next_offset) >= ends.get(p).copied();
                behind.retain(|p| !ended.contains(p) && !there(p));
                if behind.is_empty() {
                    tracing::info!(kafka.topic = self.topic, "caught up with the log's end at the start");
                    self.state.caught_up.store(true, Ordering::SeqCst);
                }
            }
        }
        Ok(())
    }

    async fn store_batch(
        &self,
        batch: PositionedBatch,
        batches: &mut Batches,
        positions: &mut BTreeMap<i32, Position>,
        behind: bool,
    ) -> Result<(), Trouble> {
        if batch.records.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let limits =
            ReadLimits { max_bytes: self.kafka.max_output_bytes().max(20 << 20), ..ReadLimits::default() };
        let items = batch::read(&self.host, self.content, batch.records, limits).await?;
        let effects = if behind { Effects::Deferred } else { Effects::Now };
        batches.store(items, positions, effects).await?;
        self.metrics.batch_seconds.observe(started.elapsed().as_secs_f64());
        Ok(())
    }

    fn report_lag(&self, facts: &TopicFacts, positions: &BTreeMap<i32, Position>) {
        let behind = facts.partitions.iter().filter_map(|held| {
            let position = positions.get(&held.partition)?;
            Some((held.end - position.next_offset).max(0))
        });
        self.metrics.lag(&self.topic, behind.sum());
    }
}

//! A transactional lane: takes records from topics in a consumer group, has outputs made of them,
//! and writes all outputs together with the consumed offsets in one transaction.
//!
//! A lane is one OS thread. Only that thread polls, so the group's rebalances happen between
//! transactions and never within one, and no partition is given up while offsets of it are on
//! their way. The next batch is prepared on the async runtime while one is committed.

mod assignment;
mod batch;
mod engine;
mod fatal_records;
mod hang;
mod poll;
mod progress;
mod recovery;
#[cfg(test)]
mod tests;
mod transactions;

use crate::error::StreamError;
use crate::read::spread::BatchLimits;
use crate::record::{OutRecord, Record, RecordRef};
use crate::settings::Settings;
use crate::signal::Signal;
pub use fatal_records::suspects::Suspects;
use futures::future::BoxFuture;
use rdkafka::ClientConfig;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use unslide_proto::report::Outcome;

/// The result of one input record.
#[derive(Clone, Debug)]
pub struct Done {
    /// The record.
    pub source: RecordRef,
    /// The outputs for it, on any topics; may be empty if the account says so.
    pub outputs: Vec<OutRecord>,
    /// Its outcomes by tenant (empty: no valid tenant): one, or one for each report of an array.
    pub outcomes: Vec<(String, Outcome)>,
    /// How it was processed; `None` unless spans are exported.
    pub history: Option<Box<ProcessingHistory>>,
}

/// The times at which a record was processed, for the span that is exported once the transaction is committed.
#[derive(Clone, Debug, Default)]
pub struct ProcessingHistory {
    /// The app that its first report names.
    pub app: Option<String>,
    /// The steps of the work, in their order.
    pub steps: Vec<ProcessingStep>,
}

/// One step of the work on a record, in microseconds since the Unix epoch.
#[derive(Clone, Debug)]
pub struct ProcessingStep {
    /// The name of the step, such as `fetch symbols`.
    pub name: &'static str,
    /// The beginning.
    pub began_micros: i64,
    /// The end.
    pub ended_micros: i64,
}

/// Nothing can be prepared for now, and it is no record's fault.
#[derive(Clone, Debug)]
pub struct Pause {
    /// Why, for readiness and the log.
    pub reason: String,
    /// How long to wait before the next try.
    pub wait: Duration,
}

/// Why the lane itself ends a record's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The process died each time that this record was the first of its partition.
    KillsWorker {
        /// How often it was tried.
        attempts: u32,
    },
    /// The broker permanently refuses an output of this record.
    Unpublishable {
        /// The broker's error.
        detail: String,
    },
    /// Preparing this record panicked.
    Panicked {
        /// The panic's text.
        detail: String,
    },
}

/// The processing of a lane's records.
pub trait Processor: Send + Sync + 'static {
    /// Makes the outputs of a batch: one [`Done`] for each record, in the same order. If these would be too
    /// much at once, it makes those of the first records only, and of at least one: the others come again.
    /// Runs on the async runtime; while it runs, no transaction is open.
    ///
    /// # Errors
    /// [`Pause`] if it cannot be done now. The same records come again.
    fn prepare_batch(self: Arc<Self>, batch: Vec<Record>) -> BoxFuture<'static, Result<Vec<Done>, Pause>>;

    /// Returns when a polled record may be prepared; `None`, or a moment that is past: now. Called on the
    /// lane's thread, so it has to answer at once. The records behind it wait with it, other partitions
    /// don't. Such a wait is neither lag nor an attempt, and this is called again when it is over.
    fn not_before(&self, _record: &Record) -> Option<Instant> {
        None
    }

    /// Says whether records wait behind the batch that is prepared. The lane's thread calls it when the
    /// preparation begins and when it has polled further records. A preparation that waits for something can
    /// stop waiting then.
    fn on_records_queued(&self, _waits: bool) {}

    /// Called when this lane's partitions have changed: for limits that are shared out by partitions. Called
    /// on the lane's thread, as soon as the topics' numbers of partitions are known.
    fn on_assigned(&self, _shares: &[TopicShare]) {}

    /// Ends a record that cannot be processed: as a dead letter, with its bytes untouched.
    fn refuse_record(&self, record: &Record, why: &Refusal) -> Done;

    /// Returns further records of the transaction: the account of the work that it does.
    fn account_records(&self, done: &[&Done]) -> Vec<OutRecord>;

    /// Called when a transaction is committed: for metrics. `records` and `done` are in the same
    /// order.
    fn on_committed(&self, records: &[&Record], done: &[&Done]);
}

/// How many of a topic's partitions are this lane's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicShare {
    /// The topic's name.
    pub topic: Arc<str>,
    /// Partitions of it that are this lane's; at least one.
    pub partitions: BTreeSet<i32>,
    /// Partitions that it has.
    pub total: usize,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionEnd {
    /// Its outputs and offsets are visible.
    Committed,
    /// It was aborted and the batch is tried again.
    Aborted,
    /// Its end is not known: a new producer finds out.
    Unknown,
}

/// Figures of a lane, for metrics. Called on the lane's thread.
pub trait Observer: Send + Sync + 'static {
    /// Records that a transaction ended, with the seconds that it took.
    fn record_transaction(&self, _end: TransactionEnd, _seconds: f64) {}
    /// Records the bytes of input that are held: gathered, being prepared or being committed.
    fn in_flight(&self, _bytes: usize) {}
    /// Records of assigned partitions that wait, and offsets that open transactions hold back. Records
    /// that are not due yet, and those behind them, are not among them: more workers would not help.
    fn record_lag(&self, _records: i64, _open: i64) {}
    /// Records the bytes of fetched records in the client's queue.
    fn record_fetched(&self, _bytes: u64) {}
    /// Records the bytes of outputs in the client's queue that are not acknowledged.
    fn record_produced(&self, _bytes: usize) {}
    /// Partitions were given to this lane or taken from it.
    fn record_assigned(&self, _partitions: usize) {}
}

/// An observer that ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// One lane.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// The lane's name, such as `live`.
    pub name: String,
    /// The worker slot's name: the same over restarts, and no other process's at the same time.
    pub worker: String,
    /// The input topics, with the installation's prefix.
    pub topics: Vec<String>,
    /// A POSIX extended regular expression, beginning with `^`: topics that match it are read as well,
    /// also those that are created later.
    pub pattern: Option<String>,
    /// When a batch is full.
    pub batch: BatchLimits,
    /// Times; see [`Timings`].
    pub timings: Timings,
    /// The same for all lanes of a process.
    pub suspects: Suspects,
}

impl LaneConfig {
    /// Returns the name of its consumer group.
    fn group_name(&self, settings: &Settings) -> String {
        unslide_proto::lanes::consumer_group(&settings.topic_prefix, &self.name)
    }

    /// Returns its name in that group, and for transactions.
    fn member_name(&self, settings: &Settings) -> String {
        format!("{}unslide.{}.{}", settings.topic_prefix, self.name, self.worker)
    }

    /// Returns the topics and patterns that it subscribes to.
    fn list_subscriptions(&self) -> Vec<&str> {
        self.topics.iter().chain(&self.pattern).map(String::as_str).collect()
    }

    /// Returns the options of its consumer, for its member of the group.
    fn consumer_config(&self, settings: &Settings, member: &str) -> ClientConfig {
        let mut config = settings.consumer_config();
        config
            .set("group.id", self.group_name(settings))
            .set("group.instance.id", member)
            .set("auto.offset.reset", "earliest")
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", self.timings.session.as_millis().to_string())
            // A member hears of a rebalance by its heartbeat.
            .set("heartbeat.interval.ms", (self.timings.session / 10).as_millis().to_string())
            .set("max.poll.interval.ms", self.timings.poll_interval.as_millis().to_string())
            .set("fetch.wait.max.ms", self.timings.fetch.as_millis().to_string())
            // A new partition, or a topic that matches the pattern, is found when the client looks at the topics again.
            .set("topic.metadata.refresh.interval.ms", settings.topic_refresh_milliseconds.to_string())
            .set("statistics.interval.ms", "5000");
        config
    }
}

/// The times that a lane keeps. The defaults make the stall after a kill less than thirty seconds.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// After this long the broker aborts a transaction that has not ended. A call into the Kafka client that
    /// takes more than three times as long counts as hung.
    pub transaction: Duration,
    /// After this long without a sign of life a member's partitions go to others.
    pub session: Duration,
    /// A lane that does not poll for this long counts as hung.
    pub poll_interval: Duration,
    /// A lane that has messages and commits no transaction for this long is stalled.
    pub stall: Duration,
    /// How long a broker keeps its answer back while no record comes. A partition that was held back and is
    /// due waits for that answer.
    pub fetch: Duration,
}

impl Default for Timings {
    fn default() -> Timings {
        Timings {
            transaction: Duration::from_secs(15),
            session: Duration::from_secs(10),
            poll_interval: Duration::from_secs(60),
            stall: Duration::from_secs(60),
            fetch: Duration::from_millis(100),
        }
    }
}

/// The present state of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneStatus {
    /// True once the group has taken this member in.
    pub joined: bool,
    /// Partitions assigned to it.
    pub partitions: usize,
    /// The reason why no record is processed for now.
    pub paused: Option<String>,
    /// Messages wait, they are not held back, and no transaction was committed for [`Timings::stall`].
    pub stalled: bool,
    /// Transactions committed since the start.
    pub commits: u64,
    /// Records of those transactions.
    pub records: u64,
    /// The thread has ended.
    pub ended: bool,
}

/// The reason for which a lane ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// A client could not be made or is permanently broken.
    #[error("the lane {lane} cannot continue")]
    Client {
        /// The lane's name.
        lane: String,
        /// The error.
        #[source]
        source: Box<StreamError>,
    },
    /// Another process uses the same worker name.
    #[error(
        "the lane {lane} was fenced several times: another process uses the worker name {worker}. Give each process its own name"
    )]
    Fenced {
        /// The lane's name.
        lane: String,
        /// The name that both use.
        worker: String,
    },
    /// The processor gave another number of results than it was given records.
    #[error("the lane {lane} got {got} results for {asked} records")]
    Miscount {
        /// The lane's name.
        lane: String,
        /// Results.
        got: usize,
        /// Records.
        asked: usize,
    },
    /// A call into the Kafka client did not come back in time: the thread may hang forever, so the process
    /// has to end without waiting for it.
    #[error("the lane {lane} hangs in the Kafka client ({call}): the process has to end")]
    Stuck {
        /// The lane's name.
        lane: String,
        /// The call.
        call: &'static str,
    },
    /// The thread panicked.
    #[error("the lane {lane} panicked")]
    Panicked {
        /// The lane's name.
        lane: String,
    },
}

/// State that a lane's handle and its thread share.
#[derive(Debug, Default)]
pub(crate) struct Control {
    asked: AtomicBool,
    deadline: parking_lot::Mutex<Option<Instant>>,
    /// Raised when there is something to poll, or to stop for.
    signal: Arc<Signal>,
    watch: hang::Watch,
    /// Threads of calls that the lane no longer waits for.
    hung_calls: parking_lot::Mutex<Vec<std::thread::JoinHandle<()>>>,
}

impl Control {
    fn is_stop_requested(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    fn is_expired(&self) -> bool {
        self.deadline.lock().is_some_and(|at| Instant::now() >= at)
    }
}

/// A running lane. Dropped, it stops as fast as it can.
pub struct Lane {
    status: watch::Receiver<LaneStatus>,
    control: Arc<Control>,
    end: Option<oneshot::Receiver<Result<(), LaneError>>>,
    name: String,
}

type EndSender = oneshot::Sender<Result<(), LaneError>>;

/// How a lane's end becomes known: by its thread, or by the watch over a call that hangs.
#[derive(Clone)]
struct Ending {
    lane: String,
    /// Taken by whichever comes first.
    ended: Arc<parking_lot::Mutex<Option<EndSender>>>,
    status: watch::Sender<LaneStatus>,
}

impl Ending {
    fn report_end(&self, result: Result<(), LaneError>) {
        if let Some(ended) = self.ended.lock().take() {
            // The receiver may be gone.
            let _ = ended.send(result);
        }
    }

    /// Ends if a call of the lane has not come back within the limit.
    async fn watch_for_hang(self, control: Arc<Control>, limit: Duration) {
        let call = control.watch.wait_for_overrun(limit).await;
        let error = LaneError::Stuck { lane: self.lane.clone(), call };
        tracing::error!(error = &error as &dyn std::error::Error, "a lane hangs");
        self.status.send_modify(|s| s.stalled = true);
        self.report_end(Err(error));
    }

    fn report_thread_end(&self, result: Result<(), LaneError>) {
        if let Err(error) = &result {
            tracing::error!(lane = self.lane, error = error as &dyn std::error::Error, "a lane ended");
        }
        self.status.send_modify(|s| s.ended = true);
        self.report_end(result);
    }
}

impl Lane {
    /// Starts the lane's thread. Preparation runs on the runtime that this is called on.
    ///
    /// # Errors
    /// [`StreamError::Settings`] for settings that cannot work. Kafka need not be there yet.
    pub fn start<P: Processor>(
        settings: &Settings,
        config: LaneConfig,
        processor: Arc<P>,
        observer: Arc<dyn Observer>,
    ) -> Result<Lane, StreamError> {
        Lane::start_with(settings, config, processor, observer, |_| {})
    }

    /// Does the same; `tune` may change the engine before it runs.
    fn start_with<P: Processor>(
        settings: &Settings,
        config: LaneConfig,
        processor: Arc<P>,
        observer: Arc<dyn Observer>,
        tune: impl FnOnce(&mut engine::Engine<P>) + Send + 'static,
    ) -> Result<Lane, StreamError> {
        settings.require_valid()?;
        let (sender, status) = watch::channel(LaneStatus::default());
        let control = Arc::new(Control::default());
        let (ended, end) = oneshot::channel();
        let name = config.name.clone();
        let ending = Ending {
            lane: name.clone(),
            ended: Arc::new(parking_lot::Mutex::new(Some(ended))),
            status: sender.clone(),
        };
        let runtime = tokio::runtime::Handle::current();
        let limit = hang::call_limit(config.timings.transaction);
        let watchdog = runtime.spawn(ending.clone().watch_for_hang(Arc::clone(&control), limit));
        let (lane_control, lane_settings) = (Arc::clone(&control), settings.clone());
        std::thread::Builder::new()
            .name(format!("lane {name}"))
            .spawn(move || {
                let work = std::panic::AssertUnwindSafe(|| {
                    engine::Engine::open(
                        &lane_settings,
                        config,
                        processor,
                        observer,
                        sender,
                        lane_control,
                        runtime,
                    )
                    .and_then(|mut engine| {
                        tune(&mut engine);
                        engine.run()
                    })
                });
                let panicked = || Err(LaneError::Panicked { lane: ending.lane.clone() });
                let result = std::panic::catch_unwind(work).unwrap_or_else(|_| panicked());
                watchdog.abort();
                ending.report_thread_end(result);
            })
            .map_err(|e| StreamError::Settings(format!("no thread for the lane {name}: {e}")))?;
        Ok(Lane { status, control, end: Some(end), name })
    }

    /// Returns the lane's status, to be watched.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<LaneStatus> {
        self.status.clone()
    }

    /// Asks the lane to stop: it takes no more records, ends the work that it has begun, commits, and leaves.
    /// Work that is not done `within` is given up; no record is lost by that. Returns at once.
    pub fn stop(&self, within: Duration) {
        *self.control.deadline.lock() = Some(Instant::now() + within);
        self.control.asked.store(true, Ordering::Release);
        self.control.signal.raise();
    }

    /// Waits for the lane's end. It does not wait forever for a thread that hangs in the client: the process
    /// is expected to end then, and must not join the thread.
    ///
    /// # Errors
    /// The reason of an end that the caller did not ask for; [`LaneError::Stuck`] also while it is stopping.
    pub async fn wait_for_end(&mut self) -> Result<(), LaneError> {
        match self.end.as_mut() {
            None => Ok(()),
            Some(end) => {
                let result = end.await;
                self.end = None;
                result.unwrap_or_else(|_| Err(LaneError::Panicked { lane: self.name.clone() }))
            }
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if !self.control.is_stop_requested() {
            self.stop(Duration::ZERO);
        }
    }
}

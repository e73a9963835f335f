//! The lane against a real Kafka. The processor here copies each record to the output topic and does
//! what the record's text says.

use super::engine::Engine;
use super::*;
use crate::read::scan;
use crate::tests::ANSWER;
use crate::topics::admin;
use crate::{BatchLimits, Producer};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use unslide_testkit::servers;

mod aborted;
mod attempts;
mod deadly;
mod hang;
mod held;
mod markers;
mod membership;
mod memory;
mod rejoined;
mod slow;
mod tenant_topics;
mod unconfirmed;

pub(super) type Failpoint = Arc<dyn Fn() -> bool + Send + Sync>;

/// What goes wrong where a failpoint says `true`, whatever the producer.
#[derive(Default)]
pub(super) struct Faults {
    /// A transaction is aborted.
    pub aborted: Option<Failpoint>,
    /// A transaction is aborted because a topic is missing.
    pub missing: Option<Failpoint>,
    /// A transaction is committed and the answer is lost.
    pub unanswered: Option<Failpoint>,
    /// A partition cannot be set back to a record that is not due.
    pub not_set_back: Option<Failpoint>,
    /// The producer cannot be started for now.
    pub no_producer: Option<Failpoint>,
}

fn incompressible(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..bytes).map(next).collect()
}

struct Copier {
    names: unslide_proto::topics::TopicNames,
    pauses: Mutex<u32>,
    /// How long a pause lasts.
    pause: Mutex<Duration>,
    slow: Duration,
    /// Texts of records that are not due.
    held: Mutex<BTreeSet<String>>,
    /// After how long these are looked at again.
    hold: Mutex<Duration>,
    /// Partitions with a record that was held back.
    holding: Mutex<BTreeSet<i32>>,
    /// While false nothing gets prepared.
    open: watch::Sender<bool>,
    /// The batch that begins a partition panics when it is prepared again.
    panics_again: AtomicBool,
    /// What was given to prepare, in order.
    prepared: Mutex<Vec<RecordRef>>,
    shares: Mutex<Vec<TopicShare>>,
    /// True once a record was begun that kills its worker: then the process is as good as dead.
    dead: watch::Sender<bool>,
}

impl Copier {
    fn new(names: unslide_proto::topics::TopicNames, slow: Duration) -> Arc<Copier> {
        Arc::new(Copier {
            names,
            pauses: Mutex::new(0),
            pause: Mutex::new(Duration::from_millis(50)),
            slow,
            held: Mutex::default(),
            hold: Mutex::new(Duration::from_millis(100)),
            holding: Mutex::default(),
            open: watch::Sender::new(true),
            panics_again: AtomicBool::new(false),
            prepared: Mutex::default(),
            shares: Mutex::default(),
            dead: watch::Sender::new(false),
        })
    }

    fn one(&self, record: &Record) -> Done {
        let text = record.value.clone().unwrap_or_default();
        assert_ne!(&text[..], b"panic", "asked to");
        let large = text.ends_with(b"too large");
        let value = if large { incompressible(3 << 20).into() } else { text };
        self.done(record, &self.names.output, value, Outcome::Symbolicated, "")
    }

    fn done(
        &self,
        record: &Record,
        topic: &str,
        value: bytes::Bytes,
        outcome: Outcome,
        reason: &'static str,
    ) -> Done {
        let source = format!("{:?}", record.at);
        let output = OutRecord::for_topic(topic, value).header("source", source).header("reason", reason);
        Done {
            source: record.at.clone(),
            outputs: vec![output],
            outcomes: vec![(String::new(), outcome)],
            history: None,
        }
    }
}

impl Processor for Copier {
    fn prepare_batch(self: Arc<Self>, batch: Vec<Record>) -> BoxFuture<'static, Result<Vec<Done>, Pause>> {
        Box::pin(async move {
            let again = self.prepared.lock().contains(&batch[0].at);
            self.prepared.lock().extend(batch.iter().map(|record| record.at.clone()));
            let panics = self.panics_again.load(Ordering::SeqCst) && again;
            assert!(!panics || batch.len() == 1 || batch[0].at.offset > 0, "asked to");
            if batch.iter().any(|record| record.value.as_deref() == Some(b"kills")) {
                self.dead.send_replace(true);
                std::future::pending::<()>().await;
            }
            let _ = self.open.subscribe().wait_for(|open| *open).await;
            tokio::time::sleep(self.slow).await;
            let mut pauses = self.pauses.lock();
            let waits = batch.iter().any(|record| record.value.as_deref() == Some(b"not now"));
            if *pauses > 0 || waits {
                *pauses = pauses.saturating_sub(1);
                return Err(Pause { reason: "not now".into(), wait: *self.pause.lock() });
            }
            drop(pauses);
            Ok(batch.iter().map(|record| self.one(record)).collect())
        })
    }

    fn not_before(&self, record: &Record) -> Option<Instant> {
        let text = String::from_utf8(record.value.clone()?.to_vec()).ok()?;
        let is_held = self.held.lock().contains(&text);
        if is_held {
            self.holding.lock().insert(record.at.partition);
        }
        is_held.then(|| Instant::now() + *self.hold.lock())
    }

    fn on_assigned(&self, shares: &[TopicShare]) {
        *self.shares.lock() = shares.to_vec();
    }

    fn refuse_record(&self, record: &Record, why: &Refusal) -> Done {
        let reason = match why {
            Refusal::KillsWorker { .. } => "kills_worker",
            Refusal::Unpublishable { .. } => "unpublishable",
            Refusal::Panicked { .. } => "panicked",
        };
        let mut bytes = record.value.clone().unwrap_or_default();
        if &bytes[..] == b"far too large" {
            bytes = incompressible(3 << 20).into();
        }
        self.done(record, &self.names.dead_letter, bytes, Outcome::DeadLetter, reason)
    }

    fn account_records(&self, done: &[&Done]) -> Vec<OutRecord> {
        vec![OutRecord::for_topic(self.names.ledger.as_str(), done.len().to_string())]
    }

    fn on_committed(&self, _: &[&Record], _: &[&Done]) {}
}

struct Bench {
    settings: Settings,
    producer: Producer,
    /// How many records the tests saw last on a topic.
    seen: Mutex<BTreeMap<String, usize>>,
}

impl Bench {
    async fn new() -> Bench {
        // `RUST_LOG=debug` shows what the lanes say; a second test finds the subscriber set.
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let mut settings = Settings::single_broker(servers::kafka());
        settings.topic_prefix = format!("{}.", servers::unique("lane"));
        // The output takes a megabyte only, so that a larger one is refused by the broker.
        settings.max_record_bytes = 256 << 10;
        admin::create_topics(&settings).await.unwrap();
        settings.max_record_bytes = 8 << 20;
        let producer = Producer::new(&settings).unwrap();
        Bench { settings, producer, seen: Mutex::default() }
    }

    async fn input(&self, texts: impl IntoIterator<Item = String>) {
        let topic: Arc<str> = self.settings.topic_names().input.into();
        let records: Vec<OutRecord> = texts
            .into_iter()
            .map(|text| OutRecord::for_topic(Arc::clone(&topic), text.clone()).key(text))
            .collect();
        self.producer.send_all(&records).await.unwrap();
    }

    fn config(&self, worker: &str) -> LaneConfig {
        LaneConfig {
            name: "live".into(),
            worker: worker.into(),
            topics: vec![self.settings.topic_names().input],
            pattern: None,
            batch: BatchLimits { records: 20, bytes: 1 << 20, wait: Duration::from_millis(10) },
            timings: Timings::default(),
            suspects: Suspects::default(),
        }
    }

    fn copier(&self) -> Arc<Copier> {
        Copier::new(self.settings.topic_names(), Duration::from_millis(2))
    }

    fn start(&self, worker: &str, copier: &Arc<Copier>) -> Lane {
        Lane::start(&self.settings, self.config(worker), Arc::clone(copier), Arc::new(Unobserved)).unwrap()
    }

    /// Writes texts to one partition of the input.
    fn input_at(&self, partition: i32, texts: impl IntoIterator<Item = String>) {
        let texts: Vec<String> = texts.into_iter().collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        crate::tests::fill(&self.settings, &self.settings.topic_names().input, partition, &texts);
    }

    /// A lane that asks the failpoint before it commits: `true` kills it there.
    fn start_with(
        &self,
        worker: &str,
        failpoint: Failpoint,
    ) -> std::thread::JoinHandle<Result<(), LaneError>> {
        self.start_copier(worker, self.copier(), failpoint)
    }

    fn start_copier(
        &self,
        worker: &str,
        copier: Arc<Copier>,
        failpoint: Failpoint,
    ) -> std::thread::JoinHandle<Result<(), LaneError>> {
        let (settings, config) = (self.settings.clone(), self.config(worker));
        let runtime = tokio::runtime::Handle::current();
        std::thread::spawn(move || {
            let stop = Arc::new(Control::default());
            let (status, _) = watch::channel(LaneStatus::default());
            let mut engine =
                Engine::open(&settings, config, copier, Arc::new(Unobserved), status, stop, runtime)?;
            engine.producer.before_commit = Some(failpoint);
            engine.run()
        })
    }

    /// Everything committed on a topic: value and headers.
    async fn read(&self, topic: &str) -> Vec<Record> {
        // A new partition's leader may still be unknown to a client that is as new.
        for _ in 0..3_000 {
            if let Ok(records) = scan::whole_topic(&self.settings, topic).await {
                return records;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        scan::whole_topic(&self.settings, topic).await.unwrap()
    }

    /// Returns the records of a topic once `count` are committed. [`Bench::done`] finds what comes after them.
    async fn read_all(&self, topic: &str, count: usize) -> Vec<Record> {
        let mut records = self.read(topic).await;
        for _ in 0..1_500 {
            if records.len() >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            records = self.read(topic).await;
        }
        self.seen.lock().insert(topic.to_owned(), records.len());
        records
    }

    /// What is on the dead-letter topic once it holds `count` dead letters.
    async fn letters(&self, count: usize) -> Vec<Record> {
        self.read_all(&self.settings.topic_names().dead_letter, count).await
    }

    /// How often each source has an output once there are `count` outputs.
    async fn outputs(&self, count: usize) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for record in self.read_all(&self.settings.topic_names().output, count).await {
            *counts.entry(record.headers.get_text("source").unwrap().to_owned()).or_insert(0) += 1;
        }
        counts
    }

    /// Ends the test, whose lanes have ended: nothing may have come behind what it saw.
    async fn done(self) {
        let seen = self.seen.lock().clone();
        for (topic, count) in seen {
            assert_eq!(self.read(&topic).await.len(), count, "records of {topic} in the end and before");
        }
        admin::delete_topics(&self.settings).await.unwrap();
    }
}

/// Waits until the lane's status is as wanted.
async fn until(lane: &Lane, wanted: impl FnMut(&LaneStatus) -> bool) -> LaneStatus {
    let mut status = lane.status();
    let found = tokio::time::timeout(ANSWER, status.wait_for(wanted)).await;
    found.expect("the lane gets there").unwrap().clone()
}

async fn stop(mut lane: Lane) {
    lane.stop(ANSWER);
    tokio::time::timeout(ANSWER + Duration::from_secs(15), lane.wait_for_end()).await.unwrap().unwrap();
}

fn numbers(range: std::ops::Range<usize>) -> impl Iterator<Item = String> {
    range.map(|n| n.to_string())
}

#[track_caller]
fn assert_once(counts: &BTreeMap<String, usize>, records: usize) {
    let doubled: Vec<_> = counts.iter().filter(|(_, n)| **n != 1).collect();
    assert!(doubled.is_empty(), "not exactly once: {doubled:?}");
    assert_eq!(counts.len(), records);
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_killed_inside_a_transaction_loses_and_doubles_nothing() {
    let bench = Bench::new().await;
    bench.input(numbers(0..200)).await;
    let calls = std::sync::atomic::AtomicU32::new(0);
    // The third transaction is complete but for its commit.
    let killed = bench.start_with("w", Arc::new(move || calls.fetch_add(1, Ordering::SeqCst) == 2));
    tokio::task::spawn_blocking(move || killed.join().unwrap()).await.unwrap().unwrap();
    let before = bench.read(&bench.settings.topic_names().output).await.len();
    assert!((1..200).contains(&before), "{before} records were committed before the kill");
    let lane = bench.start("w", &bench.copier());
    assert_once(&bench.outputs(200).await, 200);
    stop(lane).await;
    bench.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_share_the_partitions_and_one_leaves() {
    let bench = Bench::new().await;
    bench.input(numbers(0..300)).await;
    let first = bench.start("a", &bench.copier());
    until(&first, |s| s.records > 0).await;
    let second = bench.start("b", &bench.copier());
    bench.input(numbers(300..600)).await;
    until(&second, |s| s.partitions == 2).await;
    bench.input(numbers(600..900)).await;
    assert_once(&bench.outputs(900).await, 900);
    // It has its part in that.
    until(&second, |s| s.records > 0).await;
    stop(first).await;
    bench.input(numbers(900..1000)).await;
    assert_once(&bench.outputs(1000).await, 1000);
    stop(second).await;
    bench.done().await;
}

/// Proves: one-outcome
#[tokio::test(flavor = "multi_thread")]
async fn records_that_cannot_be_processed_end_in_dead_letter_and_hold_nobody_up() {
    let bench = Bench::new().await;
    let mut texts: Vec<String> = numbers(0..60).collect();
    texts[7] = "panic".into();
    texts[23] = "too large".into();
    texts[24] = "too large".into();
    texts[40] = "far too large".into();
    bench.input(texts).await;
    let lane = bench.start("w", &bench.copier());
    assert_once(&bench.outputs(56).await, 56);
    let mut dead: Vec<(String, String)> = bench
        .letters(4)
        .await
        .iter()
        .map(|r| {
            let text = r.value.clone().map(|value| String::from_utf8(value.to_vec()).unwrap());
            let text = text.unwrap_or_else(|| r.headers.get_text("detail").unwrap_or_default().to_owned());
            (r.headers.get_text("reason").unwrap().to_owned(), text)
        })
        .collect();
    dead.sort();
    // One is too large for its dead letter as well, which says so.
    let without = dead.iter().position(|(_, text)| text.ends_with("and is not kept"));
    let (reason, detail) = dead.remove(without.expect("a letter without its bytes"));
    assert!(reason == "unpublishable" && detail.contains("3145728 bytes"), "{detail}");
    let expected = [("panicked", "panic"), ("unpublishable", "too large"), ("unpublishable", "too large")];
    assert_eq!(dead, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    stop(lane).await;
    bench.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_keeps_the_records_and_says_why() {
    let bench = Bench::new().await;
    let copier = bench.copier();
    // Until it was seen.
    *copier.pauses.lock() = u32::MAX;
    bench.input(numbers(0..30)).await;
    let lane = bench.start("w", &copier);
    let paused = until(&lane, |s| s.paused.is_some()).await;
    assert_eq!(paused.paused.as_deref(), Some("not now"));
    *copier.pauses.lock() = 0;
    assert_once(&bench.outputs(30).await, 30);
    until(&lane, |s| s.paused.is_none()).await;
    stop(lane).await;
    bench.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_what_was_begun_and_the_next_worker_takes_the_rest() {
    let bench = Bench::new().await;
    bench.input(numbers(0..200)).await;
    let (reached, at_point) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (released, calls) = (Mutex::new(released), std::sync::atomic::AtomicU32::new(0));
    // The second of ten batches is not committed before the lane is asked to stop.
    let halt: Failpoint = Arc::new(move || {
        if calls.fetch_add(1, Ordering::SeqCst) == 1 {
            let _ = reached.send(());
            let _ = released.lock().recv();
        }
        false
    });
    let tune = move |engine: &mut Engine<Copier>| engine.producer.before_commit = Some(halt);
    let lane =
        Lane::start_with(&bench.settings, bench.config("w"), bench.copier(), Arc::new(Unobserved), tune);
    let lane = lane.unwrap();
    tokio::task::spawn_blocking(move || at_point.recv().unwrap()).await.unwrap();
    lane.stop(ANSWER);
    drop(release);
    stop(lane).await;
    let taken = bench.read(&bench.settings.topic_names().output).await.len();
    assert!((1..200).contains(&taken), "{taken} were committed before the stop");
    let lane = bench.start("w", &bench.copier());
    assert_once(&bench.outputs(200).await, 200);
    stop(lane).await;
    bench.done().await;
}

//! Records that are not due yet.
//! Proves: one-outcome

use super::*;
use crate::tests::fill;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

/// How many outputs have their source in this partition.
fn sources(counts: &BTreeMap<String, usize>, partition: i32) -> usize {
    counts.keys().filter(|source| source.contains(&format!("/{partition}@"))).count()
}

/// The offset that the lane's group has committed for a partition of the input, with its metadata.
pub(super) fn committed(settings: &Settings, partition: i32) -> (Offset, String) {
    let mut config = settings.base_config();
    config.set("group.id", format!("{}unslide.live", settings.topic_prefix));
    let asker: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition(&settings.topic_names().input, partition);
    let answer = asker.committed_offsets(list, ANSWER).unwrap();
    let element = &answer.elements()[0];
    (element.offset(), element.metadata().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_not_due_holds_back_its_partition_only() {
    let bench = Bench::new().await;
    let copier = bench.copier();
    copier.held.lock().insert("first".into());
    bench.input_at(0, std::iter::once("first".to_owned()).chain(numbers(0..50)));
    for partition in 1..4 {
        bench.input_at(partition, numbers(0..50));
    }
    let mut config = bench.config("w");
    // The client may count fetched records as waiting until its next figures, five seconds later.
    config.timings.stall = Duration::from_secs(15);
    let lags = Arc::new(Lag::default());
    let lane = Lane::start(&bench.settings, config, copier.clone(), lags.clone()).unwrap();
    until(&lane, |s| s.records == 150).await;
    // The client's last figure may be from before that, when the other partitions' records still waited.
    lags.until_none().await;
    until(&lane, |s| !s.stalled).await;
    // It is looked at again and again, and waits each time.
    let mut status = lane.status();
    tokio::select! {
        seen = status.wait_for(|s| s.stalled) => panic!("waiting for a due time is no stall: {seen:?}"),
        () = lags.until(|figures| figures.len() >= 4) => {}
    }
    let counts = bench.outputs(150).await;
    assert_eq!((counts.len(), sources(&counts, 0)), (150, 0));
    assert_eq!(status.borrow().paused, None, "waiting for a due time is no pause");
    assert_eq!(committed(&bench.settings, 0), (Offset::Invalid, String::new()), "waiting is no attempt");
    copier.held.lock().clear();
    assert_once(&bench.outputs(201).await, 201);
    let order: Vec<i64> =
        copier.prepared.lock().iter().filter(|at| at.partition == 0).map(|at| at.offset).collect();
    assert_eq!(order, (0..51).collect::<Vec<i64>>(), "in order, each once");
    stop(lane).await;
    bench.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_held_back_is_waiting_for_the_next_worker() {
    let bench = Bench::new().await;
    let texts = ["a", "later", "b"].map(str::to_owned);
    bench.input_at(0, texts);
    let copier = bench.copier();
    copier.held.lock().insert("later".into());
    let lane = bench.start("w", &copier);
    until(&lane, |s| s.records == 1).await;
    assert_eq!(bench.outputs(1).await.len(), 1);
    stop(lane).await;
    assert_eq!(committed(&bench.settings, 0), (Offset::Offset(1), String::new()));
    let next = bench.copier();
    let lane = bench.start("w", &next);
    assert_once(&bench.outputs(3).await, 3);
    let offsets: Vec<i64> = next.prepared.lock().iter().map(|at| at.offset).collect();
    assert_eq!(offsets, [1, 2]);
    stop(lane).await;
    bench.done().await;
}

/// Waits until this number of partitions was held back.
async fn until_holding(copier: &Copier, partitions: usize) {
    let holding = async {
        while copier.holding.lock().len() < partitions {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(5 * ANSWER, holding).await.expect("the records are held back");
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_change_hands_while_held_back_go_on_with_their_owner() {
    let bench = Bench::new().await;
    for partition in 0..4 {
        bench.input_at(partition, std::iter::once("later".to_owned()).chain(numbers(0..20)));
    }
    let (first, second) = (bench.copier(), bench.copier());
    for copier in [&first, &second] {
        copier.held.lock().insert("later".into());
    }
    let a = bench.start("a", &first);
    until(&a, |s| s.partitions == 4).await;
    until_holding(&first, 4).await;
    let b = bench.start("b", &second);
    until(&b, |s| s.partitions == 2).await;
    until_holding(&second, 2).await;
    // Two go back to a worker that had held them before.
    stop(b).await;
    until(&a, |s| s.partitions == 4).await;
    first.holding.lock().clear();
    until_holding(&first, 4).await;
    let outputs = bench.outputs(0).await.len();
    assert_eq!((first.prepared.lock().len(), outputs), (0, 0));
    first.held.lock().clear();
    assert_once(&bench.outputs(84).await, 84);
    assert_eq!(second.prepared.lock().len(), 0);
    stop(a).await;
    bench.done().await;
}

/// The partition cannot be set back to its last record: nothing that comes behind it tells.
#[tokio::test(flavor = "multi_thread")]
async fn a_last_record_to_which_its_partition_was_not_set_back_comes_all_the_same() {
    let bench = Bench::new().await;
    bench.input_at(0, ["a", "later"].map(str::to_owned));
    let copier = bench.copier();
    copier.held.lock().insert("later".into());
    let failed = std::sync::atomic::AtomicU32::new(0);
    let (reached, at_point) = std::sync::mpsc::channel();
    let tune = move |engine: &mut Engine<Copier>| {
        engine.faults.not_set_back = Some(Arc::new(move || {
            let _ = reached.send(());
            failed.fetch_add(1, Ordering::SeqCst) == 0
        }));
    };
    let config = bench.config("w");
    let lane = Lane::start_with(&bench.settings, config, copier.clone(), Arc::new(Unobserved), tune).unwrap();
    tokio::task::spawn_blocking(move || at_point.recv().unwrap()).await.unwrap();
    copier.held.lock().clear();
    until(&lane, |s| s.records == 2).await;
    assert_once(&bench.outputs(2).await, 2);
    stop(lane).await;
    bench.done().await;
}

/// One partition is held back while so much comes on the others that fetching is paused and resumed.
#[tokio::test(flavor = "multi_thread")]
async fn flow_control_does_not_wake_what_is_held_back() {
    let bench = Bench::new().await;
    let copier = Copier::new(bench.settings.topic_names(), Duration::from_millis(20));
    copier.held.lock().insert("later".into());
    bench.input_at(0, std::iter::once("later".to_owned()).chain(numbers(0..200)));
    for partition in 1..4 {
        bench.input_at(partition, numbers(0..300));
    }
    let lane = bench.start("w", &copier);
    until(&lane, |s| s.records == 900).await;
    assert_eq!(sources(&bench.outputs(900).await, 0), 0);
    copier.held.lock().clear();
    assert_once(&bench.outputs(1101).await, 1101);
    let prepared = copier.prepared.lock().len();
    assert_eq!(prepared, 1101, "nothing was done twice");
    stop(lane).await;
    bench.done().await;
}

/// An observer that keeps each lag.
#[derive(Default)]
struct Lag(Mutex<Vec<i64>>);

impl Lag {
    /// Waits until the figures that the client makes from now on are as wanted.
    async fn until(&self, wanted: impl Fn(&[i64]) -> bool) {
        self.0.lock().clear();
        for _ in 0..3_000 {
            if wanted(&self.0.lock()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("these wait: {:?}", self.0.lock());
    }

    /// Waits until the client says anew that no record waits.
    async fn until_none(&self) {
        self.until(|figures| figures.contains(&0)).await;
    }
}

impl Observer for Lag {
    fn record_lag(&self, records: i64, _: i64) {
        self.0.lock().push(records);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_back_is_no_lag_and_neither_are_markers() {
    let bench = Bench::new().await;
    let copier = bench.copier();
    copier.held.lock().insert("later".into());
    // So often that the client's figures are made in the middle of it.
    *copier.hold.lock() = Duration::from_millis(3);
    bench.input_at(0, std::iter::once("later".to_owned()).chain(numbers(0..500)));
    // Transactions leave markers at the log's end, which nobody ever polls.
    let mut config = bench.settings.producer_config();
    config.set("transactional.id", format!("{}t", bench.settings.topic_prefix));
    let producer: rdkafka::producer::BaseProducer = config.create().unwrap();
    let input = bench.settings.topic_names().input;
    let transact = || {
        use rdkafka::producer::{BaseRecord, Producer as _};
        producer.init_transactions(ANSWER)?;
        producer.begin_transaction()?;
        let record: BaseRecord<'_, (), str> = BaseRecord::to(&input).partition(1).payload("x");
        producer.send(record).map_err(|(e, _)| e)?;
        producer.commit_transaction(ANSWER)
    };
    let made: rdkafka::error::KafkaResult<()> = transact();
    made.unwrap();
    fill(&bench.settings, &input, 2, &["y"]);
    let lags = Arc::new(Lag::default());
    let lane = Lane::start(&bench.settings, bench.config("w"), copier.clone(), lags.clone()).unwrap();
    until(&lane, |s| s.records == 2).await;
    lags.until_none().await;
    stop(lane).await;
    bench.done().await;
}

/// Somebody else takes the worker's name once: the lane begins again from what is committed, with a
/// partition held back.
#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_keeps_what_is_held_back_waiting() {
    use rdkafka::producer::Producer as _;
    let bench = Bench::new().await;
    let copier = bench.copier();
    copier.held.lock().insert("later".into());
    bench.input_at(0, ["a", "later", "b"].map(str::to_owned));
    bench.input_at(1, numbers(0..10));
    let lane = bench.start("w", &copier);
    until(&lane, |s| s.records == 11).await;
    let mut config = bench.settings.producer_config();
    config.set("transactional.id", format!("{}unslide.live.w", bench.settings.topic_prefix));
    let other: rdkafka::producer::BaseProducer = config.create().unwrap();
    other.init_transactions(ANSWER).unwrap();
    bench.input_at(1, numbers(10..30));
    until(&lane, |s| s.records == 31).await;
    assert_eq!(sources(&bench.outputs(31).await, 0), 1);
    copier.held.lock().clear();
    assert_once(&bench.outputs(33).await, 33);
    stop(lane).await;
    bench.done().await;
}

/// An observer that keeps the last count of open offsets.
#[derive(Default)]
struct Open(Mutex<i64>);

impl Observer for Open {
    fn record_lag(&self, _: i64, open: i64) {
        *self.0.lock() = open;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_that_an_open_transaction_holds_back_are_told_until_it_ends() {
    use rdkafka::producer::{BaseRecord, Producer as _};
    let bench = Bench::new().await;
    let mut config = bench.settings.producer_config();
    config.set("transactional.id", format!("{}t", bench.settings.topic_prefix));
    let producer: rdkafka::producer::BaseProducer = config.create().unwrap();
    let input = bench.settings.topic_names().input;
    producer.init_transactions(ANSWER).unwrap();
    producer.begin_transaction().unwrap();
    for _ in 0..3 {
        let record: BaseRecord<'_, (), str> = BaseRecord::to(&input).partition(1).payload("x");
        producer.send(record).map_err(|(e, _)| e).unwrap();
    }
    producer.flush(ANSWER).unwrap();
    let seen = Arc::new(Open::default());
    let lane = Lane::start(&bench.settings, bench.config("w"), bench.copier(), seen.clone()).unwrap();
    let told = async |wanted: i64| {
        for _ in 0..3_000 {
            if *seen.0.lock() == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{} and not {wanted}", seen.0.lock());
    };
    told(3).await;
    producer.commit_transaction(ANSWER).unwrap();
    told(0).await;
    until(&lane, |s| s.records == 3).await;
    stop(lane).await;
    bench.done().await;
}

//! The clients against a real Kafka.

use crate::read::scan;
use crate::topics::admin::{self, Created};
use crate::{
    BatchLimits, FencedProducer, OutRecord, Producer, Settings, SpreadConsumer, StreamError, TailEvent,
    TailReader, topic_facts, topics_facts,
};
use parking_lot::Mutex;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use std::sync::Arc;
use std::time::Duration;
use unslide_model::{Clock, FixedClock, SystemClock, TenantId};
use unslide_testkit::servers;

mod access;
mod fenced;
pub(crate) mod lossy_broker;
mod partitions;

async fn installation() -> Settings {
    let mut settings = Settings::single_broker(servers::kafka());
    settings.topic_prefix = format!("{}.", servers::unique("stream"));
    admin::create_topics(&settings).await.unwrap();
    settings
}

/// How long Kafka may take for an answer, also where the machine stalls.
pub(crate) const ANSWER: Duration = Duration::from_secs(60);
/// So many batches without a record take as long.
const BATCHES: usize = 120;
const LIMITS: BatchLimits = BatchLimits { records: 100, bytes: 1 << 20, wait: Duration::from_millis(500) };
/// For a batch that ends with a limit of its own, and not because nothing came in time.
const PATIENT: BatchLimits = BatchLimits { wait: ANSWER, ..LIMITS };

pub(crate) fn fill(settings: &Settings, topic: &str, partition: i32, texts: &[&str]) {
    let producer: BaseProducer = settings.producer_config().create().unwrap();
    for text in texts {
        let record: BaseRecord<'_, (), str> = BaseRecord::to(topic).partition(partition).payload(text);
        producer.send(record).map_err(|(e, _)| e).unwrap();
    }
    producer.flush(ANSWER).unwrap();
}

fn texts(records: &[crate::Record]) -> Vec<String> {
    records.iter().map(|r| String::from_utf8_lossy(r.value.as_ref().unwrap()).into_owned()).collect()
}

/// The texts of a topic's committed records, once there are `count`.
async fn read(settings: &Settings, topic: &str, count: usize) -> Vec<String> {
    for _ in 0..BATCHES {
        let read = scan::whole_topic(settings, topic).await.unwrap();
        if read.len() >= count {
            return texts(&read);
        }
        tokio::time::sleep(LIMITS.wait).await;
    }
    panic!("{topic} has no {count} records");
}

/// Proves: one-outcome
#[tokio::test]
async fn topics_are_created_once_and_checked() {
    let settings = installation().await;
    let again = admin::create_topics(&settings).await.unwrap();
    assert_eq!(again.len(), 18);
    assert!(again.iter().all(|(_, created)| *created == Created::Existing));
    admin::verify_topics(&settings).await.unwrap();

    let strict = Settings { replication_factor: 3, min_insync_replicas: 2, ..settings.clone() };
    let larger = Settings { max_record_bytes: settings.max_record_bytes + 1, ..settings.clone() };
    let elsewhere = Settings { topic_prefix: "nobody.".to_owned(), ..settings.clone() };
    for (wrong, word, count) in [
        (strict, "min.insync.replicas", 18),
        (larger, "max.message.bytes", 10),
        (elsewhere, "does not exist", 18),
    ] {
        match admin::verify_topics(&wrong).await {
            Err(StreamError::Topics(problems)) => {
                assert_eq!(problems.len(), count, "{problems:?}");
                assert!(problems.iter().all(|p| p.contains(word)), "{problems:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    // What somebody else made of a topic.
    let input = settings.topic_names().input;
    let kafka: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", servers::kafka()).create().unwrap();
    let (retry, overflow) = (settings.topic_names().retry_10s, settings.topic_names().overflow);
    for (topic, name, value) in [
        (&input, "message.timestamp.type", "CreateTime"),
        (&input, "unclean.leader.election.enable", "true"),
        (&input, "cleanup.policy", "compact"),
        (&retry, "retention.ms", "3600000"),
        (&overflow, "retention.ms", "0"),
        (&overflow, "retention.bytes", "1073741824"),
    ] {
        let change = AlterConfig::new(ResourceSpecifier::Topic(topic)).set(name, value);
        let changed = kafka.alter_configs([&change], &AdminOptions::new()).await.unwrap();
        assert_eq!(changed.len(), 1);
        let told = |p: &String| p.starts_with(topic.as_str()) && p.contains(name);
        let mut outcome = admin::verify_topics(&settings).await;
        for _ in 0..3_000 {
            if matches!(&outcome, Err(StreamError::Topics(problems)) if problems.iter().any(told)) {
                break;
            }
            // A broker takes a moment to go by what was changed.
            tokio::time::sleep(Duration::from_millis(100)).await;
            outcome = admin::verify_topics(&settings).await;
        }
        match outcome {
            Err(StreamError::Topics(problems)) => assert!(problems.iter().any(told), "{problems:?}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    admin::delete_topics(&settings).await.unwrap();
}

/// Proves: one-outcome
#[tokio::test]
async fn a_tenants_topics_are_made_checked_and_deleted() {
    let mut settings = installation().await;
    settings.tenant_topics = true;
    let names = settings.topic_names();
    let tenant = TenantId::new("acme-1").unwrap();
    let tenants = async || {
        let is =
            |topic: &str| names.tenant_of_input(topic).or_else(|| names.tenant_of_output(topic)).is_some();
        admin::topics_matching(&settings, is).await.unwrap()
    };
    assert_eq!(tenants().await, Vec::<String>::new());
    let made = admin::create_tenant_topics(&settings, &tenant).await.unwrap();
    assert_eq!(made, [names.tenant_output(&tenant), names.tenant_input(&tenant)].map(|n| (n, Created::New)));
    assert_eq!(tenants().await, [names.tenant_input(&tenant), names.tenant_output(&tenant)]);
    let again = admin::create_tenant_topics(&settings, &tenant).await.unwrap();
    assert!(again.iter().all(|(_, created)| *created == Created::Existing));
    admin::verify_topics(&settings).await.unwrap();
    let problems = async |settings: Settings| match admin::verify_topics(&settings).await {
        Err(StreamError::Topics(problems)) => problems.len(),
        other => panic!("{other:?}"),
    };
    let larger = Settings { max_record_bytes: settings.max_record_bytes + 1, ..settings.clone() };
    assert_eq!(problems(larger.clone()).await, 12);
    assert_eq!(problems(Settings { tenant_topics: false, ..larger }).await, 10);
    // An input without its output is its tenant's problem, and no reason not to start.
    admin::delete_all(&settings, &[&names.tenant_output(&tenant)]).await.unwrap();
    for _ in 0..3_000 {
        if tenants().await.len() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    admin::verify_topics(&settings).await.unwrap();
    admin::delete_tenant_topics(&settings, &tenant).await.unwrap();
    for _ in 0..3_000 {
        if tenants().await.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    admin::verify_topics(&settings).await.unwrap();
    admin::delete_topics(&settings).await.unwrap();
}

#[tokio::test]
async fn a_topic_that_was_created_anew_has_another_id() {
    let settings = installation().await;
    let topic = settings.topic_names().output;
    fill(&settings, &topic, 1, &["a", "b"]);
    let before = topic_facts(&settings, &topic).await.unwrap();
    assert_eq!(
        before.partitions.iter().map(|p| (p.partition, p.end)).collect::<Vec<_>>(),
        [(0, 0), (1, 2), (2, 0), (3, 0)]
    );
    assert_eq!(topic_facts(&settings, &topic).await.unwrap().id, before.id);
    admin::delete_topics(&settings).await.unwrap();
    let mut after = before.id;
    for _ in 0..3_000 {
        // A broker takes a moment to forget a deleted topic.
        tokio::time::sleep(Duration::from_millis(100)).await;
        if admin::create_topics(&settings).await.is_ok()
            && let Ok(facts) = topic_facts(&settings, &topic).await
        {
            after = facts.id;
            if after != before.id {
                break;
            }
        }
    }
    assert_ne!(after, before.id);
    assert!(matches!(
        topic_facts(&settings, "no.such.topic").await,
        Err(StreamError::NoTopic(name)) if name == "no.such.topic"
    ));
    admin::delete_topics(&settings).await.unwrap();
}

#[tokio::test]
async fn what_a_transaction_aborted_is_never_read() {
    let settings = installation().await;
    let topic = settings.topic_names().output;
    let mut config = settings.producer_config();
    config.set("transactional.id", format!("{topic}.t"));
    let producer: BaseProducer = config.create().unwrap();
    let send = |text: &str| {
        let record: BaseRecord<'_, (), str> = BaseRecord::to(&topic).partition(0).payload(text);
        producer.send(record).map_err(|(e, _)| e).unwrap();
    };
    let transactions = || {
        producer.init_transactions(ANSWER)?;
        producer.begin_transaction()?;
        send("never");
        producer.flush(ANSWER)?;
        producer.abort_transaction(ANSWER)?;
        producer.begin_transaction()?;
        send("seen");
        producer.commit_transaction(ANSWER)
    };
    let outcome: rdkafka::error::KafkaResult<()> = transactions();
    outcome.unwrap();
    // The end of a transaction is written after the commit was answered.
    assert_eq!(read(&settings, &topic, 1).await, ["seen"]);
    admin::delete_topics(&settings).await.unwrap();
}

#[tokio::test]
async fn a_table_is_read_to_its_end_and_followed() {
    let settings = installation().await;
    let topic = settings.topic_names().tenant_config;
    let producer = Producer::new(&settings).unwrap();
    let write = async |key: &str, value: &str| {
        producer
            .send_record(&OutRecord::for_topic(topic.as_str(), value.to_owned()).key(key.to_owned()))
            .await
            .unwrap()
    };
    let start = || {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&seen);
        let reader = TailReader::start(&settings, &topic, Arc::new(SystemClock), move |event| {
            if let TailEvent::Record(record) = event {
                told.lock().extend(texts(&[record]));
            }
        });
        (reader.unwrap(), seen)
    };
    // An empty table has an end as well.
    let (early, nothing) = start();
    tokio::time::timeout(ANSWER, early.caught_up()).await.unwrap().unwrap();
    assert!(nothing.lock().is_empty());
    drop(early);

    for n in 0..50 {
        write(&format!("k{n}"), &n.to_string()).await;
    }
    let (reader, seen) = start();
    tokio::time::timeout(ANSWER, reader.caught_up()).await.unwrap().unwrap();
    assert_eq!(seen.lock().len(), 50);
    // What was written before a refresh is known after it, without any other wait.
    for n in 50..55 {
        write("k", &n.to_string()).await;
        reader.refresh(ANSWER).await.unwrap();
        assert_eq!(seen.lock().last().map(String::as_str), Some(n.to_string().as_str()));
    }
    assert!(reader.progress().borrow().looked_at.is_some());
    admin::delete_topics(&settings).await.unwrap();
}

/// The markers of transactions are at the table's end, and are no records. The clock stands still, so that it says
/// nothing of what was read.
#[tokio::test]
async fn a_table_that_is_written_in_transactions_is_read_to_its_end() {
    let settings = installation().await;
    let topic = settings.topic_names().tenant_config;
    let producer = FencedProducer::start(&settings, "relay").await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let clock = Arc::new(FixedClock::at_micros(1_000_000));
    let reader = TailReader::start(&settings, &topic, clock, move |event| {
        if let TailEvent::Record(record) = event {
            told.lock().extend(texts(&[record]));
        }
    })
    .unwrap();
    tokio::time::timeout(ANSWER, reader.caught_up()).await.unwrap().unwrap();
    for n in 0..5 {
        producer.send_all(&[OutRecord::for_topic(topic.as_str(), n.to_string()).key("k")]).await.unwrap();
        reader.refresh(ANSWER).await.unwrap();
        assert_eq!(seen.lock().last().map(String::as_str), Some(n.to_string().as_str()));
    }
    // Nor does one that was aborted keep a reader from the end.
    producer.write_records(&[OutRecord::for_topic(topic.as_str(), "aborted").key("k")]).await.unwrap();
    let next = FencedProducer::start(&settings, "relay").await.unwrap();
    reader.refresh(ANSWER).await.unwrap();
    next.send_all(&[OutRecord::for_topic(topic.as_str(), "last").key("k")]).await.unwrap();
    reader.refresh(ANSWER).await.unwrap();
    assert_eq!(*seen.lock(), ["0", "1", "2", "3", "4", "last"]);
    admin::delete_topics(&settings).await.unwrap();
}

/// The system's clock with a wall clock that is set by hand.
#[derive(Default)]
struct SteppedClock(std::sync::atomic::AtomicI64);

impl Clock for SteppedClock {
    fn now(&self) -> time::OffsetDateTime {
        let step = self.0.load(std::sync::atomic::Ordering::SeqCst);
        SystemClock.now() + time::Duration::seconds(step)
    }

    fn monotonic_time(&self) -> Duration {
        SystemClock.monotonic_time()
    }
}

/// Proves: fairness
#[tokio::test]
async fn a_step_of_the_wall_clock_neither_stops_a_table_nor_has_it_read_anew() {
    let settings = installation().await;
    let topic = settings.topic_names().tenant_config;
    let (clock, gaps) = (Arc::new(SteppedClock::default()), Arc::new(Mutex::new(0)));
    let told = Arc::clone(&gaps);
    let reader = TailReader::start(&settings, &topic, clock.clone(), move |event| {
        if matches!(event, TailEvent::Gap) {
            *told.lock() += 1;
        }
    });
    let reader = reader.unwrap();
    let mut progress = reader.progress();
    for step in [-3_600, 3_600] {
        tokio::time::timeout(ANSWER, reader.caught_up()).await.unwrap().unwrap();
        clock.0.store(step, std::sync::atomic::Ordering::SeqCst);
        let before = progress.borrow_and_update().looked_at;
        let later = progress.wait_for(|p| p.looked_at > before);
        tokio::time::timeout(4 * ANSWER, later).await.unwrap().unwrap();
    }
    assert_eq!(*gaps.lock(), 0);
    admin::delete_topics(&settings).await.unwrap();
}

#[tokio::test]
async fn a_producer_says_where_a_record_is_and_which_is_too_large() {
    let settings = installation().await;
    let topic = settings.topic_names().ledger;
    let producer = Producer::new(&settings).unwrap();
    let first = producer.send_record(&OutRecord::for_topic(topic.as_str(), "a")).await.unwrap();
    let second = producer.send_record(&OutRecord::for_topic(topic.as_str(), "b")).await.unwrap();
    assert_eq!((first.offset, second.offset), (0, 1));
    assert_eq!(producer.probe_topic(&topic, ANSWER).await.unwrap(), 1);
    // The ledger takes a megabyte; what does not shrink below it is refused by the broker.
    let refused = producer.send_record(&OutRecord::for_topic(topic.as_str(), noise(2 << 20))).await;
    assert!(matches!(refused, Err(StreamError::TooLarge { bytes, .. }) if bytes > 2 << 20), "{refused:?}");
    let over = producer
        .send_record(&OutRecord::for_topic(topic.as_str(), vec![0; settings.max_output_bytes() + 1]))
        .await;
    assert!(matches!(over, Err(StreamError::TooLarge { .. })), "{over:?}");
    admin::delete_topics(&settings).await.unwrap();
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// Bytes of a producer's records in this state.
fn produced(producer: &Producer, state: &str) -> usize {
    let [bytes] = &Producer::PRODUCER_STATS;
    let found = (bytes.read)(producer).into_iter().find(|(name, _)| *name == state);
    found.map(|(_, figure)| figure as usize).unwrap()
}

#[tokio::test]
async fn a_producer_whose_broker_takes_nothing_holds_its_budget_and_lets_the_rest_wait() {
    const RECORD: usize = 60_000;
    // Somebody listens there who never answers.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = Settings::single_broker(mute.local_addr().unwrap().to_string());
    settings.max_record_bytes = 64 << 10;
    settings.budget.produced = 4 * settings.max_record_bytes;
    let producer = Producer::new(&settings).unwrap();
    let figure = |state| produced(&producer, state);
    let (told, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let senders: Vec<_> = (0..12)
        .map(|n| {
            let (producer, told) = (producer.clone(), told.clone());
            tokio::spawn(async move {
                let end = producer.send_record(&OutRecord::for_topic("nowhere", vec![n; RECORD])).await;
                let _ = told.send((n, end.unwrap_err().to_string()));
            })
        })
        .collect();
    while figure("queued") == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (queued, waiting) = (figure("queued"), figure("waiting"));
    assert!((RECORD..=settings.budget.produced + RECORD).contains(&queued), "{queued} bytes are queued");
    // The client counts values alone.
    assert_eq!(queued / RECORD + waiting / RECORD, 12, "{queued} bytes are queued, {waiting} wait");
    // The waiting sends fail when their patience is over, and take no memory any more.
    tokio::time::pause();
    for _ in 0..waiting / RECORD {
        let (n, end) = ends.recv().await.unwrap();
        assert!(usize::from(n) >= queued / RECORD, "{n} is in the queue: {end}");
        assert!(end.contains("QueueFull"), "{end}");
    }
    assert_eq!(figure("waiting"), 0);
    senders.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Proves: fairness
#[tokio::test]
async fn a_small_record_does_not_wait_for_large_ones() {
    // Somebody listens there who never answers.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = Settings::single_broker(mute.local_addr().unwrap().to_string());
    settings.max_record_bytes = 2 << 20;
    settings.budget.produced = 4 << 20;
    let producer = Producer::new(&settings).unwrap();
    let figure = |state| produced(&producer, state);
    let record = |bytes| OutRecord::for_topic("nowhere", vec![0_u8; bytes]);
    let mut large: Vec<_> = (0..6)
        .map(|_| {
            let (producer, record) = (producer.clone(), record(3 << 19));
            tokio::spawn(async move { producer.send_record(&record).await })
        })
        .collect();
    while figure("queued") == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let before = figure("waiting");
    assert!(before > 0, "the queue has room for all");
    let small = record(1 << 10);
    let mut small = std::pin::pin!(producer.send_record(&small));
    assert!(futures::poll!(&mut small).is_pending(), "the broker has not taken it");
    assert_eq!(figure("waiting"), before, "the small one is in the client's queue");
    large.iter_mut().for_each(|task| task.abort());
}

#[tokio::test]
async fn one_reader_takes_several_topics_and_knows_when_it_is_through() {
    let settings = installation().await;
    let names = settings.topic_names();
    let (output, ledger): (Arc<str>, Arc<str>) = (names.output.as_str().into(), names.ledger.as_str().into());
    fill(&settings, &output, 0, &["a", "b", "c"]);
    fill(&settings, &ledger, 0, &["x", "y"]);
    // A transaction leaves a marker at the end, which no reader ever gets.
    let mut config = settings.producer_config();
    config.set("transactional.id", format!("{ledger}.t"));
    let producer: BaseProducer = config.create().unwrap();
    producer.init_transactions(ANSWER).unwrap();
    producer.begin_transaction().unwrap();
    let record: BaseRecord<'_, (), str> = BaseRecord::to(&ledger).partition(0).payload("z");
    producer.send(record).map_err(|(e, _)| e).unwrap();
    producer.commit_transaction(ANSWER).unwrap();

    let places = [(output, 0), (ledger, 0)];
    let mut reader = SpreadConsumer::open(&settings, places.iter().zip([1, 0])).unwrap();
    let small = reader.next_batch(BatchLimits { bytes: 2, ..PATIENT }).await.unwrap();
    let mut read = texts(&small);
    assert_eq!(read.len(), 2);
    let mut passed = vec![None; 2];
    for _ in 0..BATCHES {
        read.extend(texts(&reader.next_batch(LIMITS).await.unwrap()));
        passed = places.iter().map(|place| reader.passed_offset(place)).collect();
        if passed == [Some(3), Some(4)] {
            break;
        }
        assert!(passed[0] <= Some(3) && passed[1] <= Some(4), "{passed:?}");
    }
    assert_eq!(passed, [Some(3), Some(4)]);
    read.sort();
    assert_eq!(read, ["b", "c", "x", "y", "z"]);
    let facts =
        topics_facts(&settings, vec![names.output.clone(), "no.such.topic".to_owned()]).await.unwrap();
    assert_eq!(facts[0].as_ref().unwrap().partitions[0].end, 3);
    assert!(matches!(&facts[1], Err(StreamError::NoTopic(name)) if name == "no.such.topic"));
    // Beyond the log's end there is nothing to be read, and nothing is skipped for it.
    let mut beyond = SpreadConsumer::open(&settings, places.iter().zip([9, 0])).unwrap();
    let mut outcome = Ok(Vec::new());
    for _ in 0..BATCHES {
        outcome = beyond.next_batch(LIMITS).await;
        if outcome.is_err() {
            break;
        }
    }
    assert!(outcome.is_err(), "{outcome:?}");
    admin::delete_topics(&settings).await.unwrap();
}

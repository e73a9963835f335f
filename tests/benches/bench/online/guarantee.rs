//! What exactly-once costs against at-least-once: the same records through the same client in the
//! same batches, once in transactions that commit offsets, once with offsets committed after delivery.

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use unslide_testkit::servers;

const WAIT: Duration = Duration::from_secs(30);
/// As the symbolizer's lanes have it.
const BATCH: usize = 200;

/// Prints both and their ratio.
pub async fn print(payload: &[u8], full: bool) {
    let records = if full { 10_000 } else { 400 };
    let input = format!("{}.in", servers::unique("bench"));
    let client = || {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", servers::kafka());
        config
    };
    let admin: AdminClient<DefaultClientContext> = client().create().expect("an admin client");
    let outputs = [format!("{input}.exactly"), format!("{input}.at-least")];
    let names: Vec<&str> = outputs.iter().map(String::as_str).chain([input.as_str()]).collect();
    let topics: Vec<NewTopic<'_>> =
        names.iter().map(|name| NewTopic::new(name, 4, TopicReplication::Fixed(1))).collect();
    admin.create_topics(&topics, &AdminOptions::new()).await.expect("topics");
    tokio::task::block_in_place(|| {
        fill(&client(), &input, payload, records);
        // In turns, so that neither has the warmer machine; the best of each counts.
        let mut best = [Duration::MAX; 2];
        for round in 0..if full { 3 } else { 1 } {
            for (kind, output) in outputs.iter().enumerate() {
                let group = format!("{output}.{round}");
                best[kind] = best[kind].min(copy(&client(), &input, output, &group, records, kind == 0));
            }
        }
        let [exactly, at_least] = best.map(|time| records as f64 / time.as_secs_f64());
        println!("\nRead, copied and written again: {} bytes a record, {BATCH} a batch", payload.len());
        println!(
            "  at least once {at_least:.0} records/s, exactly once {exactly:.0} records/s: {:.2}x the time",
            at_least / exactly
        );
    });
    admin.delete_topics(&names, &AdminOptions::new()).await.expect("deleted");
}

type Writer = ThreadedProducer<DefaultProducerContext>;

fn writer(client: &ClientConfig) -> ClientConfig {
    let mut config = client.clone();
    config
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("compression.type", "lz4")
        .set("linger.ms", "2");
    config
}

fn fill(client: &ClientConfig, topic: &str, payload: &[u8], records: usize) {
    let producer: Writer = writer(client).create().expect("a producer");
    for _ in 0..records {
        write(&producer, topic, payload);
    }
    producer.flush(WAIT).expect("flushed");
}

fn write(producer: &Writer, topic: &str, payload: &[u8]) {
    let mut record = BaseRecord::<(), [u8]>::to(topic).payload(payload);
    while let Err((_, back)) = producer.send(record) {
        record = back;
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Copies the input from its start; how long that took from the first record on.
fn copy(
    client: &ClientConfig,
    input: &str,
    output: &str,
    group: &str,
    records: usize,
    exactly: bool,
) -> Duration {
    let mut config = client.clone();
    config
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", if exactly { "read_committed" } else { "read_uncommitted" })
        .set("fetch.queue.backoff.ms", "5");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    consumer.subscribe(&[input]).expect("subscribed");
    let mut config = writer(client);
    if exactly {
        config.set("transactional.id", group);
    }
    let producer: Writer = config.create().expect("a producer");
    if exactly {
        producer.init_transactions(WAIT).expect("transactions");
    }
    let mut begin = None;
    let mut done = 0;
    let started = Instant::now();
    while done < records {
        let mut batch = Vec::with_capacity(BATCH);
        let mut next: BTreeMap<i32, i64> = BTreeMap::new();
        while batch.len() < BATCH.min(records - done) {
            // Also when the group changes a poll comes back with nothing.
            let Some(polled) = consumer.poll(Duration::from_millis(100)) else {
                assert!(started.elapsed() < WAIT * 10, "{done} of {records} records came");
                continue;
            };
            let message = polled.expect("a record");
            begin.get_or_insert_with(Instant::now);
            next.insert(message.partition(), message.offset() + 1);
            batch.push(message.payload().unwrap_or_default().to_vec());
        }
        let mut offsets = TopicPartitionList::new();
        for (partition, offset) in next {
            offsets.add_partition_offset(input, partition, Offset::Offset(offset)).expect("an offset");
        }
        if exactly {
            producer.begin_transaction().expect("begun");
        }
        batch.iter().for_each(|payload| write(&producer, output, payload));
        if exactly {
            let metadata = consumer.group_metadata().expect("a member");
            producer.send_offsets_to_transaction(&offsets, &metadata, WAIT).expect("offsets");
            producer.commit_transaction(WAIT).expect("committed");
        } else {
            producer.flush(WAIT).expect("delivered");
            consumer.commit(&offsets, CommitMode::Sync).expect("committed");
        }
        done += batch.len();
    }
    begin.map_or(Duration::ZERO, |begin| begin.elapsed())
}

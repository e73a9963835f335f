//! A customer's Kafka clients: librdkafka with its usual settings, no code of the service.

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use unslide_embedded::BrokerLogin;

/// One record as a consumer sees it.
#[derive(Clone, Debug)]
pub struct Record {
    /// The partition.
    pub partition: i32,
    /// The offset in it.
    pub offset: i64,
    /// The key, if it is text.
    pub key: Option<String>,
    /// Headers with text values.
    pub headers: BTreeMap<String, String>,
    /// The value.
    pub value: Vec<u8>,
}

impl Record {
    /// Returns the value as JSON.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn parse_json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.value).expect("an output is JSON")
    }

    /// A header's text, or nothing.
    #[must_use]
    pub fn header_text(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// Reads topics from their start, committed records only.
#[derive(Clone)]
pub struct Topics {
    base: ClientConfig,
    producer: FutureProducer,
}

impl Topics {
    /// Clients of the Kafka at `bootstrap`.
    ///
    /// # Panics
    /// If the client cannot be made.
    #[must_use]
    pub fn connect(bootstrap: &str) -> Topics {
        Topics::connect_as(bootstrap, None)
    }

    /// The same with a login.
    ///
    /// # Panics
    /// If the client cannot be made.
    #[must_use]
    pub fn connect_as(bootstrap: &str, login: Option<&BrokerLogin>) -> Topics {
        let base = client_config(bootstrap, login);
        let producer = base
            .clone()
            .set("message.max.bytes", "30000000")
            .set("linger.ms", "0")
            .create()
            .expect("a producer");
        Topics { base, producer }
    }

    /// Produces one record and waits until the broker has it.
    ///
    /// # Panics
    /// If the broker refuses it.
    pub async fn produce_record(
        &self,
        topic: &str,
        partition: Option<i32>,
        headers: &[(&str, &str)],
        value: &[u8],
    ) {
        self.produce_raw(topic, partition, headers, None, Some(value)).await;
    }

    /// Produces one record with any key and value, or without, and waits until the broker has it.
    ///
    /// # Panics
    /// If the broker refuses it.
    pub async fn produce_raw(
        &self,
        topic: &str,
        partition: Option<i32>,
        headers: &[(&str, &str)],
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) {
        let mut all = OwnedHeaders::new();
        for (key, value) in headers {
            all = all.insert(Header { key, value: Some(*value) });
        }
        let mut record = FutureRecord::<[u8], [u8]>::to(topic).headers(all);
        if let Some(key) = key {
            record = record.key(key);
        }
        if let Some(value) = value {
            record = record.payload(value);
        }
        if let Some(partition) = partition {
            record = record.partition(partition);
        }
        self.producer.send(record, Duration::from_secs(30)).await.map_err(|(e, _)| e).expect("produced");
    }

    /// The names of all topics.
    ///
    /// # Panics
    /// If Kafka does not answer.
    #[must_use]
    pub fn list_names(&self) -> Vec<String> {
        let metadata = self.create_reader().fetch_metadata(None, Duration::from_secs(60)).expect("metadata");
        metadata.topics().iter().map(|topic| topic.name().to_owned()).collect()
    }

    /// Deletes every topic with a name that begins with `prefix`.
    ///
    /// # Panics
    /// If Kafka does not answer.
    pub async fn delete_topics(&self, prefix: &str) {
        let names = self.list_names();
        let names: Vec<&str> = names.iter().map(String::as_str).filter(|n| n.starts_with(prefix)).collect();
        let admin: AdminClient<DefaultClientContext> = self.base.create().expect("an admin client");
        admin.delete_topics(&names, &AdminOptions::new()).await.expect("deleted");
    }

    fn create_reader(&self) -> BaseConsumer {
        self.base
            .clone()
            .set("group.id", "unslide-tests-reader")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("isolation.level", "read_committed")
            .set("fetch.message.max.bytes", "30000000")
            .create()
            .expect("a consumer")
    }

    /// Returns every committed record of a topic, from its start to its current end.
    ///
    /// # Panics
    /// If Kafka does not answer.
    #[must_use]
    pub fn read_all(&self, topic: &str) -> Vec<Record> {
        let mut records = Vec::new();
        self.scan_topic(topic, |record| records.push(record));
        records
    }

    /// Passes every committed record of a topic to `see`, from its start to its current end, without holding
    /// them in memory.
    ///
    /// # Panics
    /// If Kafka does not answer.
    pub fn scan_topic(&self, topic: &str, mut see: impl FnMut(Record)) {
        let consumer = self.create_reader();
        let wait = Duration::from_secs(60);
        let metadata = consumer.fetch_metadata(Some(topic), wait).expect("metadata");
        let partitions: Vec<i32> =
            metadata.topics()[0].partitions().iter().map(rdkafka::metadata::MetadataPartition::id).collect();
        let mut list = TopicPartitionList::new();
        for partition in &partitions {
            list.add_partition_offset(topic, *partition, Offset::Beginning).expect("an offset");
        }
        consumer.assign(&list).expect("assigned");
        // The end of a partition to which more is written comes more than once.
        let (mut ended, mut errors) = (BTreeSet::new(), 0);
        while ended.len() < partitions.len() {
            match consumer.poll(wait) {
                Some(Ok(message)) => see(Record {
                    partition: message.partition(),
                    offset: message.offset(),
                    key: message.key().map(|k| String::from_utf8_lossy(k).into_owned()),
                    headers: message.headers().map(read_headers).unwrap_or_default(),
                    value: message.payload().unwrap_or_default().to_vec(),
                }),
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    ended.insert(partition);
                }
                // The client tries again by itself.
                Some(Err(KafkaError::MessageConsumption(_))) if errors < 100 => errors += 1,
                Some(Err(error)) => panic!("reading {topic}: {error}"),
                None => panic!("reading {topic}: nothing for {wait:?}"),
            }
        }
    }

    /// How many committed records of a topic a consumer group has not taken yet. Offsets alone do not
    /// say it: the marks of transactions take some.
    ///
    /// # Errors
    /// If Kafka does not answer.
    pub fn count_unread(&self, group: &str, topic: &str) -> Result<usize, KafkaError> {
        let wait = Duration::from_secs(10);
        let asker: BaseConsumer =
            self.base.clone().set("group.id", group).set("enable.auto.commit", "false").create()?;
        let metadata = asker.fetch_metadata(Some(topic), wait)?;
        let mut list = TopicPartitionList::new();
        for partition in metadata.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions) {
            list.add_partition(topic, partition.id());
        }
        let mut next = BTreeMap::new();
        for held in asker.committed_offsets(list, wait)?.elements() {
            let Offset::Offset(offset) = held.offset() else { continue };
            next.insert(held.partition(), offset);
        }
        self.count_after(topic, &next)
    }

    /// How many committed records of a topic lie at these offsets or behind them; of a partition
    /// that is not named all count.
    ///
    /// # Errors
    /// If Kafka does not answer.
    pub fn count_after(&self, topic: &str, next: &BTreeMap<i32, i64>) -> Result<usize, KafkaError> {
        let consumer = self.create_reader();
        let wait = Duration::from_secs(10);
        let metadata = consumer.fetch_metadata(Some(topic), wait)?;
        let mut list = TopicPartitionList::new();
        for partition in metadata.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions) {
            let start = next.get(&partition.id()).map_or(Offset::Beginning, |next| Offset::Offset(*next));
            list.add_partition_offset(topic, partition.id(), start)?;
        }
        consumer.assign(&list)?;
        let (mut records, mut ended) = (0, BTreeSet::new());
        while ended.len() < list.count() {
            match consumer.poll(wait) {
                Some(Ok(_)) => records += 1,
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    ended.insert(partition);
                }
                Some(Err(error)) => return Err(error),
                None => return Err(KafkaError::Canceled),
            }
        }
        Ok(records)
    }

    /// Reads a topic again and again until `done` says yes, and returns what it held then.
    ///
    /// # Panics
    /// If that has not come after `limit`.
    pub async fn wait_for(
        &self,
        topic: &str,
        limit: Duration,
        done: impl Fn(&[Record]) -> bool,
    ) -> Vec<Record> {
        let mut waited = Duration::ZERO;
        loop {
            let records = tokio::task::block_in_place(|| self.read_all(topic));
            if done(&records) {
                return records;
            }
            assert!(waited < limit, "{topic}: not there after {limit:?}; it holds {} records", records.len());
            tokio::time::sleep(Duration::from_millis(200)).await;
            waited += Duration::from_millis(200);
        }
    }
}

/// Returns the settings that all clients of a broker share.
pub(crate) fn client_config(bootstrap: &str, login: Option<&BrokerLogin>) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    if let Some(BrokerLogin { name, password }) = login {
        config
            .set("security.protocol", "sasl_plaintext")
            .set("sasl.mechanism", "PLAIN")
            .set("sasl.username", name)
            .set("sasl.password", password);
    }
    config
}

fn read_headers(headers: &rdkafka::message::BorrowedHeaders) -> BTreeMap<String, String> {
    headers
        .iter()
        .map(|h| (h.key.to_owned(), String::from_utf8_lossy(h.value.unwrap_or_default()).into_owned()))
        .collect()
}

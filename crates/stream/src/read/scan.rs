//! Reads topics from outside: their offsets, the progress of a group, and every committed record of a range.
//! Joins no group and commits nothing.

use crate::client::{BROKER_REQUEST_TIMEOUT, Logging, fetch_watermarks, is_lost_connection};
use crate::error::StreamError;
use crate::read::SCAN_GROUP;
use crate::record::Record;
use crate::settings::Settings;
use crate::topics::topic_facts::{TopicId, fetch_topic_id};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers as _, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// How long a scan may receive no record at all.
const SCAN_RECORD_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the offsets of a group may be held back by an open transaction.
const COMMITTED_OFFSETS_TIMEOUT: Duration = Duration::from_secs(45);

/// A record as it passes by, in the client's own memory.
pub struct Sighting<'m>(&'m BorrowedMessage<'m>);

impl Sighting<'_> {
    /// Returns the partition.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.0.partition()
    }

    /// Returns the offset.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.0.offset()
    }

    /// Returns the record's time as the topic keeps it, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn time_millis(&self) -> Option<i64> {
        self.0.timestamp().to_millis()
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.0.key()
    }

    /// Returns the value.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        self.0.payload()
    }

    /// Returns every header in order; names may repeat, and the last one counts.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let headers = self.0.headers();
        headers.into_iter().flat_map(|headers| headers.iter()).map(|h| (h.key, h.value.unwrap_or_default()))
    }

    /// Copies it into a record that owns its data.
    #[must_use]
    pub fn to_record(&self) -> Record {
        Record::from_message(self.0, self.0.topic().into())
    }
}

/// Offsets of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The partition.
    pub partition: i32,
    /// The first offset.
    pub from: i64,
    /// One after the last.
    pub to: i64,
}

/// Clients for reading logs. Every method blocks: call them from threads that may block.
pub struct Scanner {
    settings: Settings,
    /// Sees committed records.
    committed: BaseConsumer<Logging>,
    /// Reads the log's end, including records that are not committed.
    all: BaseConsumer<Logging>,
}

impl Scanner {
    /// Makes the clients; no request is sent yet.
    ///
    /// # Errors
    /// [`StreamError::Settings`] for settings that cannot work.
    pub fn open(settings: &Settings) -> Result<Scanner, StreamError> {
        let mut config = settings.require_valid()?.consumer_config();
        config
            .set("group.id", format!("{}{SCAN_GROUP}", settings.topic_prefix))
            .set("auto.offset.reset", "earliest")
            .set("enable.partition.eof", "true");
        let make = |config: &rdkafka::ClientConfig| {
            config.create_with_context(Logging).map_err(|e| StreamError::from_kafka("making a reader", e))
        };
        let committed = make(&config)?;
        config.set("isolation.level", "read_uncommitted");
        Ok(Scanner { settings: settings.clone(), committed, all: make(&config)? })
    }

    /// Returns every topic of the cluster with its partitions in order.
    ///
    /// # Errors
    /// Errors of Kafka.
    pub fn list_topics(&self) -> Result<BTreeMap<String, Vec<i32>>, StreamError> {
        let metadata = self
            .all
            .fetch_metadata(None, BROKER_REQUEST_TIMEOUT)
            .map_err(|e| StreamError::from_kafka("listing the topics", e))?;
        let topics = metadata.topics().iter().filter(|t| t.error().is_none()).map(|topic| {
            let mut partitions: Vec<i32> =
                topic.partitions().iter().map(rdkafka::metadata::MetadataPartition::id).collect();
            partitions.sort_unstable();
            (topic.name().to_owned(), partitions)
        });
        Ok(topics.collect())
    }

    /// Returns the id of a topic, as [`topic_facts`](crate::topic_facts) does, over the connection of this scanner.
    ///
    /// # Errors
    /// [`StreamError::NoTopic`], or Kafka's error.
    pub fn topic_id(&self, topic: &str) -> Result<TopicId, StreamError> {
        fetch_topic_id(&self.committed, topic)
    }

    /// Returns the first offset that the log holds, and one after the last that is committed for sure: the
    /// begin of the first open transaction.
    ///
    /// # Errors
    /// Errors of Kafka.
    pub fn stable_bounds(&self, topic: &str, partition: i32) -> Result<(i64, i64), StreamError> {
        fetch_bounds(&self.committed, topic, partition)
    }

    /// Returns one after the last offset that the log holds, committed or not.
    ///
    /// # Errors
    /// Errors of Kafka.
    pub fn log_end(&self, topic: &str, partition: i32) -> Result<i64, StreamError> {
        Ok(fetch_bounds(&self.all, topic, partition)?.1)
    }

    /// Returns the first offset of each partition with a record that is not older than `millis` (since the
    /// Unix epoch); `None` if there is none.
    ///
    /// # Errors
    /// Errors of Kafka.
    pub fn offsets_at(
        &self,
        topic: &str,
        partitions: &[i32],
        millis: i64,
    ) -> Result<BTreeMap<i32, Option<i64>>, StreamError> {
        let failed = |e| StreamError::from_kafka(format!("asking {topic} for a moment"), e);
        let mut asked = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            asked.add_partition_offset(topic, *partition, Offset::Offset(millis.max(0))).map_err(failed)?;
        }
        let told = self.all.offsets_for_times(asked, BROKER_REQUEST_TIMEOUT).map_err(failed)?;
        let mut found = BTreeMap::new();
        for element in told.elements() {
            element.error().map_err(failed)?;
            let offset = if let Offset::Offset(offset) = element.offset() { Some(offset) } else { None };
            found.insert(element.partition(), offset);
        }
        Ok(found)
    }

    /// Returns the committed offsets of a group, by topic and partition. Waits for offsets that an open
    /// transaction is about to commit. Partitions without one are left out.
    ///
    /// # Errors
    /// Errors of Kafka.
    pub fn find_committed_offsets(
        &self,
        group: &str,
        places: &[(String, i32)],
    ) -> Result<BTreeMap<(String, i32), i64>, StreamError> {
        committed_offsets(&self.settings, group, places, COMMITTED_OFFSETS_TIMEOUT)
    }

    /// Waits until every transaction that was open below these `(partition, offset)` has ended.
    ///
    /// # Errors
    /// [`StreamError::Unstable`] if one is still open after `within`; else Kafka's error.
    pub fn wait_stable(&self, topic: &str, ends: &[(i32, i64)], within: Duration) -> Result<(), StreamError> {
        let deadline = Instant::now() + within;
        for (partition, end) in ends {
            loop {
                let (_, stable) = self.stable_bounds(topic, *partition)?;
                if stable >= *end {
                    break;
                }
                if Instant::now() >= deadline {
                    let topic = topic.to_owned();
                    return Err(StreamError::Unstable { topic, partition: *partition, offset: stable });
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        Ok(())
    }

    /// Calls `each` with every committed record of the ranges, in order within a partition. If a range begins
    /// below the log's start, the deleted records are left out. Returns how many records it passed on. The
    /// ranges' ends have to be stable, see [`Scanner::wait_stable`].
    ///
    /// # Errors
    /// Kafka's error, and [`StreamError::Silent`] if Kafka sends nothing for a minute.
    pub fn scan_ranges(
        &self,
        topic: &str,
        ranges: &[Range],
        mut each: impl FnMut(&Sighting<'_>),
    ) -> Result<u64, StreamError> {
        let failed = |e| StreamError::from_kafka(format!("reading {topic}"), e);
        let wanted = ranges.iter().filter(|r| r.from < r.to);
        let ends: BTreeMap<i32, i64> = wanted.clone().map(|r| (r.partition, r.to)).collect();
        let mut open: BTreeSet<i32> = ends.keys().copied().collect();
        if open.is_empty() {
            return Ok(0);
        }
        let mut list = TopicPartitionList::with_capacity(open.len());
        for range in wanted {
            list.add_partition_offset(topic, range.partition, Offset::Offset(range.from)).map_err(failed)?;
        }
        self.committed.assign(&list).map_err(failed)?;
        let (mut shown, mut heard) = (0, Instant::now());
        let result = loop {
            let Some(polled) = self.committed.poll(Duration::from_millis(200)) else {
                if heard.elapsed() >= SCAN_RECORD_TIMEOUT {
                    break Err(StreamError::Silent(topic.to_owned()));
                }
                continue;
            };
            match polled {
                Ok(message) if message.topic() != topic => {}
                Ok(message) => {
                    heard = Instant::now();
                    let end = ends.get(&message.partition()).copied().unwrap_or(0);
                    if message.offset() < end {
                        each(&Sighting(&message));
                        shown += 1;
                    }
                    // The last one may be a marker, which is never shown: then the client reports the end.
                    if message.offset() + 1 >= end {
                        open.remove(&message.partition());
                    }
                }
                Err(KafkaError::PartitionEOF(partition)) => {
                    heard = Instant::now();
                    open.remove(&partition);
                }
                Err(e) => {
                    let is_logged = is_lost_connection(&e);
                    let error = failed(e);
                    if !error.is_transient() {
                        break Err(error);
                    }
                    if !is_logged {
                        tracing::warn!(error = %error, "a read from Kafka failed and is tried again");
                    }
                }
            }
            if open.is_empty() {
                break Ok(shown);
            }
        };
        self.committed.unassign().map_err(failed)?;
        result
    }

    /// Returns the record at an offset; `None` if the log holds no committed record there.
    ///
    /// # Errors
    /// Errors of Kafka.
    pub fn read_record(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<Option<Record>, StreamError> {
        let (start, end) = self.stable_bounds(topic, partition)?;
        if !(start..end).contains(&offset) {
            return Ok(None);
        }
        let mut found = None;
        self.scan_ranges(topic, &[Range { partition, from: offset, to: offset + 1 }], |sighting| {
            if sighting.offset() == offset {
                found = Some(sighting.to_record());
            }
        })?;
        Ok(found)
    }
}

/// Returns the record at an offset; `None` if the log holds no committed record there.
///
/// # Errors
/// Errors of Kafka.
pub async fn read_record_at(
    settings: &Settings,
    topic: &str,
    partition: i32,
    offset: i64,
) -> Result<Option<Record>, StreamError> {
    let (settings, name) = (settings.clone(), topic.to_owned());
    let asked =
        tokio::task::spawn_blocking(move || Scanner::open(&settings)?.read_record(&name, partition, offset));
    asked.await.map_err(|_| StreamError::Ended(topic.to_owned()))?
}

/// Reads every committed record of a topic, by partition. Holds all of them in memory.
///
/// # Errors
/// [`StreamError::NoTopic`], or Kafka's error.
pub async fn whole_topic(settings: &Settings, topic: &str) -> Result<Vec<Record>, StreamError> {
    let (settings, name) = (settings.clone(), topic.to_owned());
    let read = tokio::task::spawn_blocking(move || {
        let scanner = Scanner::open(&settings)?;
        let mut topics = scanner.list_topics()?;
        let partitions = topics.remove(&name).ok_or_else(|| StreamError::NoTopic(name.clone()))?;
        let range = |partition| {
            scanner.stable_bounds(&name, partition).map(|(from, to)| Range { partition, from, to })
        };
        let ranges = partitions.into_iter().map(range).collect::<Result<Vec<_>, _>>()?;
        let mut records = Vec::new();
        scanner.scan_ranges(&name, &ranges, |sighting| records.push(sighting.to_record()))?;
        Ok(records)
    });
    read.await.map_err(|_| StreamError::Ended(topic.to_owned()))?
}

/// Returns the committed offsets of a group, as [`Scanner::find_committed_offsets`] does, with the caller's timeout.
pub(crate) fn committed_offsets(
    settings: &Settings,
    group: &str,
    places: &[(String, i32)],
    timeout: Duration,
) -> Result<BTreeMap<(String, i32), i64>, StreamError> {
    let failed = |e| StreamError::from_kafka(format!("asking for the offsets of the group {group}"), e);
    // A client asks for the offsets of its own group only. It does not join.
    let mut config = settings.consumer_config();
    config.set("group.id", group);
    let client: BaseConsumer<Logging> = config.create_with_context(Logging).map_err(failed)?;
    let mut asked = TopicPartitionList::with_capacity(places.len());
    for (topic, partition) in places {
        asked.add_partition(topic, *partition);
    }
    let told = client.committed_offsets(asked, timeout).map_err(failed)?;
    let mut found = BTreeMap::new();
    for element in told.elements() {
        element.error().map_err(failed)?;
        if let Offset::Offset(offset) = element.offset() {
            found.insert((element.topic().to_owned(), element.partition()), offset);
        }
    }
    Ok(found)
}

fn fetch_bounds(
    client: &BaseConsumer<Logging>,
    topic: &str,
    partition: i32,
) -> Result<(i64, i64), StreamError> {
    fetch_watermarks(client, topic, partition, BROKER_REQUEST_TIMEOUT)
        .map_err(|e| StreamError::from_kafka(format!("asking what {topic}/{partition} holds"), e))
}

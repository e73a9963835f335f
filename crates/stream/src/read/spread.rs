//! Reads several topics from given offsets over one connection, without a group: for a reader that
//! keeps its positions in a store of its own.

use crate::client::{Logging, is_lost_connection};
use crate::error::StreamError;
use crate::read::POSITIONED_GROUP;
use crate::record::Record;
use crate::settings::Settings;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// When a batch is full.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// The most records.
    pub records: usize,
    /// The most bytes of keys, headers and values. A batch has at least one record, of any size.
    pub bytes: usize,
    /// How long to wait for the batch to fill, from its first record. A lane that has written nothing for as long
    /// does not wait.
    pub wait: Duration,
}

/// A partition of a topic.
pub type TopicPartition = (Arc<str>, i32);

/// How long to wait for the first record of a batch, at least.
const BATCH_START_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the client is asked how far it is. With many partitions the answer costs something.
const POSITION_QUERY_INTERVAL: Duration = Duration::from_secs(1);

/// A read-committed reader of several topics with manual positions. Never commits and joins no group.
pub struct SpreadConsumer {
    inner: StreamConsumer<Logging>,
    topics: BTreeSet<Arc<str>>,
    /// The offset up to which each partition was given out, and when that was found out.
    passed: BTreeMap<TopicPartition, i64>,
    looked: Instant,
    /// A record that did not fit the last batch.
    held: Option<Record>,
}

impl SpreadConsumer {
    /// Starts to read each partition from its offset. An offset that the log does not hold is an error of
    /// [`SpreadConsumer::next_batch`]; [`crate::topics_facts`] returns the offsets that the logs hold.
    ///
    /// # Errors
    /// [`StreamError::Settings`], or the client's error.
    pub fn open<'a>(
        settings: &Settings,
        positions: impl IntoIterator<Item = (&'a TopicPartition, i64)>,
    ) -> Result<SpreadConsumer, StreamError> {
        let mut config = settings.require_valid()?.consumer_config();
        config
            .set("group.id", format!("{}{POSITIONED_GROUP}", settings.topic_prefix))
            .set("auto.offset.reset", "error")
            // No partition is ever paused, and the broker answers at once when a record comes.
            .set("fetch.wait.max.ms", "1000");
        let inner: StreamConsumer<Logging> =
            config.create_with_context(Logging).map_err(|e| StreamError::from_kafka("making a reader", e))?;
        let failed = |e| StreamError::from_kafka("assigning partitions", e);
        let (mut list, mut topics) = (TopicPartitionList::new(), BTreeSet::new());
        let mut passed = BTreeMap::new();
        for (place, offset) in positions {
            list.add_partition_offset(&place.0, place.1, Offset::Offset(offset)).map_err(failed)?;
            passed.insert(place.clone(), offset);
            topics.insert(Arc::clone(&place.0));
        }
        inner.assign(&list).map_err(failed)?;
        Ok(SpreadConsumer { inner, topics, passed, looked: Instant::now(), held: None })
    }

    /// Reads until a limit is reached; the records are in order within each partition. An empty batch means
    /// that nothing came for a second. If the call is cancelled, the records that it had read are lost: open
    /// a new consumer then.
    ///
    /// # Errors
    /// Errors of the client that it does not recover from on its own; if a log has lost its position, the
    /// error does not say which.
    pub async fn next_batch(&mut self, limits: BatchLimits) -> Result<Vec<Record>, StreamError> {
        let mut batch: Vec<Record> = self.held.take().into_iter().collect();
        let mut bytes: usize = batch.iter().map(Record::size).sum();
        let first = if batch.is_empty() { limits.wait.max(BATCH_START_TIMEOUT) } else { limits.wait };
        let mut deadline = Instant::now() + first;
        while batch.len() < limits.records.max(1) && (bytes < limits.bytes || batch.is_empty()) {
            let Ok(polled) = tokio::time::timeout_at(deadline, self.inner.recv()).await else { break };
            match polled {
                Ok(message) => {
                    use rdkafka::Message as _;
                    let topic = match self.topics.get(message.topic()) {
                        Some(topic) => Arc::clone(topic),
                        None => message.topic().into(),
                    };
                    let record = Record::from_message(&message, topic);
                    drop(message);
                    if !batch.is_empty() && bytes + record.size() > limits.bytes {
                        self.held = Some(record);
                        break;
                    }
                    if batch.is_empty() {
                        deadline = Instant::now() + limits.wait;
                    }
                    bytes += record.size();
                    batch.push(record);
                }
                Err(e) => {
                    let lost = e.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset);
                    let fatal = matches!(e, KafkaError::MessageConsumptionFatal(_));
                    let is_logged = is_lost_connection(&e);
                    let error = StreamError::from_kafka("reading from Kafka", e);
                    if lost || fatal || !error.is_transient() {
                        return Err(error);
                    }
                    if !is_logged {
                        tracing::warn!(error = %error, "a read from Kafka failed and is tried again");
                    }
                }
            }
        }
        if batch.is_empty() || self.looked.elapsed() >= POSITION_QUERY_INTERVAL {
            self.update_positions();
        }
        Ok(batch)
    }

    /// Records the client's positions. All records before them are in a batch or held back for the next one.
    /// They are behind the markers of transactions, which no batch holds.
    fn update_positions(&mut self) {
        self.looked = Instant::now();
        let Ok(positions) = self.inner.position() else { return };
        for position in positions.elements() {
            // Before the first record there is no offset.
            let (Offset::Offset(next), Some(topic)) = (position.offset(), self.topics.get(position.topic()))
            else {
                continue;
            };
            if let Some(passed) = self.passed.get_mut(&(Arc::clone(topic), position.partition())) {
                *passed = next.max(*passed);
            }
        }
    }

    /// Returns the offset up to which a partition was given out: batches have held every record before this
    /// offset. It lags by about a second, and reaches the log's end also if that is no record.
    #[must_use]
    pub fn passed_offset(&self, place: &TopicPartition) -> Option<i64> {
        // A record that is kept for the next batch was polled and not given out.
        let held = self.held.as_ref().filter(|r| r.at.topic == place.0 && r.at.partition == place.1);
        let passed = self.passed.get(place).copied()?;
        Some(held.map_or(passed, |r| r.at.offset.min(passed)))
    }
}

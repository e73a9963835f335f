//! Reads one topic from given offsets, without a group: for a reader that keeps its position in a
//! store of its own.

use crate::client::{ASK, Logging};
use crate::error::StreamError;
use crate::record::Record;
use crate::settings::Settings;
use crate::topic_facts::{TopicFacts, topic_facts};
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// When a batch is full.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// At most so many records.
    pub records: usize,
    /// At most so many bytes of keys, headers and values; a batch has at least one record.
    pub bytes: usize,
    /// At most so long after the first record, and so long without any.
    pub wait: Duration,
}

/// What was read.
#[derive(Debug, Default)]
pub struct PositionedBatch {
    /// The records, in order within each partition.
    pub records: Vec<Record>,
    /// Partitions whose end was reached after these records.
    pub ends: Vec<i32>,
}

/// A read-committed reader of one topic with manual positions. Never commits and joins no group.
pub struct PositionedConsumer {
    inner: StreamConsumer<Logging>,
    settings: Settings,
    topic: Arc<str>,
    /// The next offset of each partition that is read.
    next: BTreeMap<i32, i64>,
    /// A record that did not fit the last batch.
    held: Option<Record>,
}

impl PositionedConsumer {
    /// Starts to read each `(partition, offset)` of `topic`. An offset that the log does not hold is
    /// an error here and never skipped silently; the log's end itself is a valid position.
    ///
    /// # Errors
    /// [`StreamError::OutOfRange`], [`StreamError::NoTopic`], or what Kafka said.
    pub async fn open(
        settings: &Settings,
        topic: &str,
        positions: &[(i32, i64)],
    ) -> Result<PositionedConsumer, StreamError> {
        let facts = topic_facts(settings, topic).await?;
        for (partition, offset) in positions {
            let held = facts.partitions.iter().find(|p| p.partition == *partition);
            let (start, end) = held.map_or((0, 0), |p| (p.start, p.end));
            if !(start..=end).contains(offset) || held.is_none() {
                return Err(StreamError::OutOfRange {
                    topic: topic.to_owned(),
                    partition: *partition,
                    offset: *offset,
                    start,
                    end,
                });
            }
        }
        let mut config = settings.checked()?.consumer();
        config
            .set("group.id", format!("{}unslide.positioned", settings.topic_prefix))
            .set("auto.offset.reset", "error")
            .set("enable.partition.eof", "true");
        let inner: StreamConsumer<Logging> =
            config.create_with_context(Logging).map_err(|e| StreamError::kafka("making a reader", e))?;
        let mut list = TopicPartitionList::with_capacity(positions.len());
        for (partition, offset) in positions {
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset))
                .map_err(|e| StreamError::kafka("assigning partitions", e))?;
        }
        inner.assign(&list).map_err(|e| StreamError::kafka("assigning partitions", e))?;
        Ok(PositionedConsumer {
            inner,
            settings: settings.clone(),
            topic: topic.into(),
            next: positions.iter().copied().collect(),
            held: None,
        })
    }

    /// Reads until a limit is reached. An empty batch means that nothing came in time. Cancel-safe
    /// up to records that were read: drop the reader and open it again after cancelling.
    ///
    /// # Errors
    /// [`StreamError::OutOfRange`] where the log lost the position meanwhile; other errors of the
    /// client that it does not mend by itself.
    pub async fn next_batch(&mut self, limits: BatchLimits) -> Result<PositionedBatch, StreamError> {
        let mut batch = PositionedBatch::default();
        let mut bytes = 0;
        let deadline = Instant::now() + limits.wait;
        if let Some(record) = self.held.take() {
            bytes += record.size();
            batch.records.push(record);
        }
        while batch.records.len() < limits.records.max(1)
            && (bytes < limits.bytes || batch.records.is_empty())
        {
            let Ok(polled) = tokio::time::timeout_at(deadline, self.inner.recv()).await else { break };
            match polled {
                Ok(message) => {
                    let record = Record::copy(&message, Arc::clone(&self.topic));
                    drop(message);
                    let size = record.size();
                    self.next.insert(record.at.partition, record.at.offset + 1);
                    batch.ends.retain(|p| *p != record.at.partition);
                    if !batch.records.is_empty() && bytes + size > limits.bytes {
                        self.held = Some(record);
                        break;
                    }
                    bytes += size;
                    batch.records.push(record);
                }
                Err(KafkaError::PartitionEOF(partition)) => {
                    batch.ends.push(partition);
                    // Nothing more will come at once: give what is there without waiting.
                    if !batch.records.is_empty() && batch.ends.len() >= self.next.len() {
                        break;
                    }
                }
                Err(e) if e.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) => {
                    return Err(self.lost_position(e).await);
                }
                Err(e @ KafkaError::MessageConsumptionFatal(_)) => {
                    return Err(StreamError::kafka(format!("reading {}", self.topic), e));
                }
                Err(e) => {
                    let error = StreamError::kafka(format!("reading {}", self.topic), e);
                    if !error.is_transient() {
                        return Err(error);
                    }
                    tracing::warn!(error = %error, "a read from Kafka failed and is tried again");
                }
            }
        }
        Ok(batch)
    }

    /// Says which position the log does not hold any more.
    async fn lost_position(&self, cause: KafkaError) -> StreamError {
        if let Ok(facts) = self.facts().await {
            for p in facts.partitions {
                if let Some(offset) = self.next.get(&p.partition)
                    && !(p.start..=p.end).contains(offset)
                {
                    return StreamError::OutOfRange {
                        topic: self.topic.to_string(),
                        partition: p.partition,
                        offset: *offset,
                        start: p.start,
                        end: p.end,
                    };
                }
            }
        }
        StreamError::kafka(format!("reading {}", self.topic), cause)
    }

    /// What the topic is now.
    ///
    /// # Errors
    /// As [`topic_facts`].
    pub async fn facts(&self) -> Result<TopicFacts, StreamError> {
        topic_facts(&self.settings, &self.topic).await
    }

    /// Goes on from other positions; partitions that are not named stay as they are.
    ///
    /// # Errors
    /// What the client said.
    pub fn seek(&mut self, positions: &[(i32, i64)]) -> Result<(), StreamError> {
        self.held = self.held.take().filter(|r| positions.iter().all(|(p, _)| *p != r.at.partition));
        for (partition, offset) in positions {
            self.inner
                .seek(&self.topic, *partition, Offset::Offset(*offset), ASK)
                .map_err(|e| StreamError::kafka("going to another position", e))?;
            self.next.insert(*partition, *offset);
        }
        Ok(())
    }

    /// The topic's name.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }
}

//! The idempotent producer: what was sent is on the log once, in order.

use crate::client::Logging;
use crate::error::StreamError;
use crate::record::OutRecord;
use crate::settings::Settings;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use std::time::Duration;

/// Writes records outside of transactions. Cheap to clone; clones share one client.
#[derive(Clone)]
pub struct Producer {
    inner: FutureProducer<Logging>,
    max_bytes: usize,
}

/// Where the broker put a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The partition.
    pub partition: i32,
    /// The offset within it.
    pub offset: i64,
}

impl Producer {
    /// Makes a client. Nothing is asked of a broker until the first record.
    ///
    /// # Errors
    /// [`StreamError::Settings`] for settings that librdkafka refuses.
    pub fn new(settings: &Settings) -> Result<Producer, StreamError> {
        let mut config = settings.checked()?.producer();
        config.set("message.timeout.ms", "30000");
        let inner =
            config.create_with_context(Logging).map_err(|e| StreamError::kafka("making the producer", e))?;
        Ok(Producer { inner, max_bytes: settings.max_output_bytes() })
    }

    /// Writes a record; returns when all in-sync replicas have it. Records of one key that are sent
    /// one after the other keep their order. Gives up after thirty seconds: the record may then be
    /// on the log or not.
    ///
    /// # Errors
    /// [`StreamError::TooLarge`], or what the broker said.
    pub async fn send(&self, record: &OutRecord) -> Result<Delivered, StreamError> {
        let size = record.size();
        if size > self.max_bytes {
            return Err(StreamError::TooLarge { topic: record.topic.to_string(), bytes: size });
        }
        let mut future: FutureRecord<'_, [u8], [u8]> =
            FutureRecord::to(&record.topic).headers(record.headers.to_owned_headers());
        if let Some(value) = record.value.as_deref() {
            future = future.payload(value);
        }
        if let Some(key) = record.key.as_deref() {
            future = future.key(key);
        }
        match self.inner.send(future, Duration::from_secs(30)).await {
            Ok(delivery) => Ok(Delivered { partition: delivery.partition, offset: delivery.offset }),
            Err((e, _)) if too_large(&e) => {
                Err(StreamError::TooLarge { topic: record.topic.to_string(), bytes: size })
            }
            Err((e, _)) => Err(StreamError::kafka(format!("writing to {}", record.topic), e)),
        }
    }

    /// Writes records in order and waits for all of them; ends at the first that fails.
    ///
    /// # Errors
    /// As [`Producer::send`].
    pub async fn send_all(&self, records: &[OutRecord]) -> Result<Vec<Delivered>, StreamError> {
        futures::future::try_join_all(records.iter().map(|record| self.send(record))).await
    }

    /// Asks a broker for the topic's partitions, to learn that Kafka is there.
    ///
    /// # Errors
    /// [`StreamError`] where Kafka does not answer within `within`, or the topic is not there.
    pub async fn probe(&self, topic: &str, within: Duration) -> Result<usize, StreamError> {
        let (client, name) = (self.inner.clone(), topic.to_owned());
        let answer = tokio::task::spawn_blocking(move || {
            let metadata = client
                .client()
                .fetch_metadata(Some(&name), within)
                .map_err(|e| StreamError::kafka("asking Kafka for a topic", e))?;
            let found = metadata.topics().iter().find(|t| t.name() == name && t.error().is_none());
            found.map(|t| t.partitions().len()).filter(|n| *n > 0).ok_or(StreamError::NoTopic(name))
        });
        answer.await.map_err(|_| StreamError::Ended(topic.to_owned()))?
    }

    /// Waits until everything sent is on the log, at most `within`.
    pub async fn flush(&self, within: Duration) {
        let client = self.inner.clone();
        // The outcome of each record goes to its sender.
        let _ = tokio::task::spawn_blocking(move || client.flush(within)).await;
    }
}

pub(crate) fn too_large(error: &rdkafka::error::KafkaError) -> bool {
    use rdkafka::error::RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge)
    )
}

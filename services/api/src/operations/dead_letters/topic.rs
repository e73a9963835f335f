//! Reads records of the dead-letter topic.

use crate::limits::permits::Permit;
use crate::operations::prelude::*;
use crate::requests::kept_scanner::OpenScanner;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use unslide_model::TenantId;
use unslide_proto::headers;
use unslide_store::dead_letters::{DeadLetter, DeadLetterId, DeadLetterStage};
use unslide_stream::{Record, StreamError};

/// A reader of the dead-letter topic, for one request. A permit limits the readers, and so the records in
/// memory.
pub struct DeadLetterReader {
    broker: Arc<Broker>,
    scanner: Option<Arc<OpenScanner>>,
    name: String,
    id: String,
    has_failed: AtomicBool,
    _permit: Permit,
}

/// The remaining data of a dead letter.
pub enum DeadLetterRemains {
    /// The record, with the value of its original record.
    Whole(Record),
    /// The record without a value, because the value was too large for the topic; and the reason.
    WithoutValue(Record, String),
    Nothing(String),
}

impl DeadLetterReader {
    /// Opens a reader for a tenant's request. Waits for a permit of the tenant and of all tenants.
    ///
    /// # Errors
    /// Kafka does not answer.
    pub async fn open(broker: &Arc<Broker>, tenant: &TenantId) -> Result<DeadLetterReader, Problem> {
        let permit = broker.capacity.permits.dead_letters.acquire(tenant, 1).await;
        let (own, name) = (broker.clone(), broker.topics.dead_letter.clone());
        let topic = name.clone();
        let open = move || own.dead_letter_scanner.take_or_open(&own.settings, &topic);
        let scanner = tokio::task::spawn_blocking(open).await.map_err(Problem::internal)??;
        let id = scanner.topic.to_string();
        let (broker, scanner) = (broker.clone(), Some(Arc::new(scanner)));
        Ok(DeadLetterReader {
            broker,
            scanner,
            name,
            id,
            has_failed: AtomicBool::new(false),
            _permit: permit,
        })
    }

    /// Returns a dead letter's record with its value.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if either is gone; or Kafka does not answer.
    pub async fn read_record(&self, letter: &DeadLetter) -> Result<Record, Problem> {
        match self.read_remains(letter).await? {
            DeadLetterRemains::Whole(record) => Ok(record),
            DeadLetterRemains::WithoutValue(_, why) | DeadLetterRemains::Nothing(why) => {
                Err(Problem::new(Kind::NotFound, why))
            }
        }
    }

    /// Returns the remaining data of a dead letter.
    ///
    /// # Errors
    /// Kafka does not answer.
    pub async fn read_remains(&self, letter: &DeadLetter) -> Result<DeadLetterRemains, Problem> {
        let DeadLetterId { topic_id, partition, offset } = &letter.id;
        if letter.stage != DeadLetterStage::Symbolize {
            let why = format!(
                "the record is in {}/{partition} at offset {offset}, a topic that the API does not read",
                letter.topic
            );
            return Ok(DeadLetterRemains::Nothing(why));
        }
        let record = match *topic_id == self.id {
            true => self.read_offset(*partition, *offset).await?,
            false => None,
        };
        Ok(match record {
            None => DeadLetterRemains::Nothing("the topic does not hold the record any more".to_owned()),
            Some(record) if record.value.is_none() => match record.headers.get_text(headers::VALUE_BYTES) {
                None => DeadLetterRemains::Whole(record),
                Some(bytes) => {
                    let why = format!(
                        "the value of {bytes} bytes was too large for a dead letter and was not kept"
                    );
                    DeadLetterRemains::WithoutValue(record, why)
                }
            },
            Some(record) => DeadLetterRemains::Whole(record),
        })
    }

    async fn read_offset(&self, partition: i32, offset: i64) -> Result<Option<Record>, StreamError> {
        let ended = || StreamError::Ended(self.name.clone());
        let (scanner, name) = (self.scanner.clone().ok_or_else(ended)?, self.name.clone());
        let read =
            tokio::task::spawn_blocking(move || scanner.scanner.read_record(&name, partition, offset)).await;
        let read = read.map_err(|_| ended()).flatten();
        if read.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl Drop for DeadLetterReader {
    /// Leaves the scanner for the next request, unless a read failed or is still running.
    fn drop(&mut self) {
        let Some(scanner) = self.scanner.take().and_then(Arc::into_inner) else { return };
        if !self.has_failed.load(Ordering::Relaxed) {
            self.broker.dead_letter_scanner.keep(scanner);
        }
    }
}

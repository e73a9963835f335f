//! Reads records of the dead-letter topic.

use crate::limits::permits::Permit;
use crate::operations::prelude::*;
use std::sync::Arc;
use unslide_model::TenantId;
use unslide_proto::headers;
use unslide_store::dead_letters::{DeadLetter, DeadLetterId, DeadLetterStage};
use unslide_stream::scan::Scanner;
use unslide_stream::{Record, StreamError, topic_facts};

/// A reader of the dead-letter topic, for one request. A permit limits the readers, and so the records in
/// memory.
pub struct DeadLetterReader {
    scanner: Arc<Scanner>,
    name: String,
    id: String,
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
    pub async fn open(broker: &Broker, tenant: &TenantId) -> Result<DeadLetterReader, Problem> {
        let permit = broker.capacity.permits.dead_letters.acquire(tenant, 1).await;
        let name = broker.topics.dead_letter.clone();
        let facts = topic_facts(&broker.settings, &name).await?;
        let settings = broker.settings.clone();
        let scanner = tokio::task::spawn_blocking(move || Scanner::open(&settings));
        let scanner = Arc::new(scanner.await.map_err(Problem::internal)??);
        Ok(DeadLetterReader { scanner, name, id: facts.id.to_string(), _permit: permit })
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
        let (scanner, name) = (Arc::clone(&self.scanner), self.name.clone());
        let read = tokio::task::spawn_blocking(move || scanner.read_record(&name, partition, offset));
        read.await.map_err(|_| StreamError::Ended(self.name.clone()))?
    }
}

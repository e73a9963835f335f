//! The records themselves, in the dead-letter topic.

use crate::limits::permits::Permit;
use crate::operations::prelude::*;
use std::sync::Arc;
use unslide_model::TenantId;
use unslide_proto::headers;
use unslide_store::dead_letters::{DeadLetter, DeadLetterId};
use unslide_stream::scan::Scanner;
use unslide_stream::{Record, StreamError, topic_facts};

/// A reader of the dead-letter topic, for one request. There are few at once, so that records in
/// memory are few.
pub struct DeadLetterReader {
    scanner: Arc<Scanner>,
    name: String,
    id: String,
    _permit: Permit,
}

/// What is left of a dead letter.
pub enum DeadLetterRemains {
    /// The record, with the value of the record that it was made of.
    Whole(Record),
    /// The record without a value, because that was too large for the topic.
    WithoutValue(Record, String),
    /// Nothing, and why.
    Nothing(String),
}

impl DeadLetterReader {
    /// Opens it for a tenant's request; waits until few others read, of the tenant and of all.
    ///
    /// # Errors
    /// Where Kafka does not answer.
    pub async fn open(api: &Api, tenant: &TenantId) -> Result<DeadLetterReader, Problem> {
        let permit = api.permits.dead_letters.acquire(tenant, 1).await;
        let name = api.topics.dead_letter.clone();
        let facts = topic_facts(&api.kafka, &name).await?;
        let settings = api.kafka.clone();
        let scanner = tokio::task::spawn_blocking(move || Scanner::open(&settings));
        let scanner = Arc::new(scanner.await.map_err(Problem::internal)??);
        Ok(DeadLetterReader { scanner, name, id: facts.id.to_string(), _permit: permit })
    }

    /// A dead letter's record with its value.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if either is gone; if Kafka does not answer.
    pub async fn record(&self, letter: &DeadLetter) -> Result<Record, Problem> {
        match self.provenance(letter).await? {
            DeadLetterRemains::Whole(record) => Ok(record),
            DeadLetterRemains::WithoutValue(_, why) | DeadLetterRemains::Nothing(why) => {
                Err(Problem::new(Kind::NotFound, why))
            }
        }
    }

    /// What is left of a dead letter.
    ///
    /// # Errors
    /// Where Kafka does not answer.
    pub async fn provenance(&self, letter: &DeadLetter) -> Result<DeadLetterRemains, Problem> {
        let DeadLetterId { topic_id, partition, offset } = &letter.id;
        let record = match *topic_id == self.id {
            true => self.read(*partition, *offset).await?,
            false => None,
        };
        Ok(match record {
            None => DeadLetterRemains::Nothing("the topic does not hold the record any more".to_owned()),
            Some(record) if record.value.is_none() => match record.headers.text(headers::VALUE_BYTES) {
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

    async fn read(&self, partition: i32, offset: i64) -> Result<Option<Record>, StreamError> {
        let (scanner, name) = (Arc::clone(&self.scanner), self.name.clone());
        let read = tokio::task::spawn_blocking(move || scanner.record(&name, partition, offset));
        read.await.map_err(|_| StreamError::Ended(self.name.clone()))?
    }
}

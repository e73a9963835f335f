//! The records themselves: in the dead-letter topic, and where a value was too large for it, in the
//! topic that it came from.

use crate::limits::permits::Permit;
use crate::operations::prelude::*;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::{ContentHash, TenantId};
use unslide_proto::headers;
use unslide_store::dead_letters::{DeadLetter, DeadLetterId, TopicOffset};
use unslide_stream::scan::Scanner;
use unslide_stream::{Record, StreamError, topic_facts};

/// A reader of the dead-letter topic, for one request. There are few at once, so that records in
/// memory are few.
pub struct DeadLetterReader<'a> {
    api: &'a Api,
    scanner: Arc<Scanner>,
    name: String,
    id: String,
    _permit: Permit,
}

/// What is left of a dead letter.
pub enum DeadLetterRemains {
    /// The record, with the value that it was made of.
    Whole(Record),
    /// The record without its value, which was too large for it and is gone; and the story.
    WithoutValue(Record, String),
    /// Nothing; and the story.
    Nothing(String),
}

/// A value that its dead letter came without.
struct LeftOut {
    bytes: usize,
    sha256: ContentHash,
    offset: usize,
}

impl LeftOut {
    /// What a dead letter says; `None` for one that has its value, or never had one.
    fn of(letter: &Record) -> Option<Result<LeftOut, String>> {
        if letter.value.is_some() {
            return None;
        }
        let bytes = letter.headers.number(headers::BODY_BYTES)?;
        let sha256 = letter.headers.text(headers::BODY_SHA256).and_then(|text| text.parse().ok());
        let offset = letter.headers.number(headers::BODY_OFFSET);
        let known = sha256.zip(offset).map(|(sha256, offset)| LeftOut { bytes, sha256, offset });
        Some(known.ok_or_else(|| {
            "the letter came without its value and does not say by what to know it: an earlier release wrote it"
                .to_owned()
        }))
    }

    /// The value, where the source's record is the one that the dead letter was made of.
    fn taken(&self, source: &Bytes) -> Option<Bytes> {
        let end = self.offset.checked_add(self.bytes).filter(|end| *end <= source.len())?;
        let value = source.slice(self.offset..end);
        (ContentHash(Sha256::digest(&value).into()) == self.sha256).then_some(value)
    }
}

impl<'a> DeadLetterReader<'a> {
    /// Opens it for a tenant's request; waits until few others read, of the tenant and of all.
    ///
    /// # Errors
    /// Where Kafka does not answer.
    pub async fn open(api: &'a Api, tenant: &TenantId) -> Result<DeadLetterReader<'a>, Problem> {
        let permit = api.permits.dead_letters.acquire(tenant, 1).await;
        let name = api.topics.dead_letter.clone();
        let facts = topic_facts(&api.kafka, &name).await?;
        let settings = api.kafka.clone();
        let scanner = tokio::task::spawn_blocking(move || Scanner::open(&settings));
        let scanner = Arc::new(scanner.await.map_err(Problem::internal)??);
        Ok(DeadLetterReader { api, scanner, name, id: facts.id.to_string(), _permit: permit })
    }

    /// A dead letter's record with its value.
    ///
    /// # Errors
    /// [`Kind::NotFound`] where either is gone; where Kafka does not answer.
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
            true => self.read(&self.name, *partition, *offset).await?,
            false => None,
        };
        let Some(mut record) = record else {
            return Ok(DeadLetterRemains::Nothing("the topic does not hold the record any more".to_owned()));
        };
        let left_out = match LeftOut::of(&record) {
            None => return Ok(DeadLetterRemains::Whole(record)),
            Some(Ok(left_out)) => left_out,
            Some(Err(why)) => return Ok(DeadLetterRemains::WithoutValue(record, why)),
        };
        Ok(match self.source(letter, left_out).await? {
            Ok(value) => {
                record.value = Some(value);
                DeadLetterRemains::Whole(record)
            }
            Err(why) => DeadLetterRemains::WithoutValue(record, why),
        })
    }

    /// The value that a dead letter came without, from the record that it was made of; the inner error is
    /// the story of one that is gone.
    async fn source(&self, letter: &DeadLetter, left_out: LeftOut) -> Result<Result<Bytes, String>, Problem> {
        let Some(TopicOffset { topic, partition, offset }) = &letter.source else {
            return Ok(Err("the letter came without its value and does not say where that is".to_owned()));
        };
        let bytes = left_out.bytes;
        let (place, at) = (format!("{topic}/{partition}"), text(letter.arrived_at));
        let story = |what: String| {
            format!(
                "the value of {bytes} bytes was too large for the letter and lay at offset {offset} of {place} when that \
                 was written ({at}); {what}"
            )
        };
        let names = &self.api.topics;
        if names.tenant_of_input(topic).is_none() && !names.all().contains(&topic.as_str()) {
            return Ok(Err(story("that is no topic of this installation".to_owned())));
        }
        let scanner = Arc::clone(&self.scanner);
        let topics =
            tokio::task::spawn_blocking(move || scanner.topics()).await.map_err(Problem::internal)??;
        if !topics.get(topic).is_some_and(|partitions| partitions.contains(partition)) {
            return Ok(Err(story("the topic was deleted since".to_owned())));
        }
        let Some(source) = self.read(topic, *partition, *offset).await?.and_then(|record| record.value)
        else {
            let now = text(self.api.clock.now());
            let (scanner, asked, partition) = (Arc::clone(&self.scanner), topic.clone(), *partition);
            let held = tokio::task::spawn_blocking(move || scanner.stable(&asked, partition));
            let (start, _) = held.await.map_err(Problem::internal)??;
            let what = format!("it was deleted since: at {now} the partition begins at offset {start}");
            return Ok(Err(story(what)));
        };
        // Hashing takes its time.
        let value = self.api.cpu.run(move || left_out.taken(&source)).await?;
        Ok(value
            .ok_or_else(|| story("another record is there now: the topic was made anew since".to_owned())))
    }

    async fn read(&self, topic: &str, partition: i32, offset: i64) -> Result<Option<Record>, StreamError> {
        let (scanner, name) = (Arc::clone(&self.scanner), topic.to_owned());
        let read = tokio::task::spawn_blocking(move || scanner.record(&name, partition, offset));
        read.await.map_err(|_| StreamError::Ended(topic.to_owned()))?
    }
}

fn text(at: OffsetDateTime) -> String {
    at.format(&Rfc3339).unwrap_or_default()
}

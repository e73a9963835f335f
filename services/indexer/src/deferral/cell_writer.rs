//! Passes records on to the cell that serves their tenants: to the topic of the same name there, with the same key, value and headers.

use crate::failure::IndexerError;
use crate::pipeline::resources::Resources;
use unslide_model::TenantId;
use unslide_proto::topics::TopicNames;
use unslide_stream::{OutRecord, Producer, Record, StreamError, TopicLookUps};

/// A record of a tenant that has moved.
pub struct MovedRecord<'r> {
    pub record: &'r Record,
    pub tenant: &'r TenantId,
    /// The prefix of the topics of the cell that serves the tenant.
    pub prefix: &'r str,
}

/// Writes to the topics of other cells.
pub struct CellWriter {
    resources: Resources,
    names: TopicNames,
    /// Made for the first record.
    producer: Option<Producer>,
    topics: TopicLookUps,
}

impl CellWriter {
    /// Creates a writer that has no connection yet.
    pub fn new(resources: &Resources) -> CellWriter {
        let names = resources.kafka.topic_names();
        let topics = TopicLookUps::new(&resources.kafka);
        CellWriter { resources: resources.clone(), names, producer: None, topics }
    }

    /// Passes records on. When it returns, all in-sync replicas have them.
    ///
    /// # Errors
    /// Returns [`IndexerError::NotPassedOn`] if a topic does not exist or does not take a record. Some of the records may be there
    /// then: all of them are to be passed on again.
    pub async fn pass_on(&mut self, records: &[MovedRecord<'_>]) -> Result<(), IndexerError> {
        if records.is_empty() {
            return Ok(());
        }
        self.write_records(records).await.map_err(|source| {
            let tenants = records.iter().map(|moved| moved.tenant.clone()).collect();
            IndexerError::NotPassedOn { tenants, source: Box::new(source) }
        })?;
        self.resources.metrics.passed_on.inc_by(records.len() as u64);
        Ok(())
    }

    async fn write_records(&mut self, records: &[MovedRecord<'_>]) -> Result<(), StreamError> {
        let targets: Vec<[String; 2]> = records.iter().map(|moved| self.list_targets(moved)).collect();
        self.topics.look_up(targets.iter().flatten().cloned().collect()).await?;
        let copies = records.iter().zip(targets).map(|(moved, [own, shared])| {
            let target = if self.topics.is_missing(&own) { shared } else { own };
            match self.topics.is_missing(&target) {
                true => Err(StreamError::NoTopic(target)),
                false => Ok(OutRecord::copy_of(moved.record, target)),
            }
        });
        let copies: Vec<OutRecord> = copies.collect::<Result<_, _>>()?;
        if self.producer.is_none() {
            self.producer = Some(Producer::new(&self.resources.kafka)?);
        }
        if let Some(producer) = &self.producer {
            producer.send_all(&copies).await?;
        }
        Ok(())
    }

    /// Returns the topic of the same name in the other cell, and the shared one, which takes the records of a tenant's own topic if
    /// that does not exist there.
    fn list_targets(&self, moved: &MovedRecord<'_>) -> [String; 2] {
        let topics = &self.resources.topics;
        let named = |topic: &str| self.names.name_with_prefix(topic, moved.prefix);
        let shared = named(&topics.shared).unwrap_or_else(|| topics.shared.clone());
        [named(&moved.record.at.topic).unwrap_or_else(|| shared.clone()), shared]
    }
}

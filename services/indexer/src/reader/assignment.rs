//! The topics of a reader, the partitions that are assigned to it, and the positions at which it continues.

use crate::failure::IndexerError;
use crate::reader::replay_target::ReplayTarget;
use crate::topics::Positions;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use unslide_store::positions::{self, PartitionPosition};
use unslide_store::{Store, StoreError};
use unslide_stream::{StreamError, TopicFacts, TopicPartition, topics_facts};

/// Lease on partitions: who takes it, and for how long.
pub struct Lease<'a> {
    /// Store that holds the leases.
    pub store: &'a Store,
    pub owner: &'a str,
    /// Time after which the partitions of a silent owner become free.
    pub time: time::Duration,
}

impl Lease<'_> {
    async fn share_topic(&self, topic: &str, facts: &TopicFacts) -> Result<Vec<i32>, StoreError> {
        let partitions = facts.partitions.iter().map(|p| p.partition + 1).max().unwrap_or(0);
        positions::share_partitions(self.store, topic, partitions, self.owner, self.time).await
    }
}

/// Partitions that a reader holds, with their positions.
pub struct Assignment {
    facts: BTreeMap<Arc<str>, TopicFacts>,
    mine: BTreeMap<Arc<str>, Vec<i32>>,
    /// The next offset of each partition of this reader.
    pub positions: Positions,
    /// Topics that cannot be read for now, with the reason. Other topics are read all the same.
    pub troubles: Vec<(Arc<str>, IndexerError)>,
}

impl Assignment {
    /// Takes this reader's share of each topic.
    ///
    /// # Errors
    /// Returns an error if the database or Kafka fails. Errors of a single topic are added to `troubles`.
    pub async fn take_shares(
        kafka: &unslide_stream::Settings,
        topics: &[String],
        lease: &Lease<'_>,
    ) -> Result<Assignment, IndexerError> {
        let mut assignment = Assignment {
            facts: BTreeMap::new(),
            mine: BTreeMap::new(),
            positions: Positions::new(),
            troubles: Vec::new(),
        };
        let all = topics_facts(kafka, topics.to_vec()).await?;
        for (topic, facts) in topics.iter().zip(all) {
            let topic: Arc<str> = topic.as_str().into();
            let facts = match facts {
                Ok(facts) => facts,
                Err(error) => {
                    assignment.troubles.push((topic, error.into()));
                    continue;
                }
            };
            let mine = lease.share_topic(&topic, &facts).await?;
            match find_positions(lease.store, &topic, &facts, &mine).await {
                Ok(positions) => assignment.positions.extend(positions),
                Err(IndexerError::Store(error)) => return Err(error.into()),
                Err(trouble) => {
                    assignment.troubles.push((topic, trouble));
                    continue;
                }
            }
            assignment.mine.insert(Arc::clone(&topic), mine);
            assignment.facts.insert(topic, facts);
        }
        Ok(assignment)
    }

    /// Renews the leases. Returns false if the share has changed.
    pub async fn renew_leases(&self, lease: &Lease<'_>) -> Result<bool, StoreError> {
        for (topic, facts) in &self.facts {
            if Some(&lease.share_topic(topic, facts).await?) != self.mine.get(topic) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Renews the leases while `work` runs, because statements may take longer than a lease. Returns false if
    /// the share has changed; `work` is cancelled then.
    pub async fn keep_while(
        &self,
        lease: &Lease<'_>,
        every: Duration,
        work: impl Future<Output = Result<(), IndexerError>>,
    ) -> Result<bool, IndexerError> {
        let mut work = pin!(work);
        loop {
            match timeout(every, &mut work).await {
                Ok(done) => return done.map(|()| true),
                Err(_) if matches!(self.renew_leases(lease).await, Ok(false)) => return Ok(false),
                // If the database does not answer, `work` will fail too.
                Err(_) => {}
            }
        }
    }

    /// Reads the current state of the topics. Returns false if one was replaced, or has another number of
    /// partitions.
    ///
    /// # Errors
    /// Returns an error if Kafka does not answer.
    pub async fn refresh_facts(&mut self, kafka: &unslide_stream::Settings) -> Result<bool, StreamError> {
        let topics: Vec<String> = self.facts.keys().map(ToString::to_string).collect();
        let all = topics_facts(kafka, topics).await?;
        for (known, now) in self.facts.values_mut().zip(all) {
            let now = match now {
                Ok(now) => now,
                Err(StreamError::NoTopic(_)) => return Ok(false),
                Err(error) => return Err(error),
            };
            if now.id != known.id || now.partitions.len() != known.partitions.len() {
                return Ok(false);
            }
            *known = now;
        }
        Ok(true)
    }

    /// Returns the partitions that other readers have to read, up to the current ends of their logs. A
    /// damaged topic of one tenant stops only that tenant; a damaged `shared` topic stops all.
    pub fn list_other_targets(&self, shared: &str) -> Vec<ReplayTarget> {
        let mut targets = Vec::new();
        for (topic, facts) in &self.facts {
            let mine = self.mine.get(topic).map_or(&[][..], Vec::as_slice);
            let others = facts.partitions.iter().filter(|p| !mine.contains(&p.partition) && p.end > p.start);
            targets.extend(others.map(|held| ReplayTarget {
                topic: topic.to_string(),
                topic_id: facts.id.to_string(),
                held: *held,
                alone: **topic != *shared,
            }));
        }
        targets
    }

    /// Returns the log end of each of these partitions as of the last look-up.
    pub fn log_ends(&self, positions: &Positions) -> impl Iterator<Item = (TopicPartition, i64)> {
        let places = self.facts.iter().flat_map(|(topic, facts)| {
            facts.partitions.iter().map(move |p| ((Arc::clone(topic), p.partition), p.end))
        });
        places.filter(|(place, _)| positions.contains_key(place))
    }
}

/// Returns the positions of these partitions, each checked against the offsets in the log.
async fn find_positions(
    store: &Store,
    topic: &Arc<str>,
    facts: &TopicFacts,
    mine: &[i32],
) -> Result<Positions, IndexerError> {
    let mut found = Positions::new();
    for held in facts.partitions.iter().filter(|p| mine.contains(&p.partition)) {
        let first = PartitionPosition {
            topic: topic.to_string(),
            partition: held.partition,
            topic_id: facts.id.to_string(),
            next_offset: held.start,
        };
        let position = positions::insert_first_position(store, &first).await?;
        if position.topic_id != first.topic_id {
            let (topic, was, is) = (first.topic, position.topic_id, first.topic_id);
            return Err(IndexerError::OtherTopic { topic, was, is });
        }
        if !(held.start..=held.end).contains(&position.next_offset) {
            return Err(IndexerError::OutOfRange {
                topic: first.topic,
                partition: held.partition,
                offset: position.next_offset,
                start: held.start,
                end: held.end,
            });
        }
        found.insert((Arc::clone(topic), held.partition), position);
    }
    Ok(found)
}

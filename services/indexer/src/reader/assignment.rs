//! What a reader holds of its topics: which there are, which of their partitions are its own, and
//! where it goes on.

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

/// Who asks for partitions, and for how long.
pub struct Lease<'a> {
    /// Where leases are kept.
    pub store: &'a Store,
    /// This process.
    pub owner: &'a str,
    /// How long partitions stay with an owner that says nothing any more.
    pub time: time::Duration,
}

impl Lease<'_> {
    async fn share(&self, topic: &str, facts: &TopicFacts) -> Result<Vec<i32>, StoreError> {
        let partitions = facts.partitions.iter().map(|p| p.partition + 1).max().unwrap_or(0);
        positions::share(self.store, topic, partitions, self.owner, self.time).await
    }
}

/// What a reader holds.
pub struct Assignment {
    facts: BTreeMap<Arc<str>, TopicFacts>,
    mine: BTreeMap<Arc<str>, Vec<i32>>,
    /// Where each partition of this reader's goes on.
    pub positions: Positions,
    /// Topics that can't be read for now, and why. Other topics are read meanwhile.
    pub troubles: Vec<(Arc<str>, IndexerError)>,
}

impl Assignment {
    /// Takes this reader's share of each topic.
    ///
    /// # Errors
    /// Where the database or Kafka fails. What concerns one topic only is among the troubles.
    pub async fn take(
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
            let mine = lease.share(&topic, &facts).await?;
            match found(lease.store, &topic, &facts, &mine).await {
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

    /// Asks for the same again; false where it is not the same any more.
    pub async fn keep(&self, lease: &Lease<'_>) -> Result<bool, StoreError> {
        for (topic, facts) in &self.facts {
            if Some(&lease.share(topic, facts).await?) != self.mine.get(topic) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Keeps it while some work is done: statements may take longer than a lease lasts. False where it is not the same
    /// any more; the work is given up then.
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
                Err(_) if matches!(self.keep(lease).await, Ok(false)) => return Ok(false),
                // Where the database does not tell, the work finds out by itself.
                Err(_) => {}
            }
        }
    }

    /// Asks what the topics are now; false where one is another one now, or has other partitions.
    ///
    /// # Errors
    /// Where Kafka does not tell.
    pub async fn refresh(&mut self, kafka: &unslide_stream::Settings) -> Result<bool, StreamError> {
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

    /// What others have to read of these topics, up to where their logs end now. What lies wrong with one
    /// tenant's topic stops this tenant alone, one of `shared` stops all.
    pub fn of_others(&self, shared: &str) -> Vec<ReplayTarget> {
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

    /// The end of each of these partitions' logs when it was last looked at.
    pub fn ends(&self, positions: &Positions) -> impl Iterator<Item = (TopicPartition, i64)> {
        let places = self.facts.iter().flat_map(|(topic, facts)| {
            facts.partitions.iter().map(move |p| ((Arc::clone(topic), p.partition), p.end))
        });
        places.filter(|(place, _)| positions.contains_key(place))
    }
}

/// The positions of these partitions, each checked against what the log holds.
async fn found(
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
        let position = positions::begin(store, &first).await?;
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

//! Resets positions at which no reader can continue, for an operator after Kafka's topics were lost or
//! created again.

use crate::run::Error;
use unslide_store::Store;
use unslide_store::positions::{self, PartitionPosition};
use unslide_stream::{Settings, StreamError, TopicFacts, topics_facts};

/// A position that was reset, or has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The position before the reset.
    pub before: PartitionPosition,
    /// The broker's id of the topic that exists now.
    pub topic_id: String,
    /// The first offset that exists now.
    pub next_offset: i64,
}

/// Resets every position that lies outside its topic, or that belongs to another topic of that name, to the
/// topic's beginning. The other positions stay. Reading records a second time changes no stored data.
/// Positions of topics that do not exist stay too, and are not read.
///
/// # Errors
/// Returns an error if the database or Kafka fails.
pub async fn reset_positions(store: &Store, kafka: &Settings) -> Result<Vec<Reset>, Error> {
    let misplaced = misplaced_positions(store, kafka).await?;
    for reset in &misplaced {
        let now = PartitionPosition {
            topic_id: reset.topic_id.clone(),
            next_offset: reset.next_offset,
            ..reset.before.clone()
        };
        positions::reset_position(store, &now).await?;
    }
    Ok(misplaced)
}

/// Finds the positions that [`reset_positions`] changes, and changes nothing.
///
/// # Errors
/// If the database or Kafka fails.
pub async fn misplaced_positions(store: &Store, kafka: &Settings) -> Result<Vec<Reset>, Error> {
    let known = positions::read_all_positions(store).await?;
    let mut topics: Vec<String> = known.iter().map(|position| position.topic.clone()).collect();
    topics.dedup();
    let facts = topics_facts(kafka, topics.clone()).await?;
    let mut reset = Vec::new();
    for (topic, facts) in topics.iter().zip(facts) {
        let facts = match facts {
            Err(StreamError::NoTopic(_)) => continue,
            facts => facts?,
        };
        for before in known.iter().filter(|position| position.topic == *topic) {
            let Some(now) = correct_position(before, &facts) else { continue };
            let PartitionPosition { topic_id, next_offset, .. } = now;
            reset.push(Reset { before: before.clone(), topic_id, next_offset });
        }
    }
    Ok(reset)
}

/// Returns the corrected position, or `None` if it is right or its partition does not exist.
fn correct_position(position: &PartitionPosition, topic: &TopicFacts) -> Option<PartitionPosition> {
    let held = topic.partitions.iter().find(|held| held.partition == position.partition)?;
    let id = topic.id.to_string();
    if id == position.topic_id && (held.start..=held.end).contains(&position.next_offset) {
        return None;
    }
    Some(PartitionPosition { topic_id: id, next_offset: held.start, ..position.clone() })
}

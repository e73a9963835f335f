//! Positions that no reader can go on from: an operator's way out, after Kafka's topics were lost or made
//! anew.

use crate::run::Error;
use unslide_store::Store;
use unslide_store::positions::{self, PartitionPosition};
use unslide_stream::{Settings, StreamError, TopicFacts, topics_facts};

/// A position that was put somewhere else, or has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// Where it was.
    pub before: PartitionPosition,
    /// The broker's id of the topic that there is.
    pub topic_id: String,
    /// The first offset that there is.
    pub next_offset: i64,
}

/// Puts every position that lies outside its topic, or that is of another topic of that name, to the topic's
/// beginning; the others stay. What is read a second time changes nothing that is stored. Positions of
/// topics that are not there stay too, and are not read.
///
/// # Errors
/// Where the database or Kafka fails.
pub async fn reset_positions(store: &Store, kafka: &Settings) -> Result<Vec<Reset>, Error> {
    let misplaced = misplaced_positions(store, kafka).await?;
    for reset in &misplaced {
        let now = PartitionPosition {
            topic_id: reset.topic_id.clone(),
            next_offset: reset.next_offset,
            ..reset.before.clone()
        };
        positions::reset(store, &now).await?;
    }
    Ok(misplaced)
}

/// Finds the positions that [`reset_positions`] changes, and changes nothing.
///
/// # Errors
/// If the database or Kafka fails.
pub async fn misplaced_positions(store: &Store, kafka: &Settings) -> Result<Vec<Reset>, Error> {
    let known = positions::all(store).await?;
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
            let Some(now) = good(before, &facts) else { continue };
            let PartitionPosition { topic_id, next_offset, .. } = now;
            reset.push(Reset { before: before.clone(), topic_id, next_offset });
        }
    }
    Ok(reset)
}

/// Where a position has to be put; `None` where it is right, or its partition is not there.
fn good(position: &PartitionPosition, topic: &TopicFacts) -> Option<PartitionPosition> {
    let held = topic.partitions.iter().find(|held| held.partition == position.partition)?;
    let id = topic.id.to_string();
    if id == position.topic_id && (held.start..=held.end).contains(&position.next_offset) {
        return None;
    }
    Some(PartitionPosition { topic_id: id, next_offset: held.start, ..position.clone() })
}

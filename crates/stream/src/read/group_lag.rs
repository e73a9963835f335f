//! How far a consumer group is behind, seen from outside of it.

use crate::client::BROKER_REQUEST_TIMEOUT;
use crate::error::StreamError;
use crate::read::scan::committed_offsets;
use crate::settings::Settings;
use crate::topics::topic_facts::topics_facts;
use std::collections::BTreeMap;

/// Returns the number of offsets between what a group has committed and the ends of these topics. A partition without a
/// committed offset counts from its first record. Topics that do not exist are left out.
///
/// # Errors
/// Returns an error if Kafka does not answer, or refuses to describe a topic or the group.
pub async fn group_lag(settings: &Settings, group: String, topics: Vec<String>) -> Result<u64, StreamError> {
    let facts = topics_facts(settings, topics.clone()).await?;
    let mut held = BTreeMap::new();
    for (topic, facts) in topics.into_iter().zip(facts) {
        match facts {
            Ok(facts) => held.extend(
                facts.partitions.iter().map(|held| ((topic.clone(), held.partition), (held.start, held.end))),
            ),
            Err(StreamError::NoTopic(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let (settings, places) = (settings.clone(), held.keys().cloned().collect::<Vec<_>>());
    let asked = tokio::task::spawn_blocking(move || {
        committed_offsets(&settings, &group, &places, BROKER_REQUEST_TIMEOUT)
    });
    let committed = asked.await.map_err(|_| StreamError::Ended("group offsets".to_owned()))??;
    let waiting = held.iter().map(|(place, (start, end))| {
        let next = committed.get(place).copied().unwrap_or(*start).max(*start);
        u64::try_from(end - next).unwrap_or(0)
    });
    Ok(waiting.sum())
}

/// Returns the offsets that a group has committed in a topic, by partition. Partitions without one are left out.
///
/// # Errors
/// Returns an error if Kafka does not answer, or refuses to describe the topic or the group.
pub async fn read_group_offsets(
    settings: &Settings,
    group: String,
    topic: String,
    partitions: Vec<i32>,
) -> Result<BTreeMap<i32, i64>, StreamError> {
    let settings = settings.clone();
    let asked = tokio::task::spawn_blocking(move || {
        let places: Vec<(String, i32)> =
            partitions.into_iter().map(|partition| (topic.clone(), partition)).collect();
        committed_offsets(&settings, &group, &places, BROKER_REQUEST_TIMEOUT)
    });
    let committed = asked.await.map_err(|_| StreamError::Ended("group offsets".to_owned()))??;
    Ok(committed.into_iter().map(|place| (place.0.1, place.1)).collect())
}

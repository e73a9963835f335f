//! More partitions for the topics that bound the number of workers.

use super::admin::{admin_options, create_client, fetch_metadata};
use crate::access::GROWING_TOPICS;
use crate::client::{BROKER_REQUEST_TIMEOUT, Logging};
use crate::error::StreamError;
use crate::settings::Settings;
use rdkafka::admin::{AdminClient, NewPartitions};
use rdkafka::error::KafkaError;
use rdkafka::metadata::MetadataTopic;
use std::sync::Arc;
use std::time::Duration;

/// The number of partitions of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionCount {
    /// The topic's name.
    pub topic: String,
    /// Partitions before the change.
    pub before: usize,
    /// Partitions after it: more, or as many.
    pub after: usize,
}

/// Gives the topics of reports, enriched reports, sessions and metrics at least `partitions` each, and waits until each
/// partition has a leader. Topics that have as many stay as they are: Kafka cannot take partitions away.
///
/// Records that are in a topic stay in their partitions. The key of a later record may choose another partition than before:
/// two records with one key may be read in another order than they were written in, if one was written before the change.
///
/// # Errors
/// [`StreamError::NoTopic`] if one of the topics does not exist; another error if Kafka refuses or does not answer.
pub async fn add_partitions(
    settings: &Settings,
    partitions: usize,
) -> Result<Vec<PartitionCount>, StreamError> {
    let client = create_client(settings)?;
    let found = find_partitions(&client, settings).await?.into_iter();
    let counts: Vec<PartitionCount> = found
        .map(|Found { topic, partitions: before, .. }| PartitionCount {
            topic,
            before,
            after: before.max(partitions),
        })
        .collect();
    let wanted: Vec<NewPartitions<'_>> = counts
        .iter()
        .filter(|count| count.after > count.before)
        .map(|count| NewPartitions::new(&count.topic, count.after))
        .collect();
    if wanted.is_empty() {
        return Ok(counts);
    }
    let added = client.create_partitions(&wanted, &admin_options()).await;
    for result in added.map_err(|e| StreamError::from_kafka("adding partitions", e))? {
        if let Err((topic, code)) = result {
            let what = format!("adding partitions to the topic {topic}");
            return Err(StreamError::from_kafka(what, KafkaError::AdminOp(code)));
        }
    }
    for _ in 0..100 {
        let found = find_partitions(&client, settings).await?;
        if found.iter().zip(&counts).all(|(found, count)| found.with_leader >= count.after) {
            return Ok(counts);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(StreamError::Topics(vec!["the new partitions have no leader yet".to_owned()]))
}

/// A topic that [`add_partitions`] changes.
struct Found {
    topic: String,
    partitions: usize,
    with_leader: usize,
}

/// Finds the topics that [`add_partitions`] changes, that of reports first.
async fn find_partitions(
    client: &Arc<AdminClient<Logging>>,
    settings: &Settings,
) -> Result<Vec<Found>, StreamError> {
    let metadata = fetch_metadata(client).await?;
    let find = |name: &&str| {
        let name = format!("{}{name}", settings.topic_prefix);
        let is_wanted = |topic: &&MetadataTopic| topic.name() == name && topic.error().is_none();
        let Some(topic) = metadata.topics().iter().find(is_wanted) else {
            return Err(StreamError::NoTopic(name));
        };
        let with_leader = topic.partitions().iter().filter(|partition| partition.leader() >= 0).count();
        Ok(Found { topic: name, partitions: topic.partitions().len(), with_leader })
    };
    GROWING_TOPICS.iter().map(find).collect()
}

/// Counts the members of the group that reads the topic of reports, and that topic's partitions: more members than
/// partitions have nothing to do.
///
/// # Errors
/// As [`add_partitions`].
pub async fn count_workers(settings: &Settings) -> Result<(usize, usize), StreamError> {
    let client = create_client(settings)?;
    let input = find_partitions(&client, settings).await?.swap_remove(0).partitions;
    let group = unslide_proto::lanes::consumer_group(&settings.topic_prefix, unslide_proto::lanes::LIVE);
    let asked = tokio::task::spawn_blocking(move || {
        let groups = client.inner().fetch_group_list(Some(&group), BROKER_REQUEST_TIMEOUT)?;
        Ok(groups.groups().iter().map(|group| group.members().len()).sum())
    });
    let members: Result<usize, KafkaError> =
        asked.await.map_err(|_| StreamError::Ended("the group's members".to_owned()))?;
    Ok((members.map_err(|e| StreamError::from_kafka("asking for the group's members", e))?, input))
}

//! Topics that a reader reads, and its positions in them.

use std::collections::BTreeMap;
use unslide_model::TenantId;
use unslide_proto::topics::TopicNames;
use unslide_store::positions::PartitionPosition;
use unslide_stream::{StreamError, TopicPartition, admin};

/// Next offsets of a reader, by partition.
pub type Positions = BTreeMap<TopicPartition, PartitionPosition>;

/// The topics of a reader.
#[derive(Clone, Debug)]
pub struct Topics {
    /// The shared topic, which always exists.
    pub shared: String,
    /// True if the reader also reads tenants' own output topics, as far as they exist.
    pub tenants: bool,
}

impl Topics {
    /// Returns the names of all topics that exist now.
    ///
    /// # Errors
    /// Returns an error if Kafka cannot list the topics.
    pub async fn list_existing(&self, kafka: &unslide_stream::Settings) -> Result<Vec<String>, StreamError> {
        let mut topics = vec![self.shared.clone()];
        if self.tenants {
            let names = kafka.topic_names();
            let own = admin::topics_matching(kafka, |topic| names.tenant_of_output(topic).is_some());
            topics.extend(own.await?);
        }
        Ok(topics)
    }

    /// Returns the tenant that owns the topic, if it is a tenant's own topic.
    pub fn tenant_of(&self, names: &TopicNames, topic: &str) -> Option<TenantId> {
        if self.tenants { names.tenant_of_output(topic) } else { None }
    }
}

//! Which topics are read, and how far.

use std::collections::BTreeMap;
use unslide_model::TenantId;
use unslide_proto::topics::TopicNames;
use unslide_store::positions::PartitionPosition;
use unslide_stream::{StreamError, TopicPartition, admin};

/// The positions of what a reader reads.
pub type Positions = BTreeMap<TopicPartition, PartitionPosition>;

/// Which topics a reader reads.
#[derive(Clone, Debug)]
pub struct Topics {
    /// The one that is always there.
    pub shared: String,
    /// Tenants' own output topics as well, those that there are at any time.
    pub tenants: bool,
}

impl Topics {
    /// The names of all topics that there are now.
    ///
    /// # Errors
    /// Where Kafka does not tell.
    pub async fn now(&self, kafka: &unslide_stream::Settings) -> Result<Vec<String>, StreamError> {
        let mut topics = vec![self.shared.clone()];
        if self.tenants {
            let names = kafka.topics();
            let own = admin::topics_matching(kafka, |topic| names.tenant_of_output(topic).is_some());
            topics.extend(own.await?);
        }
        Ok(topics)
    }

    /// Whose topic this is, where it is one tenant's.
    pub fn tenant_of(&self, names: &TopicNames, topic: &str) -> Option<TenantId> {
        if self.tenants { names.tenant_of_output(topic) } else { None }
    }
}

//! Resources of the relay, which sends the outbox, and of its maintenance.

use crate::config::Settings;
use crate::feature::BuilderFeature;
use crate::metrics::Metrics;
use crate::notifications::Notifications;
use crate::storage::JobStorage;
use std::sync::Arc;
use unslide_proto::topics::TopicNames;
use unslide_runtime::Shutdown;

/// Storage, the settings of Kafka, and the features whose old rows the maintenance deletes.
pub(crate) struct RelayResources {
    pub(crate) storage: JobStorage,
    pub(crate) kafka: unslide_stream::Settings,
    pub(crate) topics: TopicNames,
    pub(crate) notifications: Arc<Notifications>,
    pub(crate) settings: Settings,
    pub(crate) features: Vec<BuilderFeature>,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: Shutdown,
}

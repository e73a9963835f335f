//! Shared state of the lanes of one worker, in parts. A step of a lane takes the part that it uses.

use crate::admission::sender::{self, SenderChecks};
use crate::enricher::Enricher;
use crate::metrics::Metrics;
use crate::output::outcomes::OutcomeWriter;
use crate::output::traces::RecordTraces;
use crate::symbols::warm_start::WarmStart;
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::ObjectStore;
use unslide_model::Clock;
use unslide_proto::topics::TopicNames;
use unslide_stream::Record;
use unslide_stream::lane::Pause;

/// Pause after topics of other cells could not be looked up.
const LOOK_UP_BACKOFF: Duration = Duration::from_secs(1);

/// A worker: the dependencies that its lanes share.
pub struct Worker {
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Names of the installation's topics.
    pub topics: TopicNames,
    pub senders: Arc<SenderChecks>,
    pub enricher: Enricher,
    /// Loads the symcaches of new partitions.
    pub warm_start: Arc<WarmStart>,
    pub outcomes: OutcomeWriter,
    pub traces: Arc<RecordTraces>,
    /// Object storage, which holds the segments of stored reports.
    pub objects: ObjectStore,
    /// Once a batch's outputs have this many bytes, its other records wait for the next transaction.
    pub most_outputs: usize,
    pub metrics: Metrics,
}

impl Worker {
    /// Looks up the topics of other cells that records of this batch are passed on to.
    ///
    /// # Errors
    /// Returns [`Pause`] if Kafka cannot list the topics.
    pub async fn look_up_cell_topics(&self, batch: &[Record]) -> Result<(), Pause> {
        let topics = sender::list_cell_topics(&self.senders, batch);
        let missing = self.outcomes.cells.look_up(topics).await.map_err(|error| {
            let reason = format!("the topics of other cells cannot be listed: {error}");
            Pause { reason, wait: LOOK_UP_BACKOFF }
        })?;
        for topic in &missing {
            tracing::error!(
                kafka.topic = topic,
                "a topic of the cell to which a tenant moved does not exist: records that no other topic takes become dead letters"
            );
        }
        Ok(())
    }
}

//! Telling the processor how much of each topic is this lane's.

use crate::lane::assignment::context::TopicPartition;
use crate::lane::engine::{Engine, STORE_ATTEMPT_TIMEOUT};
use crate::lane::{Processor, TopicShare};
use rdkafka::consumer::Consumer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The pause after a request in which Kafka did not tell how many partitions there are.
const PARTITION_COUNT_BACKOFF: Duration = Duration::from_secs(1);

impl<P: Processor> Engine<P> {
    pub(in crate::lane) fn tell_shares(&mut self) {
        let owned: Vec<TopicPartition> = {
            let mut ownership = self.consumer.context().ownership.lock();
            if !ownership.shares_changed || self.shares_not_before.is_some_and(|at| Instant::now() < at) {
                return;
            }
            ownership.shares_changed = false;
            self.unassigned_check_at = Some(Instant::now() + self.lane.timings.session);
            ownership.owned.keys().cloned().collect()
        };
        let mut assigned: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for (topic, _) in owned {
            *assigned.entry(topic).or_default() += 1;
        }
        if let Some(shares) = self.list_shares(&assigned) {
            self.shares_not_before = None;
            self.processor.on_assigned(&shares);
        } else {
            self.shares_not_before = Some(Instant::now() + PARTITION_COUNT_BACKOFF);
            self.consumer.context().ownership.lock().shares_changed = true;
        }
    }

    /// Returns the share of the partitions of each topic; `None` if Kafka does not tell how many there are.
    pub(super) fn list_shares(&self, assigned: &BTreeMap<Arc<str>, usize>) -> Option<Vec<TopicShare>> {
        let _call = self.control.watch.enter_call("metadata");
        // One request for all if there may be many topics.
        let asked: Vec<Option<&str>> = if assigned.len() > 4 {
            vec![None]
        } else {
            assigned.keys().map(|topic| Some(&**topic)).collect()
        };
        let mut shares = Vec::with_capacity(assigned.len());
        for topic in asked {
            let metadata = match self.consumer.fetch_metadata(topic, STORE_ATTEMPT_TIMEOUT) {
                Ok(metadata) => metadata,
                Err(e) => {
                    tracing::debug!(error = %e, "the topics' partitions are not known yet");
                    return None;
                }
            };
            shares.extend(metadata.topics().iter().filter_map(|known| {
                let (topic, assigned) = assigned.get_key_value(known.name())?;
                let total = known.partitions().len();
                (total > 0).then(|| TopicShare { topic: Arc::clone(topic), assigned: *assigned, total })
            }));
        }
        (shares.len() == assigned.len()).then_some(shares)
    }
}

//! Telling the processor how much of each topic is this lane's.

use crate::lane::assignment::context::TopicPartition;
use crate::lane::engine::{Engine, STORE_ATTEMPT_TIMEOUT};
use crate::lane::{Processor, TopicShare};
use rdkafka::consumer::Consumer;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The pause after a request in which Kafka did not tell how many partitions there are.
const PARTITION_COUNT_BACKOFF: Duration = Duration::from_secs(1);

impl<P: Processor> Engine<P> {
    pub(in crate::lane) fn tell_shares(&mut self) {
        let owned: Vec<TopicPartition> = {
            let mut ownership = self.consumer.context().ownership.lock();
            if !ownership.shares_changed
                || self.checks.shares_not_before.is_some_and(|at| Instant::now() < at)
            {
                return;
            }
            ownership.shares_changed = false;
            self.checks.unassigned_at = Some(Instant::now() + self.lane.timings.session);
            ownership.owned.keys().cloned().collect()
        };
        let mut assigned: BTreeMap<Arc<str>, BTreeSet<i32>> = BTreeMap::new();
        for (topic, partition) in owned {
            assigned.entry(topic).or_default().insert(partition);
        }
        if let Some(totals) = self.count_partitions(assigned.keys()) {
            self.checks.shares_not_before = None;
            let share = |(topic, partitions)| TopicShare { total: totals[&topic], topic, partitions };
            let shares: Vec<TopicShare> = assigned.into_iter().map(share).collect();
            self.processor.on_assigned(&shares);
        } else {
            self.checks.shares_not_before = Some(Instant::now() + PARTITION_COUNT_BACKOFF);
            self.consumer.context().ownership.lock().shares_changed = true;
        }
    }

    /// Returns the number of partitions of each topic; `None` if Kafka does not tell one of them.
    pub(super) fn count_partitions<'t>(
        &self,
        topics: impl ExactSizeIterator<Item = &'t Arc<str>> + Clone,
    ) -> Option<BTreeMap<Arc<str>, usize>> {
        let _call = self.control.watch.enter_call("metadata");
        // One request for all if there may be many topics.
        let asked: Vec<Option<&str>> =
            if topics.len() > 4 { vec![None] } else { topics.clone().map(|topic| Some(&**topic)).collect() };
        let mut totals: BTreeMap<Arc<str>, usize> = topics.map(|topic| (Arc::clone(topic), 0)).collect();
        for topic in asked {
            let metadata = match self.consumer.fetch_metadata(topic, STORE_ATTEMPT_TIMEOUT) {
                Ok(metadata) => metadata,
                Err(e) => {
                    tracing::debug!(error = %e, "the topics' partitions are not known yet");
                    return None;
                }
            };
            for known in metadata.topics() {
                if let Some(total) = totals.get_mut(known.name()) {
                    *total = known.partitions().len();
                }
            }
        }
        totals.values().all(|total| *total > 0).then_some(totals)
    }
}

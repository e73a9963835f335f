//! Records that were polled and are not being prepared yet.

use crate::lane::assignment::context::{Ownership, TopicPartition};
use crate::read::spread::BatchLimits;
use crate::record::Record;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Fewer records than these may be larger than two batches.
const LARGE_RECORDS_LIMIT: usize = 4;

/// A record with the epoch of its partition's assignment.
#[derive(Clone, Debug)]
pub(in crate::lane) struct GatheredRecord {
    pub record: Record,
    pub epoch: u64,
}

impl GatheredRecord {
    pub(in crate::lane) fn topic_partition(&self) -> TopicPartition {
        (Arc::clone(&self.record.at.topic), self.record.at.partition)
    }

    /// Returns true while the partition is still, or again without a break, this lane's.
    pub(in crate::lane) fn is_current(&self, ownership: &Ownership) -> bool {
        ownership.find_epoch(&self.topic_partition()) == Some(self.epoch)
    }
}

/// The queue between polling and preparing.
#[derive(Debug)]
pub(in crate::lane) struct Gather {
    limits: BatchLimits,
    queue: VecDeque<GatheredRecord>,
    bytes: usize,
    /// When the oldest record came.
    since: Option<Instant>,
}

impl Gather {
    pub(in crate::lane) fn new(limits: BatchLimits) -> Gather {
        Gather { limits, queue: VecDeque::new(), bytes: 0, since: None }
    }

    pub(in crate::lane) fn push(&mut self, held: GatheredRecord) {
        self.bytes += held.record.size();
        self.queue.push_back(held);
        self.since.get_or_insert_with(Instant::now);
    }

    pub(in crate::lane) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(in crate::lane) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns true if a whole batch is here.
    pub(in crate::lane) fn is_full(&self) -> bool {
        self.queue.len() >= self.limits.records || self.bytes >= self.limits.bytes
    }

    /// Returns true if fetching has to stop. The client then drops the records that it has fetched and
    /// unpacked, and fetches them again: with large records that costs more than to keep a few of them.
    pub(in crate::lane) fn is_overfull(&self) -> bool {
        let large = self.bytes >= 2 * self.limits.bytes && self.queue.len() >= LARGE_RECORDS_LIMIT;
        large || self.queue.len() >= 2 * self.limits.records
    }

    /// Returns true if a batch may be taken: it is full, or its first record has waited long enough. If the
    /// lane has `rested` since its last transaction, the first record waits for no other: records that come
    /// then are the next batch.
    pub(in crate::lane) fn is_due(&self, rested: Duration) -> bool {
        self.is_full() || self.time_left(rested).is_some_and(|left| left.is_zero())
    }

    /// Returns how long the first record still waits for others; `None` if there is no record.
    pub(in crate::lane) fn time_left(&self, rested: Duration) -> Option<Duration> {
        Some(self.limits.wait.saturating_sub(self.since?.elapsed().max(rested)))
    }

    /// Returns the partition of the first record.
    pub(in crate::lane) fn first_partition(&self) -> Option<TopicPartition> {
        self.queue.front().map(GatheredRecord::topic_partition)
    }

    pub(in crate::lane) fn clear(&mut self) {
        self.queue.clear();
        self.bytes = 0;
        self.since = None;
    }

    /// Drops records of partitions that are not this lane's any more.
    pub(in crate::lane) fn keep_owned(&mut self, ownership: &Ownership) {
        self.queue.retain(|held| held.is_current(ownership));
        self.bytes = self.queue.iter().map(|held| held.record.size()).sum();
        if self.queue.is_empty() {
            self.since = None;
        }
    }

    /// Takes the next batch, in the order of arrival. A record of a partition that `alone` selects makes a
    /// batch of its own.
    pub(in crate::lane) fn take_batch(
        &mut self,
        alone: impl Fn(&TopicPartition) -> bool,
    ) -> Vec<GatheredRecord> {
        let mut batch: Vec<GatheredRecord> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.queue.front() {
            let size = next.record.size();
            let full = batch.len() >= self.limits.records || bytes + size > self.limits.bytes;
            let single = alone(&next.topic_partition());
            if !batch.is_empty() && (full || single) {
                break;
            }
            bytes += size;
            batch.extend(self.queue.pop_front());
            if single {
                break;
            }
        }
        self.bytes -= bytes;
        self.since = (!self.queue.is_empty()).then(Instant::now);
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Headers, RecordRef};

    fn held(partition: i32, offset: i64, bytes: usize) -> GatheredRecord {
        let at = RecordRef { topic: "t".into(), partition, offset };
        let value = Some(vec![0; bytes].into());
        GatheredRecord {
            record: Record { at, time_millis: None, key: None, value, headers: Headers::new() },
            epoch: 1,
        }
    }

    fn gather(records: usize, bytes: usize) -> Gather {
        Gather::new(BatchLimits { records, bytes, wait: Duration::from_secs(9) })
    }

    fn offsets(batch: &[GatheredRecord]) -> Vec<i64> {
        batch.iter().map(|h| h.record.at.offset).collect()
    }

    #[test]
    fn a_few_large_records_do_not_stop_fetching_and_more_of_them_do() {
        let mut queue = gather(20, 100);
        for offset in 0..3 {
            queue.push(held(0, offset, 500));
            assert!(queue.is_full() && !queue.is_overfull());
        }
        queue.push(held(0, 3, 500));
        assert!(queue.is_overfull());
        let mut small = gather(20, 1_000);
        (0..39).for_each(|offset| small.push(held(0, offset, 1)));
        assert!(small.is_full() && !small.is_overfull());
        small.push(held(0, 39, 1));
        assert!(small.is_overfull());
    }

    #[test]
    fn a_batch_keeps_to_records_and_bytes_but_has_at_least_one() {
        let mut queue = gather(2, 100);
        for (offset, bytes) in [(0, 500), (1, 40), (2, 40), (3, 40), (4, 80)] {
            queue.push(held(0, offset, bytes));
        }
        assert!(queue.is_full() && queue.is_overfull());
        assert_eq!(offsets(&queue.take_batch(|_| false)), [0]);
        assert_eq!(offsets(&queue.take_batch(|_| false)), [1, 2]);
        assert_eq!(offsets(&queue.take_batch(|_| false)), [3]);
        assert_eq!(offsets(&queue.take_batch(|_| false)), [4]);
        assert_eq!((queue.bytes(), queue.is_due(Duration::MAX)), (0, false));
    }

    #[test]
    fn a_record_waits_for_others_only_right_after_a_transaction() {
        let mut queue = gather(20, 1_000);
        assert!(queue.time_left(Duration::ZERO).is_none() && !queue.is_due(Duration::MAX));
        queue.push(held(0, 0, 1));
        assert!(
            !queue.is_due(Duration::ZERO)
                && queue.time_left(Duration::from_secs(8)) <= Some(Duration::from_secs(1))
        );
        assert!(queue.is_due(Duration::from_secs(9)));
    }

    #[test]
    fn a_partition_under_suspicion_goes_one_record_at_a_time() {
        let mut queue = gather(10, 1_000);
        for (partition, offset) in [(0, 0), (1, 0), (1, 1), (0, 1)] {
            queue.push(held(partition, offset, 1));
        }
        let alone = |place: &TopicPartition| place.1 == 1;
        assert_eq!(queue.take_batch(alone).len(), 1);
        assert_eq!(queue.take_batch(alone)[0].record.at.partition, 1);
        assert_eq!(queue.take_batch(alone)[0].record.at.offset, 1);
        assert_eq!(queue.take_batch(alone).len(), 1);
    }
}

//! Writes and commits the batches that are ready.

use crate::lane::assignment::context::{Mark, TopicPartition, list_offsets};
use crate::lane::assignment::membership;
use crate::lane::batch::slots::Ready;
use crate::lane::engine::Engine;
use crate::lane::fatal_records::attempts::Attempts;
use crate::lane::progress::BUSY_POLL_INTERVAL;
use crate::lane::transactions::transaction::TransactionFault;
use crate::lane::{Done, LaneError, Processor, Refusal, TransactionEnd};
use crate::record::{OutRecord, Record};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{Consumer, ConsumerGroupMetadata};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;
use unslide_proto::headers;

/// Aborts of one batch after which the producer is replaced.
pub(in crate::lane) const BATCH_ABORTS_LIMIT: u32 = 10;
/// Transactions fenced in a row, while they were young, after which another process must be using the
/// same worker name.
const FENCED_IN_A_ROW_LIMIT: u32 = 5;

/// The offset to commit for each partition, and the state of its attempts afterwards.
pub(in crate::lane) type NextOffsets = BTreeMap<TopicPartition, (i64, Attempts)>;

/// The part of a batch that is still this lane's.
struct Cut {
    /// Indexes of its records.
    items: Vec<usize>,
    next: NextOffsets,
}

impl<P: Processor> Engine<P> {
    /// Commits the ready batches one by one. `Ok(false)`: this lane is "killed" (in tests).
    pub(in crate::lane) fn commit_ready(&mut self) -> Result<bool, LaneError> {
        while self.producing && !self.rewinding && !self.notes_under_way() {
            let due =
                self.queues.ready.front().is_some_and(|r| r.not_before.is_none_or(|at| Instant::now() >= at));
            if !due {
                break;
            }
            let Some(mut ready) = self.queues.ready.pop_front() else { break };
            if ready.again {
                self.queues.prepare_again(ready);
                break;
            }
            let rest = ready.cut_off(self.bound.bytes());
            let shortened = rest.is_some();
            if let Some(rest) = rest {
                self.queues.ready.push_front(rest);
            }
            let cut = self.cut_to_owned(&ready);
            if cut.items.is_empty() {
                continue;
            }
            let begun = Instant::now();
            let result = match list_next(&cut.next) {
                Ok(list) => self.commit_batch(&ready, &cut, &list),
                Err(fault) => Err(fault),
            };
            let took = begun.elapsed();
            match result {
                Ok(()) => {
                    self.record_end(TransactionEnd::Committed, took);
                    if shortened && took < self.lane.timings.transaction / 2 {
                        self.bound.grow();
                    }
                    self.note_commit(&ready, &cut);
                }
                #[cfg(test)]
                Err(TransactionFault::Killed) => return Ok(false),
                Err(fault) => {
                    if !self.not_committed(ready, &cut, fault, took)? {
                        break;
                    }
                }
            }
            // A slow one must not keep the lane from polling.
            if took >= BUSY_POLL_INTERVAL {
                break;
            }
        }
        Ok(true)
    }

    pub(in crate::lane) fn record_end(&mut self, end: TransactionEnd, took: Duration) {
        self.progress.written = Instant::now();
        self.observer.record_transaction(end, took.as_secs_f64());
    }

    /// Handles a batch after its transaction was not committed. Returns true if something smaller can be
    /// tried at once.
    fn not_committed(
        &mut self,
        ready: Ready,
        cut: &Cut,
        fault: TransactionFault,
        took: Duration,
    ) -> Result<bool, LaneError> {
        self.record_end(fault.end(), took);
        let mut is_smaller = false;
        match fault {
            TransactionFault::Slow { why, aborted } => {
                let (records, bytes) = (ready.held.len(), ready.output_bytes());
                self.bound.shrink(records, bytes);
                tracing::warn!(
                    records,
                    bytes,
                    next_bytes = self.bound.bytes(),
                    seconds = took.as_secs_f64(),
                    "Kafka is slow, a transaction ran out of time: {why}"
                );
                if aborted { self.retry_batch(ready, &why)? } else { self.start_over()? }
            }
            TransactionFault::Redo(why) => self.retry_batch(ready, &why)?,
            TransactionFault::Operator(why) => self.pause_for_operator(ready, why),
            TransactionFault::Missing(why) => {
                self.pause.hold_until_commit();
                self.pause_for_operator(Ready { again: true, ..ready }, why);
            }
            TransactionFault::Refused { items, detail } => {
                // A batch that is refused gets smaller. One that is only aborted gets nowhere.
                self.progress.advanced = Instant::now();
                self.narrow_down(ready, &cut.items, &items, detail);
                is_smaller = true;
            }
            TransactionFault::Unknown(why) => self.find_out_end(&why)?,
            TransactionFault::Fenced(why) => self.fenced_off(&why)?,
            // Handled before.
            #[cfg(test)]
            TransactionFault::Killed => {}
        }
        if self.producer.is_out_of_sequence() {
            tracing::warn!(
                "records of an aborted transaction may be in Kafka's logs: a new producer writes the next ones"
            );
            self.replace_producer()?;
        }
        Ok(is_smaller)
    }

    /// Prepares and writes nothing until an operator has fixed the reported problem.
    fn pause_for_operator(&mut self, ready: Ready, why: String) {
        tracing::error!("the lane pauses: {why}");
        self.pause.begin_pause(why);
        self.queues.delay_batch(ready, Duration::from_secs(5));
    }

    pub(in crate::lane) fn mark_committed(&self, committed: &NextOffsets) {
        let mut ownership = self.consumer.context().ownership.lock();
        for (place, (next, attempts)) in committed {
            if let Some(owned) = ownership.owned.get_mut(place) {
                owned.mark = Mark::Clear { next: *next, attempts: *attempts };
            }
        }
    }

    /// Replaces the producer after a transaction of which it is unknown how it ended.
    pub(in crate::lane) fn find_out_end(&mut self, why: &str) -> Result<(), LaneError> {
        tracing::error!("the end of a transaction is not known, a new producer finds out: {why}");
        self.start_over()
    }

    /// Returns the membership under which offsets may be committed; `None` if it was lost.
    pub(in crate::lane) fn current_metadata(&self) -> Option<ConsumerGroupMetadata> {
        let ownership = self.consumer.context().ownership.lock();
        membership::current_group_metadata(&self.consumer, &ownership.member)
    }

    pub(in crate::lane) fn fenced_off(&mut self, why: &str) -> Result<(), LaneError> {
        self.progress.fenced += 1;
        tracing::error!(times = self.progress.fenced, "another producer has this one's name: {why}");
        if self.progress.fenced >= FENCED_IN_A_ROW_LIMIT {
            let (lane, worker) = (self.lane.name.clone(), self.lane.worker.clone());
            return Err(LaneError::Fenced { lane, worker });
        }
        self.start_over()
    }

    /// Tries an aborted batch again, after some tries with a new producer.
    fn retry_batch(&mut self, mut ready: Ready, why: &str) -> Result<(), LaneError> {
        ready.aborted += 1;
        if ready.aborted > BATCH_ABORTS_LIMIT {
            tracing::error!(aborted = ready.aborted, "a batch cannot be committed: {why}");
            return self.start_over();
        }
        tracing::warn!(aborted = ready.aborted, "a transaction was aborted: {why}");
        self.queues.delay_batch(ready, Duration::from_millis(100));
        Ok(())
    }

    /// Cuts a batch to the partitions that are this lane's, under the lock that the rebalance
    /// callback takes.
    fn cut_to_owned(&self, ready: &Ready) -> Cut {
        let ownership = self.consumer.context().ownership.lock();
        let mut items = Vec::with_capacity(ready.held.len());
        let mut last: BTreeMap<TopicPartition, (i64, usize)> = BTreeMap::new();
        for (index, held) in ready.held.iter().enumerate() {
            if held.is_current(&ownership) {
                items.push(index);
                let entry = last.entry(held.topic_partition()).or_insert((0, 0));
                *entry = (held.record.at.offset + 1, entry.1 + 1);
            }
        }
        let next = last.into_iter().map(|(place, (offset, count))| {
            let attempts = match ownership.owned.get(&place).map(|owned| owned.mark) {
                Some(
                    Mark::Written { attempts, .. }
                    | Mark::Clear { attempts, .. }
                    | Mark::Known { attempts, .. },
                ) => attempts.after_records(count),
                Some(Mark::Unread) | None => Attempts::default(),
            };
            (place, (offset, attempts))
        });
        Cut { items, next: next.collect() }
    }

    fn commit_batch(
        &self,
        ready: &Ready,
        cut: &Cut,
        list: &TopicPartitionList,
    ) -> Result<(), TransactionFault> {
        #[cfg(test)]
        if self.faults.aborted.as_ref().is_some_and(|failpoint| failpoint()) {
            return Err(TransactionFault::Redo("the test wants it".to_owned()));
        }
        #[cfg(test)]
        if self.faults.missing.as_ref().is_some_and(|failpoint| failpoint()) {
            return Err(TransactionFault::Missing("the test wants it".to_owned()));
        }
        let done: Vec<&Done> = cut.items.iter().map(|index| &ready.done[*index]).collect();
        let account = self.processor.account_records(&done);
        let outputs = cut
            .items
            .iter()
            .flat_map(|index| ready.done[*index].outputs.iter().map(|output| (*index, output)))
            // A refused account is the fault of no item of the batch: its number is no item's.
            .chain(account.iter().map(|output| (ready.held.len(), output)));
        self.producer.run_transaction(outputs, list, || self.current_metadata())?;
        #[cfg(test)]
        if self.faults.unanswered.as_ref().is_some_and(|failpoint| failpoint()) {
            return Err(TransactionFault::Unknown("the test wants it".to_owned()));
        }
        Ok(())
    }

    fn note_commit(&mut self, ready: &Ready, cut: &Cut) {
        self.mark_committed(&cut.next);
        self.progress.record_commit(cut.items.len());
        self.pause.end_pause();
        let records: Vec<&Record> = cut.items.iter().map(|index| &ready.held[*index].record).collect();
        let done: Vec<&Done> = cut.items.iter().map(|index| &ready.done[*index]).collect();
        self.processor.on_committed(&records, &done);
    }

    /// Narrows a batch with refused outputs down to the record that they belong to, and replaces its outputs
    /// by a dead letter.
    fn narrow_down(&mut self, mut ready: Ready, items: &[usize], refused: &BTreeSet<usize>, detail: String) {
        if ready.held.len() == 1 {
            if ready.bare || refused.iter().all(|item| *item >= ready.held.len()) {
                let why = format!("Kafka refuses what this lane writes itself: {detail}");
                tracing::error!("the lane pauses: {why}");
                self.pause.begin_pause(why);
                return self.queues.delay_batch(ready, Duration::from_secs(5));
            }
            if ready.replaced {
                tracing::error!("Kafka refuses the dead letter too, and gets it without the bytes: {detail}");
                ready
                    .done
                    .iter_mut()
                    .flat_map(|done| &mut done.outputs)
                    .for_each(|output| strip_dead_letter(output, &detail));
                ready.bare = true;
                self.queues.ready.push_front(ready);
                return;
            }
            let record = &ready.held[0].record;
            tracing::error!("Kafka permanently refuses the outputs of {:?}: {detail}", record.at);
            ready.done = vec![self.processor.refuse_record(record, &Refusal::Unpublishable { detail })];
            ready.replaced = true;
            self.queues.ready.push_front(ready);
            return;
        }
        // A batch of the protocol is refused as a whole, so innocent records may be among them. One
        // alone is cut out; of several, each half is tried.
        let (first, last) = match (refused.first(), refused.last()) {
            (Some(first), Some(last)) if *last < ready.held.len() => (*first, *last),
            _ => (0, ready.held.len() - 1),
        };
        tracing::warn!(
            records = items.len(),
            refused = refused.len(),
            "a batch is refused and cut up: {detail}"
        );
        let at = if first == last {
            if first > 0 { first } else { 1 }
        } else {
            first + (last - first).div_ceil(2)
        };
        let (front, back) = ready.split_at(at);
        self.queues.ready.push_front(back);
        self.queues.ready.push_front(front);
    }
}

pub(in crate::lane) fn list_next(next: &NextOffsets) -> Result<TopicPartitionList, TransactionFault> {
    list_offsets(next.iter().map(|(place, (offset, attempts))| (place, *offset, *attempts)))
        .map_err(|e| TransactionFault::Redo(e.to_string()))
}

/// Reduces a dead letter to a record that no broker can refuse: a record that came well compressed may be too
/// large for every topic once it is not, and must not stop its partition.
fn strip_dead_letter(output: &mut OutRecord, why: &str) {
    output.headers.set(headers::DETAIL, why.to_owned());
    output.drop_value();
    output.key = None;
}

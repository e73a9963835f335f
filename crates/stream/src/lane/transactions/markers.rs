//! Commits the offsets behind markers of transactions at the end of a log.
//!
//! Markers are no records, so the commit of the last record leaves them uncommitted. Retention deletes them with the
//! records, and then what was deleted looks as if it had not been read: to the audit, and to everything that subtracts
//! offsets.

use crate::lane::assignment::context::{Gate, Mark, TopicPartition};
use crate::lane::engine::Engine;
use crate::lane::transactions::commit::{NextOffsets, list_next};
use crate::lane::transactions::transaction::TransactionFault;
use crate::lane::{LaneError, Processor, TransactionEnd};
use rdkafka::Offset;
use rdkafka::consumer::Consumer;
use std::time::Duration;
use tokio::time::Instant;

/// The time between two looks for markers, and since the last transaction.
const MARKERS_INTERVAL: Duration = Duration::from_secs(5);

impl<P: Processor> Engine<P> {
    /// Commits the positions that lie behind the last committed records, while the lane has no record. The client moves
    /// its position on in the order in which it passes records, so there is none below it that the lane has not
    /// committed.
    pub(in crate::lane) fn commit_past_markers(&mut self) -> Result<(), LaneError> {
        let rests = self.queues.is_idle() && self.queues.gather.is_empty() && !self.pause.is_on();
        let may_commit = self.producing && !self.rewinding && !self.notes_under_way();
        let is_due = self.checks.markers_at.is_none_or(|at| Instant::now() >= at);
        if !rests || !may_commit || !is_due || self.progress.written.elapsed() < MARKERS_INTERVAL {
            return Ok(());
        }
        self.checks.markers_at = Some(Instant::now() + MARKERS_INTERVAL);
        let behind = self.list_behind_markers();
        if behind.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        let committed = list_next(&behind).and_then(|list| {
            self.producer.run_transaction(std::iter::empty(), &list, || self.current_metadata())
        });
        let took = begun.elapsed();
        let Err(fault) = committed else {
            self.record_end(TransactionEnd::Committed, took);
            self.mark_committed(&behind);
            return Ok(());
        };
        self.record_end(fault.end(), took);
        match fault {
            TransactionFault::Fenced(why) => self.fenced_off(&why),
            TransactionFault::Unknown(why) | TransactionFault::Slow { why, aborted: false } => {
                self.find_out_end(&why)
            }
            // The next look tries again.
            aborted => {
                tracing::debug!(?aborted, "offsets behind markers of transactions were not committed");
                Ok(())
            }
        }
    }

    /// Lists the partitions with a position behind their last commit, and that position.
    fn list_behind_markers(&self) -> NextOffsets {
        let Ok(positions) = self.consumer.position() else { return NextOffsets::new() };
        let ownership = self.consumer.context().ownership.lock();
        let behind = |element: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
            let Offset::Offset(offset) = element.offset() else { return None };
            let place: TopicPartition = (element.topic().into(), element.partition());
            let owned = ownership.owned.get(&place)?;
            match owned.mark {
                Mark::Clear { next, attempts } if next < offset && owned.gate == Gate::Open => {
                    Some((place, (offset, attempts)))
                }
                _ => None,
            }
        };
        positions.elements().into_iter().filter_map(behind).collect()
    }
}

//! Commits the offsets behind markers of transactions at the end of a log.
//!
//! Markers are no records, so the commit of the last record leaves them uncommitted. Retention deletes them with the
//! records, and then what was deleted looks as if it had not been read: to the audit, and to everything that subtracts
//! offsets.

use crate::lane::assignment::context::{Gate, Mark, TopicPartition, list_offsets};
use crate::lane::assignment::membership;
use crate::lane::engine::Engine;
use crate::lane::fatal_records::attempts::Attempts;
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
        let committed =
            list_offsets(behind.iter().map(|(place, offset, attempts)| (place, *offset, *attempts)))
                .map_err(|e| TransactionFault::Redo(e.to_string()))
                .and_then(|list| {
                    self.producer.run_transaction(std::iter::empty(), &list, || {
                        let ownership = self.consumer.context().ownership.lock();
                        membership::current_group_metadata(&self.consumer, &ownership.member)
                    })
                });
        let took = begun.elapsed();
        let fault = match committed {
            Ok(()) => {
                self.record_end(TransactionEnd::Committed, took);
                let mut ownership = self.consumer.context().ownership.lock();
                for (place, offset, attempts) in behind {
                    if let Some(owned) = ownership.owned.get_mut(&place) {
                        owned.mark = Mark::Clear { next: offset, attempts };
                    }
                }
                return Ok(());
            }
            Err(fault) => fault,
        };
        match fault {
            TransactionFault::Fenced(why) => {
                self.record_end(TransactionEnd::Unknown, took);
                self.fenced_off(&why)
            }
            TransactionFault::Unknown(why) | TransactionFault::Slow { why, aborted: false } => {
                self.record_end(TransactionEnd::Unknown, took);
                tracing::error!("the end of a transaction is not known, a new producer finds out: {why}");
                self.start_over()
            }
            // The next look tries again.
            aborted => {
                self.record_end(TransactionEnd::Aborted, took);
                tracing::debug!(?aborted, "offsets behind markers of transactions were not committed");
                Ok(())
            }
        }
    }

    /// Lists the partitions whose position lies behind their last commit, with the position.
    fn list_behind_markers(&self) -> Vec<(TopicPartition, i64, Attempts)> {
        let Ok(positions) = self.consumer.position() else { return Vec::new() };
        let ownership = self.consumer.context().ownership.lock();
        let behind = |element: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
            let Offset::Offset(offset) = element.offset() else { return None };
            let place: TopicPartition = (element.topic().into(), element.partition());
            let owned = ownership.owned.get(&place)?;
            match owned.mark {
                Mark::Clear { next, attempts } if next < offset && owned.gate == Gate::Open => {
                    Some((place, offset, attempts))
                }
                _ => None,
            }
        };
        positions.elements().into_iter().filter_map(behind).collect()
    }
}

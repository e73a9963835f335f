//! Records of a lane between the poll and the commit, in the order of their stages.

use crate::lane::assignment::context::Ownership;
use crate::lane::batch::gather::Gather;
use crate::lane::batch::slots::{Batch, BatchSlot, Ready};
use crate::read::spread::BatchLimits;
use std::collections::VecDeque;
use std::sync::mpsc;
use std::time::Duration;
use tokio::time::Instant;

/// How long one wait for a preparation lasts, between polls.
pub(in crate::lane) const PREPARATION_WAIT_TIMEOUT: Duration = Duration::from_millis(5);

/// The stages of records: gathered or cut up, being prepared, ready to be written.
pub(in crate::lane) struct BatchQueues {
    pub gather: Gather,
    /// Batches that were cut up. They go before the gathered records.
    pub backlog: VecDeque<Batch>,
    pub slot: BatchSlot,
    pub ready: VecDeque<Ready>,
}

impl BatchQueues {
    pub(in crate::lane) fn new(limits: BatchLimits) -> BatchQueues {
        let (backlog, ready) = (VecDeque::new(), VecDeque::new());
        BatchQueues { gather: Gather::new(limits), backlog, slot: BatchSlot::Empty, ready }
    }

    /// Drops the records that wait for their preparation.
    pub(in crate::lane) fn drop_waiting(&mut self) {
        self.gather.clear();
        self.backlog.clear();
    }

    /// Drops all records.
    pub(in crate::lane) fn clear(&mut self) {
        self.drop_waiting();
        self.ready.clear();
        self.slot = BatchSlot::Empty;
    }

    /// Drops the records that are not this lane's any more, except those that are being prepared or written.
    pub(in crate::lane) fn keep_owned(&mut self, ownership: &Ownership) {
        self.gather.keep_owned(ownership);
        for batch in &mut self.backlog {
            batch.held.retain(|held| held.is_current(ownership));
        }
        self.backlog.retain(|batch| !batch.held.is_empty());
        if let BatchSlot::Waiting { batch, .. } | BatchSlot::Marking { batch, .. } = &mut self.slot {
            batch.held.retain(|held| held.is_current(ownership));
            if batch.held.is_empty() {
                self.slot = BatchSlot::Empty;
            }
        }
    }

    /// Returns true while a batch is being prepared or is ready to be written.
    pub(in crate::lane) fn is_begun(&self) -> bool {
        self.slot.is_preparing() || !self.ready.is_empty()
    }

    /// Returns true if there is no batch in any stage. Gathered records may wait.
    pub(in crate::lane) fn is_idle(&self) -> bool {
        matches!(self.slot, BatchSlot::Empty) && self.ready.is_empty() && self.backlog.is_empty()
    }

    /// Returns the bytes of all records.
    pub(in crate::lane) fn total_bytes(&self) -> usize {
        let ready: usize = self.ready.iter().map(Ready::bytes).sum();
        let backlog: usize = self.backlog.iter().map(Batch::bytes).sum();
        self.gather.bytes() + backlog + self.slot.bytes() + ready
    }

    /// Waits for a moment whether the preparation ends.
    pub(in crate::lane) fn wait_for_preparation(&mut self) {
        if let BatchSlot::Preparing { batch, result } = &mut self.slot {
            match result.recv_timeout(PREPARATION_WAIT_TIMEOUT) {
                Ok(prepared) => {
                    let (sender, receiver) = mpsc::channel();
                    // The receiver is at hand: this cannot fail.
                    let _ = sender.send(prepared);
                    *result = receiver;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    tracing::debug!(records = batch.held.len(), "a preparation went away");
                }
            }
        }
    }

    /// Prepares the records of a batch once more, and after them the batches that are prepared or ready now:
    /// the destinations of their outputs may differ by now.
    pub(in crate::lane) fn prepare_again(&mut self, first: Ready) {
        match std::mem::replace(&mut self.slot, BatchSlot::Empty) {
            BatchSlot::Empty => {}
            BatchSlot::Marking { batch, .. }
            | BatchSlot::Preparing { batch, .. }
            | BatchSlot::Waiting { batch, .. } => {
                self.backlog.push_front(batch);
            }
        }
        for ready in self.ready.drain(..).rev() {
            self.backlog.push_front(Batch { held: ready.held });
        }
        self.backlog.push_front(Batch { held: first.held });
    }

    /// Writes a batch before all others, and not before `time` has passed.
    pub(in crate::lane) fn delay_batch(&mut self, mut ready: Ready, time: Duration) {
        ready.not_before = Some(Instant::now() + time);
        self.ready.push_front(ready);
    }
}

//! Begins again after lost partitions or a transaction of unknown end.

use crate::lane::assignment::rewind;
use crate::lane::engine::Engine;
use crate::lane::transactions::transaction::TxProducer;
use crate::lane::{LaneError, Processor};
use rdkafka::consumer::Consumer;
use std::time::Duration;

impl<P: Processor> Engine<P> {
    /// Drops the records of partitions that were lost. Goes back to the committed offsets if the lane was out of
    /// its group.
    pub(super) fn let_go_of_lost(&mut self) {
        let mut ownership = self.consumer.context().ownership.lock();
        if std::mem::take(&mut ownership.returned) {
            tracing::warn!("this lane was out of its group: it goes back to what is committed");
            self.rewinding = true;
        }
        if std::mem::take(&mut ownership.changed) {
            self.queues.keep_owned(&ownership);
        }
    }

    /// Starts the producer, which ends an open transaction of the one before it.
    pub(super) fn start_producer(&mut self) -> Result<(), LaneError> {
        #[cfg(test)]
        if self.faults.no_producer.as_ref().is_some_and(|failpoint| failpoint()) {
            return Ok(());
        }
        if !self.producing {
            let _call = self.control.watch.enter_call("start the transactional producer");
            let begun = self.producer.init_transactions(Duration::from_millis(500));
            self.producing = begun.map_err(|e| self.client_error(e))?;
        }
        Ok(())
    }

    /// Begins again with a new producer, from the committed offsets, if the end of a transaction is
    /// unknown.
    pub(super) fn start_over(&mut self) -> Result<(), LaneError> {
        // The partitions may be given up before the committed offsets were read. An attempt that was taken
        // back then would set them back to before the transaction.
        self.consumer.context().ownership.lock().forget_marks();
        self.queues.clear();
        self.rewinding = true;
        self.replace_producer()
    }

    /// Makes another producer, which has to be started before it is used.
    pub(super) fn replace_producer(&mut self) -> Result<(), LaneError> {
        self.producing = false;
        let member = self.lane.member_name(&self.settings);
        let _call = self.control.watch.enter_call("replace the transactional producer");
        let made = TxProducer::new(
            &self.settings,
            &member,
            self.lane.timings.transaction,
            &self.control,
            &self.observer,
        );
        #[cfg(test)]
        let before_commit = self.producer.before_commit.take();
        self.producer = made.map_err(|e| self.client_error(e))?;
        #[cfg(test)]
        {
            self.producer.before_commit = before_commit;
        }
        Ok(())
    }

    pub(super) fn try_rewind(&mut self) {
        // The committed offsets are known only once the new producer has ended the old one's transaction.
        if !self.producing {
            return;
        }
        let _call = self.control.watch.enter_call("go back to the committed offsets");
        match rewind::rewind_to_committed(&self.consumer) {
            Ok(()) => self.rewinding = false,
            Err(e) => tracing::warn!(error = %e, "cannot go back to the committed offsets yet"),
        }
    }
}

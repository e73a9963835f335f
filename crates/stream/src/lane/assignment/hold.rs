//! Records that are not due yet. Their partition is set back to them and paused; everything else
//! goes on.

use crate::lane::Processor;
use crate::lane::assignment::context::{Gate, TopicPartition, list_partitions};
use crate::lane::engine::Engine;
use crate::record::Record;
use rdkafka::Offset;
use rdkafka::consumer::Consumer;
#[cfg(test)]
use rdkafka::error::KafkaError;
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use std::time::Duration;
use tokio::time::Instant;

impl<P: Processor> Engine<P> {
    /// Holds the record's partition back if the processor says that it is not due. Returns true if it is held
    /// back; the record comes again.
    pub(in crate::lane) fn held_back(&self, place: &TopicPartition, record: &Record) -> bool {
        let until = self.processor.not_before(record);
        let Some(until) = until.filter(|at| *at > Instant::now()) else { return false };
        let mut ownership = self.consumer.context().ownership.lock();
        let Some(owned) = ownership.owned.get_mut(place) else { return true };
        owned.gate = Gate::Held { offset: record.at.offset, until, lost: false };
        drop(ownership);
        if let Err(e) = self.set_back(place, record.at.offset) {
            // Until it is due everything of this partition is skipped. Nothing may come behind this
            // record then, so that the gate alone would not notice that it did not come.
            tracing::warn!(error = %e, "a partition could not be held back in order");
            let mut ownership = self.consumer.context().ownership.lock();
            if let Some(Gate::Held { lost, .. }) = ownership.owned.get_mut(place).map(|owned| &mut owned.gate)
            {
                *lost = true;
            }
        }
        true
    }

    /// Sets a partition back and pauses it. The seek comes first: a pause alone would continue behind the
    /// polled record. Neither call waits; the client drops the partition's fetched records.
    fn set_back(&self, place: &TopicPartition, offset: i64) -> KafkaResult<()> {
        #[cfg(test)]
        if self.faults.not_set_back.as_ref().is_some_and(|failpoint| failpoint()) {
            return Err(KafkaError::Seek("the test wants it".to_owned()));
        }
        let _call = self.control.watch.enter_call("hold a partition back");
        let mut list = list_partitions([place]);
        list.set_partition_offset(&place.0, place.1, Offset::Offset(offset))?;
        // Without a time-out the client reports for each partition that the seek is in progress, or its
        // error.
        for element in self.consumer.seek_partitions(list, Duration::ZERO)?.elements() {
            match element.error() {
                Err(e) if e.rdkafka_error_code() != Some(RDKafkaErrorCode::InProgress) => return Err(e),
                _ => {}
            }
        }
        self.consumer.pause(&list_partitions([place]))
    }

    /// Resumes partitions with records that are due.
    pub(in crate::lane) fn release_due(&mut self) {
        let now = Instant::now();
        let mut due = Vec::new();
        let paused = {
            let mut ownership = self.consumer.context().ownership.lock();
            for (place, owned) in &mut ownership.owned {
                if let Gate::Held { offset, until, lost } = owned.gate
                    && until <= now
                {
                    if lost {
                        let (topic, partition) = (&*place.0, place.1);
                        tracing::error!(
                            topic,
                            partition,
                            "the record at {offset} would not come again: going back"
                        );
                        self.rewinding = true;
                    }
                    owned.gate = Gate::Due { offset };
                    due.push(place.clone());
                }
            }
            ownership.paused
        };
        // While fetching is paused as a whole, the end of that pause is theirs as well.
        if !due.is_empty() && !paused {
            self.resume_partitions(&due);
        }
    }

    fn resume_partitions(&mut self, which: &[TopicPartition]) {
        let _call = self.control.watch.enter_call("resume");
        if let Err(e) = self.consumer.resume(&list_partitions(which)) {
            tracing::warn!(error = %e, "partitions could not be resumed: going back");
            self.rewinding = true;
        }
    }

    /// Returns when the next partition is due.
    pub(in crate::lane) fn next_due(&self) -> Option<Instant> {
        let ownership = self.consumer.context().ownership.lock();
        let held = ownership.owned.values().filter_map(|owned| match owned.gate {
            Gate::Held { until, .. } => Some(until),
            Gate::Open | Gate::Due { .. } => None,
        });
        held.min()
    }
}

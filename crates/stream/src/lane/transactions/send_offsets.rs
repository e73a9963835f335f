//! Adds a batch's offsets to its transaction, with a limit of time.
//!
//! The call of librdkafka has a time-out, but none while it looks for the group's coordinator: if that broker left the
//! cluster shortly before, as in a rolling restart, the client waits for a connection that it has given up
//! (`rd_kafka_coord_req_fsm` in librdkafka 2.10 to 2.16). So the call has a thread of its own. If the call does not come
//! back, the lane leaves the thread and its producer behind, and a new producer fences that one off.

use crate::lane::Control;
use crate::write::waking::WakingProducer;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::producer::{Producer as _, ProducerContext};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Calls of a lane that may hang at the same time, each with its client. With one more, the lane waits until the
/// watch over it ends the process.
const HUNG_CALLS_LIMIT: usize = 3;

/// One call, which can be made again.
pub(super) struct SendOffsets<C: ProducerContext + 'static> {
    producer: Arc<WakingProducer<C>>,
    offsets: TopicPartitionList,
    metadata: ConsumerGroupMetadata,
    /// How long the client may take beyond the time-out of the call. A coordinator that fails is replaced in about ten seconds.
    margin: Duration,
    #[cfg(test)]
    failpoint: Option<crate::lane::tests::Failpoint>,
}

impl<C: ProducerContext + 'static> SendOffsets<C> {
    /// `transaction` is the time that a transaction has.
    pub(super) fn new(
        producer: &Arc<WakingProducer<C>>,
        offsets: TopicPartitionList,
        metadata: ConsumerGroupMetadata,
        transaction: Duration,
    ) -> SendOffsets<C> {
        SendOffsets {
            producer: Arc::clone(producer),
            offsets,
            metadata,
            margin: transaction / 3,
            #[cfg(test)]
            failpoint: None,
        }
    }

    #[cfg(test)]
    pub(super) fn with_failpoint(self, failpoint: Option<crate::lane::tests::Failpoint>) -> SendOffsets<C> {
        SendOffsets { failpoint, ..self }
    }

    /// Makes the call. Returns [`KafkaError::Canceled`] if it does not come back: its effect is unknown then.
    pub(super) fn run(self: &Arc<Self>, within: Duration, control: &Control) -> KafkaResult<()> {
        let (sender, answer) = sync_channel(1);
        let call = Arc::clone(self);
        let named = std::thread::Builder::new().name("send offsets".to_owned());
        let spawned = named.spawn(move || {
            #[cfg(test)]
            let _ = call.failpoint.as_ref().map(|failpoint| failpoint());
            let sent = call.producer.send_offsets_to_transaction(&call.offsets, &call.metadata, within);
            // No one waits any more for a call that came back too late. Its producer ends with it.
            drop(call);
            let _ = sender.send(sent);
        });
        let Ok(thread) = spawned else {
            return self.producer.send_offsets_to_transaction(&self.offsets, &self.metadata, within);
        };
        let mut hung = control.hung_calls.lock();
        hung.retain(|thread| !thread.is_finished());
        if hung.len() >= HUNG_CALLS_LIMIT {
            return answer.recv().unwrap_or(Err(KafkaError::Canceled));
        }
        match answer.recv_timeout(within + self.margin) {
            Ok(sent) => sent,
            Err(RecvTimeoutError::Disconnected) => Err(KafkaError::Canceled),
            Err(RecvTimeoutError::Timeout) => {
                tracing::error!(
                    hung = hung.len() + 1,
                    "the Kafka client does not come back from the search for the group's coordinator"
                );
                hung.push(thread);
                Err(KafkaError::Canceled)
            }
        }
    }
}

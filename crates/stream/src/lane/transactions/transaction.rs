//! One transaction, from begin to its known end.

use super::delivery::TxContext;
use super::send_offsets::SendOffsets;
use crate::error::StreamError;
use crate::lane::{Control, Observer, TransactionEnd};
use crate::record::OutRecord;
use crate::settings::Settings;
use crate::write::waking::WakingProducer;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::producer::Producer as _;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Why a transaction was not committed.
#[derive(Debug)]
pub(in crate::lane) enum TransactionFault {
    /// It was aborted; the same outputs may be produced again if their records are still owned.
    Redo(String),
    /// It ran out of time, so that the broker is slow and a smaller one may end in time. It was aborted,
    /// or else its end is not known, as for [`TransactionFault::Unknown`].
    Slow { why: String, aborted: bool },
    /// It was aborted because the broker permanently refuses outputs of these items.
    Refused { items: BTreeSet<usize>, detail: String },
    /// It was aborted because something is wrong that only an operator can put right.
    Operator(String),
    /// The same; a topic is missing, and other outputs may not need it.
    Missing(String),
    /// It is unknown how it ended. A new producer has to be made, and the committed offsets read, before
    /// anything is produced again.
    Unknown(String),
    /// As unknown; another producer has this one's name. The broker also fences off a producer when it times
    /// out the producer's transaction, so this is said of younger transactions only.
    Fenced(String),
    /// The test's process is "dead".
    #[cfg(test)]
    Killed,
}

impl TransactionFault {
    /// Returns how the transaction ended, as far as it is known.
    pub(in crate::lane) fn end(&self) -> TransactionEnd {
        match self {
            TransactionFault::Unknown(_)
            | TransactionFault::Fenced(_)
            | TransactionFault::Slow { aborted: false, .. } => TransactionEnd::Unknown,
            _ => TransactionEnd::Aborted,
        }
    }

    /// Interprets a failure in a transaction that was open for the time `open`. A transaction that ran out of
    /// time proves nothing but slowness.
    fn interpret_after(self, open: Duration, most: Duration) -> TransactionFault {
        match self {
            TransactionFault::Redo(why) if open >= most => TransactionFault::Slow { why, aborted: true },
            TransactionFault::Unknown(why) | TransactionFault::Fenced(why) if open >= most => {
                TransactionFault::Slow { why, aborted: false }
            }
            other => other,
        }
    }
}

/// How a call's error is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Again,
    Abort,
    Fenced,
    Unknown,
}

fn classify_error(error: &KafkaError) -> Kind {
    match error {
        KafkaError::Transaction(e) if e.is_fatal() => match e.code() {
            Code::ProducerFenced | Code::Fenced | Code::InvalidProducerEpoch => Kind::Fenced,
            _ => Kind::Unknown,
        },
        KafkaError::Transaction(e) if e.txn_requires_abort() => Kind::Abort,
        KafkaError::Transaction(e) if e.is_retriable() => Kind::Again,
        // The wrapper flushes before it commits, and says so when that takes too long.
        KafkaError::Flush(Code::OperationTimedOut) => Kind::Again,
        _ => Kind::Unknown,
    }
}

/// A failed call: its kind and its error text.
struct Failed(Kind, String);

/// Makes the same call again while its error says so, until `deadline`.
fn retry_until(
    control: &Control,
    deadline: Instant,
    what: &'static str,
    mut call: impl FnMut(Duration) -> KafkaResult<()>,
) -> Result<(), Failed> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let called = {
            let _call = control.watch.enter_call(what);
            call(left.clamp(Duration::from_millis(200), Duration::from_secs(5)))
        };
        match called {
            Ok(()) => return Ok(()),
            Err(e) => {
                let said = format!("{what}: {e}");
                match classify_error(&e) {
                    Kind::Again if Instant::now() < deadline => {
                        tracing::debug!(error = %e, "{what} is called again");
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    Kind::Again => return Err(Failed(Kind::Unknown, said)),
                    other => return Err(Failed(other, said)),
                }
            }
        }
    }
}

/// How long to wait for the client if it has no event, until the deadline is checked again.
const DEADLINE_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Bits of the opaque number that name the item; the higher ones name the transaction.
const ITEM_BITS: u32 = 32;

/// A transactional producer.
pub(in crate::lane) struct TxProducer {
    inner: Arc<WakingProducer<TxContext>>,
    within: Duration,
    number: AtomicUsize,
    control: Arc<Control>,
    #[cfg(test)]
    pub(in crate::lane) before_offsets: Option<crate::lane::tests::Failpoint>,
    /// Asked on the thread of the call that sends the offsets.
    #[cfg(test)]
    pub(in crate::lane) in_offsets: Option<crate::lane::tests::Failpoint>,
    #[cfg(test)]
    pub(in crate::lane) before_commit: Option<crate::lane::tests::Failpoint>,
}

impl TxProducer {
    /// Makes the client; [`TxProducer::init_transactions`] has to succeed before it is used.
    pub(in crate::lane) fn new(
        settings: &Settings,
        id: &str,
        transaction: Duration,
        control: &Arc<Control>,
        observer: &Arc<dyn Observer>,
    ) -> Result<TxProducer, StreamError> {
        let millis = transaction.as_millis().to_string();
        let mut config = settings.producer_config();
        config
            .set("transactional.id", id)
            .set("transaction.timeout.ms", &millis)
            .set("message.timeout.ms", &millis)
            // As long as it takes to pass a batch to the client, and the coordinator to record the
            // partitions.
            .set("linger.ms", "5")
            // All records of a transaction are handed over at once and waited for.
            .set("queue.buffering.max.messages", "1000000")
            // While five records of a partition are under way, the client sends no further request of it, and asks
            // without a pause whether it may: those of a transaction go in one. No topic of copies takes less.
            .set("batch.size", settings.max_copy_bytes().to_string());
        // The queue of the producer before this one is gone with it.
        observer.record_produced(0);
        let inner = WakingProducer::new(&config, TxContext::new(observer, control))
            .map_err(|e| StreamError::from_kafka("making the transactional producer", e))?;
        Ok(TxProducer {
            inner: Arc::new(inner),
            within: transaction,
            number: AtomicUsize::new(0),
            control: Arc::clone(control),
            #[cfg(test)]
            before_offsets: None,
            #[cfg(test)]
            in_offsets: None,
            #[cfg(test)]
            before_commit: None,
        })
    }

    /// Fences off earlier producers of the same id and ends their open transactions. `Ok(false)`: not yet;
    /// call again.
    pub(in crate::lane) fn init_transactions(&self, within: Duration) -> Result<bool, StreamError> {
        self.inner.serve_reports();
        match self.inner.init_transactions(within) {
            Ok(()) => Ok(true),
            Err(KafkaError::Transaction(e)) if e.is_retriable() => Ok(false),
            Err(e) => Err(StreamError::from_kafka("starting the transactional producer", e)),
        }
    }

    /// Writes all outputs and offsets in one transaction. `outputs` come with the number of the item
    /// that they belong to.
    pub(in crate::lane) fn run_transaction<'a>(
        &self,
        outputs: impl Iterator<Item = (usize, &'a OutRecord)>,
        offsets: &TopicPartitionList,
        metadata: impl FnOnce() -> Option<ConsumerGroupMetadata>,
    ) -> Result<(), TransactionFault> {
        let begun = Instant::now();
        // Some time is left to abort before the broker does.
        let most = self.within * 4 / 5;
        let ended = self.write_and_commit(outputs, offsets, metadata, begun + most);
        ended.map_err(|fault| fault.interpret_after(begun.elapsed(), most))
    }

    fn write_and_commit<'a>(
        &self,
        outputs: impl Iterator<Item = (usize, &'a OutRecord)>,
        offsets: &TopicPartitionList,
        metadata: impl FnOnce() -> Option<ConsumerGroupMetadata>,
        deadline: Instant,
    ) -> Result<(), TransactionFault> {
        let control = &*self.control;
        let number = self.number.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let call = control.watch.enter_call("begin");
        self.inner.serve_reports();
        self.context().failures.lock().clear();
        if let Err(e) = self.inner.begin_transaction() {
            return Err(Self::end_of(Failed(classify_error(&e), format!("begin: {e}"))));
        }
        drop(call);
        for (item, record) in outputs {
            if let Err(fault) = self.send_record(number, item, record, deadline) {
                return Err(self.abort_transaction(fault));
            }
        }
        if let Err(fault) = self.wait_for_delivery(number, deadline) {
            return Err(self.abort_transaction(fault));
        }
        #[cfg(test)]
        if let Some(failpoint) = &self.before_offsets
            && failpoint()
        {
            return Err(TransactionFault::Killed);
        }
        let Some(metadata) = metadata() else {
            return Err(self.abort_transaction(TransactionFault::Redo(
                "the membership of the group was lost".to_owned(),
            )));
        };
        let call = SendOffsets::new(&self.inner, offsets.clone(), metadata, self.within);
        #[cfg(test)]
        let call = call.with_failpoint(self.in_offsets.clone());
        let call = Arc::new(call);
        let sent = retry_until(control, deadline, "send offsets", |within| call.run(within, control));
        if let Err(failed) = sent {
            return Err(self.fault_after_failure(failed));
        }
        #[cfg(test)]
        if let Some(failpoint) = &self.before_commit {
            let _call = control.watch.enter_call("commit");
            if failpoint() {
                return Err(TransactionFault::Killed);
            }
        }
        retry_until(control, deadline, "commit", |within| self.inner.commit_transaction(within))
            .map_err(|failed| self.fault_after_failure(failed))
    }

    /// Returns true once the client has given a record up that may be in the log of its partition: no further transaction may
    /// be run.
    ///
    /// An abort empties the client's queue. It may hold a record that was sent, and not confirmed before the connection
    /// broke. The client then gives the next record of the partition the same sequence number
    /// (`rd_kafka_toppar_purge_queues` in librdkafka 2.12), and the broker takes it for the first one: it confirms it and does
    /// not write it. A new producer has a new epoch, in which numbers begin again (KIP-360).
    pub(in crate::lane) fn is_out_of_sequence(&self) -> bool {
        self.context().is_out_of_sequence()
    }

    fn context(&self) -> &Arc<TxContext> {
        self.inner.context()
    }

    fn send_record(
        &self,
        number: usize,
        item: usize,
        record: &OutRecord,
        deadline: Instant,
    ) -> Result<(), TransactionFault> {
        let bytes = record.value.as_ref().map_or(0, bytes::Bytes::len)
            + record.key.as_ref().map_or(0, bytes::Bytes::len);
        loop {
            let Err(error) = self.inner.produce_record(record, number << ITEM_BITS | item) else {
                self.context().record_queued(bytes);
                return Ok(());
            };
            let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
            if code != Code::QueueFull {
                return Err(fault_of(BTreeSet::from([item]), code));
            }
            if Instant::now() >= deadline || self.control.is_expired() {
                return Err(TransactionFault::Redo("the broker took outputs too slowly".to_owned()));
            }
            self.serve_reports();
        }
    }

    /// Waits until the broker has every record. Once it has refused one, the client holds the others back
    /// forever: the first failure ends the wait.
    fn wait_for_delivery(&self, number: usize, deadline: Instant) -> Result<(), TransactionFault> {
        while self.inner.in_flight_count() > 0 {
            if let Some(fault) = self.find_fault(number) {
                return Err(fault);
            }
            if Instant::now() >= deadline || self.control.is_expired() {
                return Err(TransactionFault::Redo("the broker did not take all outputs in time".to_owned()));
            }
            self.serve_reports();
        }
        self.inner.serve_reports();
        self.find_fault(number).map_or(Ok(()), Err)
    }

    /// Takes the client's reports, or waits for one.
    fn serve_reports(&self) {
        let _call = self.control.watch.enter_call("send");
        self.inner.wait(DEADLINE_CHECK_INTERVAL);
        self.inner.serve_reports();
    }

    /// Returns the fault of the records of this transaction that were not delivered.
    fn find_fault(&self, number: usize) -> Option<TransactionFault> {
        let failures = self.context().failures.lock();
        let mask = (1usize << ITEM_BITS) - 1;
        let ours = || failures.iter().filter(|(opaque, _)| opaque >> ITEM_BITS == number);
        let (_, first) = ours().next()?;
        let refused = ours().find(|(_, code)| is_refusal(*code));
        let code = refused.map_or(*first, |(_, code)| *code);
        let items = ours().filter(|(_, c)| *c == code).map(|(opaque, _)| opaque & mask).collect();
        Some(fault_of(items, code))
    }

    /// Returns the fault after a call failed inside the transaction.
    fn fault_after_failure(&self, failed: Failed) -> TransactionFault {
        match failed.0 {
            Kind::Abort => self.abort_transaction(TransactionFault::Redo(failed.1)),
            _ => Self::end_of(failed),
        }
    }

    fn end_of(failed: Failed) -> TransactionFault {
        match failed.0 {
            Kind::Fenced => TransactionFault::Fenced(failed.1),
            _ => TransactionFault::Unknown(failed.1),
        }
    }

    /// Aborts. If that fails as well, the transaction's end is unknown.
    fn abort_transaction(&self, because: TransactionFault) -> TransactionFault {
        let deadline = Instant::now() + self.within;
        let aborted = retry_until(&self.control, deadline, "abort", |_| {
            // Aborting waits for the reports of purged records, which come by polling only.
            self.inner.serve_reports();
            self.inner.abort_transaction(Duration::from_millis(300))
        });
        match aborted {
            Ok(()) => because,
            Err(failed) => Self::end_of(failed),
        }
    }
}

/// Returns true if the broker will refuse the same bytes again.
fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::InvalidMessage
            | Code::InvalidMessageSize
            | Code::MessageBatchTooLarge
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::InvalidArgument
    )
}

fn fault_of(items: BTreeSet<usize>, code: Code) -> TransactionFault {
    if is_refusal(code) {
        return TransactionFault::Refused { items, detail: code.to_string() };
    }
    match code {
        Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::PolicyViolation => {
            TransactionFault::Operator(format!("Kafka does not take the outputs: {code}"))
        }
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => {
            TransactionFault::Missing(format!("Kafka does not take the outputs: {code}"))
        }
        _ => TransactionFault::Redo(format!("outputs were not accepted: {code}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_that_takes_too_long_is_called_again_and_nothing_else_of_unknown_end() {
        assert_eq!(classify_error(&KafkaError::Flush(Code::OperationTimedOut)), Kind::Again);
        assert_eq!(classify_error(&KafkaError::Flush(Code::Fatal)), Kind::Unknown);
        assert_eq!(classify_error(&KafkaError::Canceled), Kind::Unknown);
        let control = Control::default();
        let mut left = [KafkaError::Flush(Code::OperationTimedOut)].into_iter();
        let deadline = Instant::now() + Duration::from_secs(60);
        let ended = retry_until(&control, deadline, "commit", |_| left.next().map_or(Ok(()), Err));
        assert!(ended.is_ok() && left.next().is_none());
        // Past the deadline its end is not known.
        let ended = retry_until(&control, Instant::now(), "commit", |_| {
            Err(KafkaError::Flush(Code::OperationTimedOut))
        });
        assert!(matches!(ended, Err(Failed(Kind::Unknown, _))));
    }

    #[test]
    fn a_fence_is_another_producer_only_where_the_broker_had_no_time_to_end_the_transaction() {
        let most = Duration::from_secs(12);
        let (young, old) = (Duration::from_secs(11), Duration::from_secs(12));
        assert!(matches!(
            TransactionFault::Fenced(String::new()).interpret_after(young, most),
            TransactionFault::Fenced(_)
        ));
        assert!(matches!(
            TransactionFault::Fenced(String::new()).interpret_after(old, most),
            TransactionFault::Slow { aborted: false, .. }
        ));
        assert!(matches!(
            TransactionFault::Unknown(String::new()).interpret_after(old, most),
            TransactionFault::Slow { aborted: false, .. }
        ));
        assert!(matches!(
            TransactionFault::Redo(String::new()).interpret_after(young, most),
            TransactionFault::Redo(_)
        ));
        assert!(matches!(
            TransactionFault::Redo(String::new()).interpret_after(old, most),
            TransactionFault::Slow { aborted: true, .. }
        ));
        let refused = TransactionFault::Refused { items: BTreeSet::new(), detail: String::new() };
        assert!(matches!(refused.interpret_after(old, most), TransactionFault::Refused { .. }));
    }
}

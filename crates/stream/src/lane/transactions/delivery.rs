//! The client's reports on records of transactions.

use crate::client;
use crate::lane::{Control, Observer};
use crate::native;
use crate::write::waking::UndeliveredRecord;
use parking_lot::Mutex;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Collects records that were not delivered, and counts what the client's queue holds.
pub(super) struct TxContext {
    pub(super) failures: Mutex<Vec<(usize, Code)>>,
    queued: AtomicUsize,
    /// The client gave a record up that may be in the log of its partition.
    is_out_of_sequence: AtomicBool,
    observer: Arc<dyn Observer>,
    control: Arc<Control>,
}

impl TxContext {
    pub(super) fn new(observer: &Arc<dyn Observer>, control: &Arc<Control>) -> TxContext {
        TxContext {
            failures: Mutex::default(),
            queued: AtomicUsize::new(0),
            is_out_of_sequence: AtomicBool::new(false),
            observer: observer.clone(),
            control: Arc::clone(control),
        }
    }

    pub(super) fn record_queued(&self, bytes: usize) {
        self.observer.record_produced(self.queued.fetch_add(bytes, Ordering::Relaxed) + bytes);
    }

    /// Returns true if the next record of a partition could get the sequence number of one that is in its log.
    pub(super) fn is_out_of_sequence(&self) -> bool {
        self.is_out_of_sequence.load(Ordering::Relaxed)
    }
}

impl ClientContext for TxContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        // The thread that would hear of it from the client may wait in a call.
        if facility == "FAIL" && matches!(level, RDKafkaLogLevel::Error) {
            self.control.watch.record_failed_connection();
        }
        client::log_client_line(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        client::log_error(&error, reason);
    }
}

impl ProducerContext for TxContext {
    /// With the numbers of a transaction and an item.
    type DeliveryOpaque = Box<UndeliveredRecord<usize>>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<UndeliveredRecord<usize>>) {
        let (Ok(message) | Err((_, message))) = result;
        let bytes = message.payload_len() + message.key_len();
        if let Err((error, _)) = result {
            self.failures.lock().push((sent.about, error.rdkafka_error_code().unwrap_or(Code::Unknown)));
            if native::may_be_written(message) {
                self.is_out_of_sequence.store(true, Ordering::Relaxed);
            }
        }
        self.observer.record_produced(self.queued.fetch_sub(bytes, Ordering::Relaxed).saturating_sub(bytes));
    }
}

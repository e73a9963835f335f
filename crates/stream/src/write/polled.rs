//! A producer with a thread that takes its reports, so that each record can be waited for.

use crate::client;
use crate::record::OutRecord;
use crate::write::waking::{UndeliveredRecord, WakingProducer};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, ProducerContext};
use rdkafka::statistics::Statistics;
use rdkafka::{ClientConfig, ClientContext};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// How long the thread sleeps if nothing wakes it.
const PRODUCER_WAKE_INTERVAL: Duration = Duration::from_secs(10);

/// The position that the broker gave a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The partition.
    pub partition: i32,
    /// The offset within it.
    pub offset: i64,
}

/// The end of a record's way, once it is known.
pub(crate) type Delivery = oneshot::Receiver<Result<Delivered, KafkaError>>;

/// Callback for the client's statistics.
pub(crate) type OnStatistics = Box<dyn Fn(&Statistics) + Send + Sync>;

/// Reports the delivery of each record to its sender.
pub(crate) struct Deliveries(OnStatistics);

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        client::log_client_line(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        client::log_error(&error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        (self.0)(&statistics);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<UndeliveredRecord<oneshot::Sender<Result<Delivered, KafkaError>>>>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Self::DeliveryOpaque) {
        let end = match result {
            Ok(message) => Ok(Delivered { partition: message.partition(), offset: message.offset() }),
            Err((error, _)) => Err(error.clone()),
        };
        // The receiver may be gone.
        let _ = sent.about.send(end);
    }
}

/// The producer. Dropped, it lets go of records that were not delivered.
pub(crate) struct PolledProducer {
    inner: Arc<WakingProducer<Deliveries>>,
    /// Behind `inner`, so that the thread has the last of it: the client's end takes its time.
    _thread: Ending,
}

/// Ends the thread when it is dropped. A runtime that ends waits for the thread, as long as it waits for anything.
struct Ending {
    stop: Arc<AtomicBool>,
    thread: Joined,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let thread = Joined(self.thread.0.take());
        if let Some(running) = &thread.0 {
            running.thread().unpark();
        }
        // The client's end takes its time, which no task is to wait for.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn_blocking(move || drop(thread));
        }
    }
}

/// A thread that is waited for when this is dropped, also by a runtime that has stopped running tasks.
struct Joined(Option<JoinHandle<()>>);

impl Drop for Joined {
    fn drop(&mut self) {
        if let Some(Err(panic)) = self.0.take().map(JoinHandle::join) {
            tracing::error!(error = ?panic, "the thread of a producer panicked");
        }
    }
}

impl PolledProducer {
    /// Makes the client and starts the thread.
    pub(crate) fn start(config: &ClientConfig, on_statistics: OnStatistics) -> KafkaResult<PolledProducer> {
        let inner = Arc::new(WakingProducer::new(config, Deliveries(on_statistics))?);
        let stop = Arc::new(AtomicBool::new(false));
        let (serving, ended) = (Arc::clone(&inner), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("producer".to_owned()).spawn(move || {
            while !ended.load(Ordering::Acquire) {
                serving.serve_reports();
                serving.wait(PRODUCER_WAKE_INTERVAL);
            }
        });
        let thread = thread
            .map_err(|error| KafkaError::ClientCreation(format!("no thread for its reports: {error}")))?;
        Ok(PolledProducer { inner, _thread: Ending { stop, thread: Joined(Some(thread)) } })
    }

    /// Passes a record to the client, if its queue has capacity.
    pub(crate) fn send_record(&self, record: &OutRecord) -> KafkaResult<Delivery> {
        let (sender, delivery) = oneshot::channel();
        self.inner.produce_record(record, sender)?;
        Ok(delivery)
    }
}

impl Deref for PolledProducer {
    type Target = BaseProducer<Deliveries>;

    fn deref(&self) -> &BaseProducer<Deliveries> {
        &self.inner
    }
}

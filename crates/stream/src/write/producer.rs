//! The idempotent producer: each sent record is on the log once, in order.

use crate::error::StreamError;
use crate::record::OutRecord;
use crate::settings::Settings;
use crate::write::polled::{Delivered, Delivery, PolledProducer};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::Producer as _;
use rdkafka::statistics::Statistics;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, OnceCell};
use tokio::time::{Instant, sleep, timeout_at};
use unslide_model::Stats;

/// How long a record waits for capacity in the client's queue.
const QUEUE_CAPACITY_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a waiting record is tried again while the queue is full.
const QUEUE_RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// How often the client reports the size of its queue. Each of its reports is large.
const STATS_MILLIS: &str = "5000";
/// A record with more bytes goes by a client of its own: compressing some megabytes and having the broker
/// check them takes tens of milliseconds, and the records of one client to a broker wait for its earlier
/// ones.
const LARGE_BYTES: usize = 1 << 20;

/// Writes records outside of transactions. Cheap to clone; clones share their clients.
#[derive(Clone)]
pub struct Producer {
    clients: Arc<Clients>,
    max_bytes: usize,
    waiting: Arc<AtomicU64>,
}

struct Clients {
    small: ProducerClient,
    /// For large records; made for the first of them.
    large: OnceCell<ProducerClient>,
    config: ClientConfig,
}

/// A client and the order in which records enter its queue.
struct ProducerClient {
    inner: Arc<PolledProducer>,
    queued: Arc<AtomicU64>,
    /// Held by the one record that waits for capacity.
    turn: Mutex<()>,
}

/// Bytes of a record that waits for capacity.
struct Waiting<'a> {
    all: &'a AtomicU64,
    bytes: u64,
}

impl<'a> Waiting<'a> {
    fn start_waiting(all: &'a AtomicU64, bytes: usize) -> Waiting<'a> {
        let bytes = bytes as u64;
        all.fetch_add(bytes, Ordering::Relaxed);
        Waiting { all, bytes }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Producer {
    /// Statistics of the producer's limit. The queue's size is up to five seconds old.
    pub const PRODUCER_STATS: [Stats<Producer>; 1] = [Stats {
        name: "unslide_producer_bytes",
        help: "Bytes of records in the Kafka client's queue, and of those that wait for room in it.",
        label: "state",
        read: |producer| {
            let queued =
                producer.clients.started_clients().map(|client| client.queued.load(Ordering::Relaxed));
            vec![("queued", queued.sum()), ("waiting", producer.waiting.load(Ordering::Relaxed))]
        },
    }];

    /// Makes a client. Nothing is asked of a broker until the first record.
    ///
    /// # Errors
    /// [`StreamError::Settings`] for settings that librdkafka refuses.
    pub fn new(settings: &Settings) -> Result<Producer, StreamError> {
        let mut config = settings.require_valid()?.producer_config();
        config.set("message.timeout.ms", "30000").set("statistics.interval.ms", STATS_MILLIS);
        let small =
            ProducerClient::start(&config).map_err(|e| StreamError::from_kafka("making the producer", e))?;
        let clients = Arc::new(Clients { small, large: OnceCell::new(), config });
        Ok(Producer { clients, max_bytes: settings.max_output_bytes(), waiting: Arc::default() })
    }

    /// Writes a record; returns when all in-sync replicas have it. Records of one key keep their order if one
    /// is sent after the other was written. If the client's queue is full, the record waits; after thirty
    /// seconds it was not sent. Records in the queue are given up after thirty seconds: they may then be on
    /// the log or not.
    ///
    /// # Errors
    /// [`StreamError::TooLarge`], or the broker's error.
    pub async fn send_record(&self, record: &OutRecord) -> Result<Delivered, StreamError> {
        let size = record.size();
        if size > self.max_bytes {
            return Err(StreamError::TooLarge { topic: record.topic.to_string(), bytes: size });
        }
        let written = match self.enqueue_record(record, size).await {
            Ok(delivery) => match delivery.await {
                Ok(written) => written,
                Err(_) => return Err(StreamError::Ended(record.topic.to_string())),
            },
            Err(e) => Err(e),
        };
        match written {
            Ok(delivered) => Ok(delivered),
            Err(e) if too_large(&e) => {
                Err(StreamError::TooLarge { topic: record.topic.to_string(), bytes: size })
            }
            Err(e) => Err(StreamError::from_kafka(format!("writing to {}", record.topic), e)),
        }
    }

    /// Passes a record to its client as soon as the queue there has capacity.
    async fn enqueue_record(&self, record: &OutRecord, bytes: usize) -> KafkaResult<Delivery> {
        let _waiting = Waiting::start_waiting(&self.waiting, bytes);
        self.clients.client_for_size(bytes).await?.enqueue_record(record, bytes).await
    }

    /// Writes records in order and waits for all of them; ends at the first that fails.
    ///
    /// # Errors
    /// As [`Producer::send_record`].
    pub async fn send_all(&self, records: &[OutRecord]) -> Result<Vec<Delivered>, StreamError> {
        futures::future::try_join_all(records.iter().map(|record| self.send_record(record))).await
    }

    /// Asks a broker for the topic's partitions, to check that Kafka answers.
    ///
    /// # Errors
    /// [`StreamError`] if Kafka does not answer within `within`, or the topic does not exist.
    pub async fn probe_topic(&self, topic: &str, within: Duration) -> Result<usize, StreamError> {
        let (client, name) = (self.clients.small.inner.clone(), topic.to_owned());
        let answer = tokio::task::spawn_blocking(move || {
            let metadata = client
                .client()
                .fetch_metadata(Some(&name), within)
                .map_err(|e| StreamError::from_kafka("asking Kafka for a topic", e))?;
            let found = metadata.topics().iter().find(|t| t.name() == name && t.error().is_none());
            found.map(|t| t.partitions().len()).filter(|n| *n > 0).ok_or(StreamError::NoTopic(name))
        });
        answer.await.map_err(|_| StreamError::Ended(topic.to_owned()))?
    }

    /// Waits until everything sent is on the log, at most `within` for each client.
    pub async fn flush(&self, within: Duration) {
        for client in self.clients.started_clients() {
            let client = client.inner.clone();
            // The outcome of each record goes to its sender.
            let _ = tokio::task::spawn_blocking(move || client.flush(within)).await;
        }
    }
}

impl Clients {
    /// Returns the client for a record with this many bytes.
    async fn client_for_size(&self, bytes: usize) -> KafkaResult<&ProducerClient> {
        if bytes <= LARGE_BYTES {
            return Ok(&self.small);
        }
        self.large.get_or_try_init(async || ProducerClient::start(&self.config)).await
    }

    fn started_clients(&self) -> impl Iterator<Item = &ProducerClient> {
        std::iter::once(&self.small).chain(self.large.get())
    }
}

impl ProducerClient {
    fn start(config: &ClientConfig) -> KafkaResult<ProducerClient> {
        let queued = Arc::new(AtomicU64::new(0));
        let bytes = queued.clone();
        let takes_down = move |statistics: &Statistics| bytes.store(statistics.msg_size, Ordering::Relaxed);
        let inner = Arc::new(PolledProducer::start(config, Box::new(takes_down))?);
        Ok(ProducerClient { inner, queued, turn: Mutex::default() })
    }

    /// Passes a record to the client as soon as its queue has capacity.
    async fn enqueue_record(&self, record: &OutRecord, bytes: usize) -> KafkaResult<Delivery> {
        let full = |e: &KafkaError| e.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
        let deadline = Instant::now() + QUEUE_CAPACITY_TIMEOUT;
        // One record waits for capacity at a time: those behind it stay behind it.
        let Ok(_turn) = timeout_at(deadline, self.turn.lock()).await else {
            return Err(KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull));
        };
        loop {
            match self.pass_record(record, bytes).await {
                Err(e) if full(&e) && Instant::now() < deadline => {}
                sent => return sent,
            }
            sleep(QUEUE_RETRY_INTERVAL).await;
        }
    }

    /// Gives a record to the client, which copies it: a large one not on a thread that answers others.
    async fn pass_record(&self, record: &OutRecord, bytes: usize) -> KafkaResult<Delivery> {
        if bytes <= LARGE_BYTES {
            return self.inner.send_record(record);
        }
        let (client, record) = (Arc::clone(&self.inner), record.clone());
        let sent = tokio::task::spawn_blocking(move || client.send_record(&record)).await;
        sent.unwrap_or(Err(KafkaError::Canceled))
    }
}

pub(crate) fn too_large(error: &rdkafka::error::KafkaError) -> bool {
    use rdkafka::error::RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge)
    )
}

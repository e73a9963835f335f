//! The producer that only one process has at a time: a process that starts it under a name fences off the one that had
//! the name before, also in the middle of a transaction.

use crate::error::StreamError;
use crate::record::OutRecord;
use crate::settings::Settings;
use crate::write::polled::PolledProducer;
use crate::write::producer::too_large;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::Producer as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The broker aborts a transaction that was open for this long. A producer that died holds readers of its
/// topics back for as long, unless the next one starts before.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(60);
/// How long starting may take: a broker that aborts the transaction of the producer before says "not yet".
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// One call into the client.
const CLIENT_CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a transaction was not committed.
#[derive(Debug)]
pub enum NotSent {
    /// The topic takes no record that is so large. The transaction was aborted: start a new producer for the others, since records
    /// of them may have been sent and not confirmed.
    TooLarge {
        /// Which of the records, from 0.
        record: usize,
        /// Key, headers and value together.
        bytes: usize,
    },
    /// The broker did not take the records within [`FencedProducer::DELIVERY_TIMEOUT`]: start a new producer, and send fewer
    /// bytes at once.
    Slow(StreamError),
    /// Whether the records are on the log is unknown, or another producer has the name: start a new one.
    Failed(StreamError),
}

/// Writes records in transactions, under a name.
pub struct FencedProducer {
    inner: Arc<PolledProducer>,
    max_bytes: usize,
}

impl FencedProducer {
    /// How long the records of a transaction may take, so that time is left to abort.
    pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(45);

    /// Takes the name over: a transaction that is open under it is aborted, and its producer can write
    /// nothing any more.
    ///
    /// # Errors
    /// [`StreamError::Settings`] for settings that librdkafka refuses; another error if Kafka does not
    /// answer.
    pub async fn start(settings: &Settings, name: &str) -> Result<FencedProducer, StreamError> {
        let mut config = settings.require_valid()?.producer_config();
        config
            .set("transactional.id", format!("{}{name}", settings.topic_prefix))
            .set("transaction.timeout.ms", TRANSACTION_TIMEOUT.as_millis().to_string())
            .set("message.timeout.ms", FencedProducer::DELIVERY_TIMEOUT.as_millis().to_string());
        let inner = PolledProducer::start(&config, Box::new(|_| {}))
            .map_err(|e| StreamError::from_kafka("making the fenced producer", e))?;
        let producer = FencedProducer { inner: Arc::new(inner), max_bytes: settings.max_output_bytes() };
        producer
            .call_blocking("starting the fenced producer", START_TIMEOUT, |inner| {
                inner.init_transactions(CLIENT_CALL_TIMEOUT)
            })
            .await?;
        Ok(producer)
    }

    /// Writes records in one transaction, in their order; returns when all in-sync replicas have them.
    ///
    /// # Errors
    /// [`NotSent`]
    pub async fn send_all(&self, records: &[OutRecord]) -> Result<(), NotSent> {
        let large = |record: &&OutRecord| record.size() > self.max_bytes;
        if let Some(record) = records.iter().position(|record| large(&record)) {
            return Err(NotSent::TooLarge { record, bytes: records[record].size() });
        }
        let begun = Instant::now();
        let sent = match self.write_records(records).await {
            Ok(()) => self.commit().await.map_err(NotSent::Failed),
            not_sent => not_sent,
        };
        sent.map_err(|why| match why {
            // The broker also fences off a producer after it has timed out its transaction.
            NotSent::Failed(error) if begun.elapsed() >= FencedProducer::DELIVERY_TIMEOUT => {
                NotSent::Slow(error)
            }
            why => why,
        })
    }

    /// Does everything but the commit.
    pub(crate) async fn write_records(&self, records: &[OutRecord]) -> Result<(), NotSent> {
        let begun = self.inner.begin_transaction();
        begun.map_err(|e| NotSent::Failed(StreamError::from_kafka("beginning a transaction", e)))?;
        let Err((record, error)) = self.deliver_records(records).await else { return Ok(()) };
        let topic = records[record].topic.to_string();
        let aborted = self
            .call_blocking("aborting a transaction", TRANSACTION_TIMEOUT, |inner| {
                inner.abort_transaction(CLIENT_CALL_TIMEOUT)
            })
            .await;
        match (aborted, too_large(&error)) {
            (Ok(()), true) => Err(NotSent::TooLarge { record, bytes: records[record].size() }),
            _ => Err(NotSent::Failed(StreamError::from_kafka(format!("writing to {topic}"), error))),
        }
    }

    pub(crate) async fn commit(&self) -> Result<(), StreamError> {
        self.call_blocking("committing a transaction", TRANSACTION_TIMEOUT, |inner| {
            inner.commit_transaction(CLIENT_CALL_TIMEOUT)
        })
        .await
    }

    /// Waits until the broker has every record, or refuses one: then the client holds back those behind it.
    async fn deliver_records(&self, records: &[OutRecord]) -> Result<(), (usize, KafkaError)> {
        let mut deliveries = FuturesUnordered::new();
        for (place, record) in records.iter().enumerate() {
            let delivery = self.inner.send_record(record).map_err(|e| (place, e))?;
            deliveries.push(async move { (place, delivery.await) });
        }
        let deadline = Instant::now() + FencedProducer::DELIVERY_TIMEOUT;
        let late = KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut);
        loop {
            match timeout_at(deadline, deliveries.next()).await {
                Ok(None) => return Ok(()),
                Ok(Some((_, Ok(Ok(_))))) => {}
                Ok(Some((place, Ok(Err(error))))) => return Err((place, error)),
                Ok(Some((place, Err(_)))) => return Err((place, KafkaError::Canceled)),
                Err(_) => return Err((0, late)),
            }
        }
    }

    /// Makes a blocking call on a thread of its own, and repeats it while its error is retriable, for at most
    /// `within`.
    async fn call_blocking(
        &self,
        what: &'static str,
        within: Duration,
        call: impl Fn(&PolledProducer) -> KafkaResult<()> + Send + 'static,
    ) -> Result<(), StreamError> {
        let (inner, deadline) = (Arc::clone(&self.inner), Instant::now() + within);
        let called = tokio::task::spawn_blocking(move || {
            loop {
                match call(&inner) {
                    Err(error) if is_retriable(&error) && Instant::now() < deadline => {}
                    called => return called,
                }
            }
        });
        let called = called.await.map_err(|_| StreamError::Ended(what.to_owned()))?;
        called.map_err(|e| StreamError::from_kafka(what, e))
    }
}

fn is_retriable(error: &KafkaError) -> bool {
    match error {
        KafkaError::Transaction(error) => error.is_retriable(),
        // The wrapper flushes before it commits, and says so when that takes too long.
        KafkaError::Flush(code) => *code == RDKafkaErrorCode::OperationTimedOut,
        _ => false,
    }
}

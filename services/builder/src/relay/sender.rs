//! Sends the messages of the outbox, one transaction after the other.

use crate::failure::JobFailure;
use crate::relay::message::build_records;
use crate::relay::resources::RelayResources;
use crate::storage::JobStorage;
use tokio::time::Instant;
use unslide_model::format_causes;
use unslide_store::StoreError;
use unslide_store::outbox::{self, Message, Relay, Unsent};
use unslide_store::requests::{self, RequestOutcome};
use unslide_stream::access::RELAY_TRANSACTION;
use unslide_stream::{ByteBound, FencedProducer, NotSent, OutRecord};

/// Number of messages that are read at once.
const OUTBOX_BATCH_ENTRIES: u32 = 500;

/// Limit for the records of one transaction, in bytes, while the broker is fast enough: requests carry whole
/// reports.
const BATCH_BYTES: usize = 4 << 20;

/// Number of messages with stored reports that are read, and held in memory, at the same time.
const CONCURRENT_LOOK_UPS: usize = 8;

/// The relay with its producer and its size limit.
pub(super) struct Sender<'b> {
    pub(super) resources: &'b RelayResources,
    pub(super) relay: Relay,
    /// None before the first message, and after a transaction that was not committed.
    pub(super) producer: Option<FencedProducer>,
    /// Number of bytes that the broker accepts before the timeout.
    pub(super) bound: &'b mut ByteBound,
}

/// The messages and records of one transaction.
#[derive(Default)]
struct RelayTransaction<'u> {
    messages: Vec<&'u Unsent>,
    /// The records of the messages, in their order.
    records: Vec<OutRecord>,
    bytes: usize,
    /// True if the limit for a slow broker cut the transaction off.
    is_shortened: bool,
    /// Messages that have no record to send any more.
    gone: Vec<i64>,
}

impl Sender<'_> {
    /// Sends the next messages in one transaction. Returns false if there are none.
    pub(super) async fn send_next(&mut self) -> Result<bool, JobFailure> {
        let unsent = self.next().await?;
        let transaction = self.prepare_transaction(&unsent).await?;
        self.send_transaction(transaction).await?;
        Ok(!unsent.is_empty())
    }

    /// Returns the next messages, read while this relay's producer owns the transactional id.
    ///
    /// The database's lock can be lost without its holder's knowledge, and Kafka does not know about the
    /// lock. When this relay takes over the producer's id, Kafka aborts the transaction that the relay before
    /// has in flight. So none of its records land behind those that are sent here. The start of a producer
    /// takes long, and another relay may have sent newer messages in that time. So messages that were read
    /// before the start are discarded, and the outbox is read again on the connection that has the lock. That
    /// fails if the lock is lost.
    async fn next(&mut self) -> Result<Vec<Unsent>, JobFailure> {
        let unsent = self.read_unsent().await?;
        if unsent.is_empty() || self.producer.is_some() {
            return Ok(unsent);
        }
        // With this transactional id the relay is the only one for Kafka too.
        let started = FencedProducer::start(&self.resources.kafka, RELAY_TRANSACTION).await;
        self.producer = Some(started.map_err(|error| JobFailure::Server(format_causes(&error)))?);
        self.read_unsent().await
    }

    async fn read_unsent(&mut self) -> Result<Vec<Unsent>, JobFailure> {
        let unsent = self.relay.next(OUTBOX_BATCH_ENTRIES).await?;
        let now = self.resources.storage.store.clock().now();
        let oldest = unsent.iter().map(|message| message.created_at).min();
        let lag = oldest.map_or(0.0, |oldest| (now - oldest).as_seconds_f64());
        self.resources.metrics.relay_lag.set(lag);
        Ok(unsent)
    }

    /// Prepares the first of these messages, in their order, as far as the size limit allows. Events about
    /// tenants and symbols do not wait for requests, which may be too large for a slow broker.
    async fn prepare_transaction<'u>(
        &mut self,
        unsent: &'u [Unsent],
    ) -> Result<RelayTransaction<'u>, JobFailure> {
        let is_event = |unsent: &&Unsent| !matches!(unsent.message, Message::Resymbolicate { .. });
        let events = unsent.iter().take_while(is_event).count();
        let first = unsent.get(..events).filter(|events| !events.is_empty()).unwrap_or(unsent);
        let most = self.bound.bytes().min(BATCH_BYTES);
        let mut transaction = RelayTransaction::default();
        for some in first.chunks(CONCURRENT_LOOK_UPS) {
            for (message, found) in some.iter().zip(self.find_records(some).await?) {
                let record = match found {
                    Found::Record(record) => record,
                    Found::Gone => {
                        transaction.gone.push(message.id);
                        continue;
                    }
                    Found::SetAside => continue,
                };
                if transaction.bytes + record.size() > most && !transaction.records.is_empty() {
                    transaction.is_shortened = most < BATCH_BYTES;
                    return Ok(transaction);
                }
                transaction.bytes += record.size();
                transaction.messages.push(message);
                transaction.records.push(record);
            }
        }
        Ok(transaction)
    }

    /// Sends a transaction, and marks the messages that need not be sent again. The others are read again
    /// later.
    async fn send_transaction(&mut self, transaction: RelayTransaction<'_>) -> Result<(), JobFailure> {
        let mut sent = transaction.gone;
        if !transaction.records.is_empty() {
            let Some(producer) = &self.producer else {
                return Err(JobFailure::Server("there is no producer".into()));
            };
            let begun = Instant::now();
            match producer.send_all(&transaction.records).await {
                Ok(()) => {
                    sent.extend(transaction.messages.iter().map(|message| message.id));
                    if transaction.is_shortened && begun.elapsed() < FencedProducer::DELIVERY_TIMEOUT / 2 {
                        self.bound.grow();
                    }
                }
                Err(NotSent::TooLarge { record, bytes }) => {
                    // A retry would not make it smaller.
                    let (message, topic) =
                        (transaction.messages[record], &*transaction.records[record].topic);
                    tracing::error!(
                        outbox.id = message.id,
                        topic,
                        bytes,
                        "a message is too large for its topic"
                    );
                    give_up(&self.resources.storage, message).await?;
                    sent.push(message.id);
                    self.producer = None;
                }
                Err(NotSent::Slow(error)) => {
                    let (records, bytes) = (transaction.records.len(), transaction.bytes);
                    self.bound.shrink(records, bytes);
                    let (error, next_bytes) = (format_causes(&error), self.bound.bytes());
                    tracing::warn!(
                        records,
                        bytes,
                        next_bytes,
                        error,
                        "Kafka is slow, a transaction ran out of time"
                    );
                    self.producer = None;
                }
                Err(NotSent::Failed(error)) => return Err(JobFailure::Server(format_causes(&error))),
            }
        }
        Ok(self.relay.record_sent(&sent, self.resources.storage.store.clock().now()).await?)
    }

    /// Returns the records for messages. If one cannot be made, each is made separately, and the one that
    /// fails is set aside.
    async fn find_records(&mut self, unsent: &[Unsent]) -> Result<Vec<Found>, JobFailure> {
        let RelayResources { storage, topics, .. } = self.resources;
        let found = |record: Option<OutRecord>| record.map_or(Found::Gone, Found::Record);
        match build_records(&storage.store, topics, unsent).await {
            Ok(records) => return Ok(records.into_iter().map(found).collect()),
            Err(failure @ (JobFailure::Server(_) | JobFailure::LeaseLost)) => return Err(failure),
            Err(_) => {}
        }
        let mut all = Vec::with_capacity(unsent.len());
        for one in unsent {
            match build_records(&storage.store, topics, std::slice::from_ref(one)).await {
                Ok(records) => all.extend(records.into_iter().map(found)),
                // No tenant is left to send it for.
                Err(JobFailure::TenantDeleted) => all.push(Found::Gone),
                Err(
                    JobFailure::Again(detail) | JobFailure::Object(detail) | JobFailure::Job { detail, .. },
                ) => {
                    self.relay.set_aside(one.id, &detail).await?;
                    all.push(Found::SetAside);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(all)
    }
}

/// Result of making a record for a message.
enum Found {
    Record(OutRecord),
    /// The requested report no longer exists.
    Gone,
    SetAside,
}

/// Ends a request that cannot be sent: the report keeps its revision.
async fn give_up(storage: &JobStorage, unsent: &Unsent) -> Result<(), JobFailure> {
    let Message::Resymbolicate { report_id, variant, revision, requested_at_micros, .. } = &unsent.message
    else {
        return Ok(());
    };
    let sent = outbox::from_micros(*requested_at_micros);
    let mut tx = storage.store.tenant(unsent.tenant()?).await?;
    let report = (*report_id, *variant);
    match requests::close_request(&mut tx, report, *revision, RequestOutcome::Unsendable, sent).await {
        // The cell that serves the tenant sends the request again.
        Err(StoreError::TenantMoving) => Ok(()),
        ended => {
            ended?;
            Ok(tx.commit().await?)
        }
    }
}

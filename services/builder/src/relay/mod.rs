//! The relay: sends the outbox to Kafka, each tenant's in its order. One process at a time does it.

pub(crate) mod maintenance;
pub(crate) mod message;
pub(crate) mod missed;

use crate::builder::Builder;
use crate::failure::JobFailure;
use crate::relay::message::records;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use unslide_runtime::causes;
use unslide_store::outbox::{self, Message, Relay, Unsent};
use unslide_store::requests::{self, RequestOutcome};
use unslide_stream::{FencedProducer, NotSent, OutRecord};

/// The producer's name, which makes the relay the only one for Kafka too.
const NAME: &str = "unslide.relay";

/// Messages that are read at once.
const BATCH: u32 = 500;

/// Bytes of records of one transaction, so that it ends in time where the broker is slow: requests carry whole
/// reports.
const BATCH_BYTES: usize = 4 << 20;

/// Messages whose stored reports are looked up, and held, at the same time.
const LOOK_UPS: usize = 8;

/// How often the outbox is looked at without a notification.
const LOOK: Duration = Duration::from_secs(1);

/// How often another process's relay is asked whether it still lives, and the pause after a failure.
const STANDBY: Duration = Duration::from_secs(2);

/// Relays until the host says to stop.
pub(crate) async fn relay(builder: Arc<Builder>) {
    let stopping = builder.host.shutdown.token().clone();
    while !stopping.is_cancelled() {
        let held = match Relay::acquire(&builder.store).await {
            // Once however many builders there are.
            Ok(Some(relay)) => tokio::select! {
                served = serve(&builder, relay) => served,
                () = missed::look(&builder) => Ok(()),
                () = maintenance::run(&builder) => Ok(()),
            },
            Ok(None) => Ok(()),
            Err(error) => Err(error.into()),
        };
        builder.metrics.missed_wakes.set(0);
        if let Err(failure) = held {
            let (JobFailure::Server(detail)
            | JobFailure::Again(detail)
            | JobFailure::Object(detail)
            | JobFailure::Job { detail, .. }) = failure
            else {
                continue;
            };
            tracing::warn!(detail, "the outbox could not be sent; it is tried again");
        }
        tokio::select! {
            () = stopping.cancelled() => {}
            () = sleep(STANDBY) => {}
        }
    }
}

/// What a relay sends with.
struct Sender {
    relay: Relay,
    /// None before the first message.
    producer: Option<FencedProducer>,
}

impl Sender {
    /// The database's lock can be lost without its holder's knowledge, and Kafka knows nothing of it. What the
    /// relay before has in flight is aborted when this one takes the producer's name over, so that nothing of
    /// it lands behind what is sent here.
    async fn producer(&mut self, builder: &Builder) -> Result<&FencedProducer, JobFailure> {
        if self.producer.is_none() {
            let started = FencedProducer::start(&builder.kafka, NAME).await;
            self.producer = Some(started.map_err(|error| JobFailure::Server(causes(&error)))?);
        }
        self.producer.as_ref().ok_or_else(|| JobFailure::Server("there is no producer".into()))
    }
}

/// Sends until the host says to stop, or something fails: then the lock is given up, and the process that
/// has it next begins with what was not noted as sent.
async fn serve(builder: &Builder, relay: Relay) -> Result<(), JobFailure> {
    let stopping = builder.host.shutdown.token().clone();
    let mut notifications = builder.notifications.of_outbox();
    let mut sender = Sender { relay, producer: None };
    tracing::info!("this process sends the outbox");
    while !stopping.is_cancelled() {
        notifications.looked();
        let unsent = sender.relay.next(BATCH).await?;
        let now = builder.store.clock().now();
        let oldest = unsent.iter().map(|message| message.created_at).min();
        let lag = oldest.map_or(0.0, |oldest| (now - oldest).as_seconds_f64());
        builder.metrics.relay_lag.set(lag);
        if unsent.is_empty() {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = notifications.wait(LOOK) => {}
            }
            continue;
        }
        tokio::select! {
            sent = send(builder, &mut sender, &unsent) => sent?,
            // What is in flight then is aborted, and the next relay sends it.
            () = overdue(builder) => {}
        }
    }
    Ok(())
}

/// Returns when the service stops and has waited for Kafka long enough.
async fn overdue(builder: &Builder) {
    builder.host.shutdown.begun().await;
    sleep(builder.host.shutdown.drain() / 10).await;
}

/// Sends messages in the order in which they are given, many in a transaction.
async fn send(builder: &Builder, sender: &mut Sender, unsent: &[Unsent]) -> Result<(), JobFailure> {
    let (mut group, mut bytes) = (Vec::new(), 0);
    for some in unsent.chunks(LOOK_UPS) {
        for (message, record) in some.iter().zip(read(builder, &mut sender.relay, some).await?) {
            let record = match record {
                Found::Record(record) => Some(record),
                Found::Gone => None,
                Found::SetAside => continue,
            };
            let size = record.as_ref().map_or(0, OutRecord::size);
            if bytes + size > BATCH_BYTES && !group.is_empty() {
                flush(builder, sender, &mut group).await?;
                bytes = 0;
            }
            bytes += size;
            group.push((message, record));
        }
    }
    flush(builder, sender, &mut group).await
}

/// What became of a message on its way to a record.
enum Found {
    Record(OutRecord),
    /// What it asks for is not there any more.
    Gone,
    SetAside,
}

/// The records for messages. Where one cannot be made, each is made alone, and the culprit is set aside.
async fn read(builder: &Builder, relay: &mut Relay, unsent: &[Unsent]) -> Result<Vec<Found>, JobFailure> {
    let found = |record: Option<OutRecord>| record.map_or(Found::Gone, Found::Record);
    match records(&builder.store, &builder.topics, unsent).await {
        Ok(records) => return Ok(records.into_iter().map(found).collect()),
        Err(failure @ (JobFailure::Server(_) | JobFailure::LeaseLost)) => return Err(failure),
        Err(_) => {}
    }
    let mut all = Vec::with_capacity(unsent.len());
    for one in unsent {
        match records(&builder.store, &builder.topics, std::slice::from_ref(one)).await {
            Ok(records) => all.extend(records.into_iter().map(found)),
            // Nobody is there for whom it could be sent.
            Err(JobFailure::TenantDeleted) => all.push(Found::Gone),
            Err(JobFailure::Again(detail) | JobFailure::Object(detail) | JobFailure::Job { detail, .. }) => {
                relay.set_aside(one.id, &detail).await?;
                all.push(Found::SetAside);
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(all)
}

async fn flush(
    builder: &Builder,
    sender: &mut Sender,
    group: &mut Vec<(&Unsent, Option<OutRecord>)>,
) -> Result<(), JobFailure> {
    let (mut sent, mut sending, mut records) = (Vec::new(), Vec::new(), Vec::new());
    for (unsent, record) in group.drain(..) {
        match record {
            Some(record) => {
                sending.push(unsent);
                records.push(record);
            }
            None => sent.push(unsent),
        }
    }
    while !records.is_empty() {
        match sender.producer(builder).await?.send_all(&records).await {
            Ok(()) => break,
            Err(NotSent::TooLarge { record, bytes }) => {
                // No try will make it smaller.
                let (unsent, record) = (sending.remove(record), records.remove(record));
                let topic = &*record.topic;
                tracing::error!(outbox.id = unsent.id, topic, bytes, "a message is too large for its topic");
                give_up(builder, unsent).await?;
                sent.push(unsent);
            }
            Err(NotSent::Failed(error)) => return Err(JobFailure::Server(causes(&error))),
        }
    }
    sent.append(&mut sending);
    let ids: Vec<i64> = sent.iter().map(|unsent| unsent.id).collect();
    sender.relay.sent(&ids, builder.store.clock().now()).await?;
    Ok(())
}

/// A request that can't be sent is over: the report keeps the revision that it has.
async fn give_up(builder: &Builder, unsent: &Unsent) -> Result<(), JobFailure> {
    let Message::Resymbolicate { report_id, variant, revision, requested_at_micros, .. } = &unsent.message
    else {
        return Ok(());
    };
    let sent = outbox::time(*requested_at_micros);
    let mut tx = builder.store.tenant(unsent.tenant()?).await?;
    let report = (*report_id, *variant);
    requests::answered(&mut tx, report, *revision, RequestOutcome::Unsendable, sent).await?;
    Ok(tx.commit().await?)
}

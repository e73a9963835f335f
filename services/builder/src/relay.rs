//! The relay: sends the outbox to Kafka, each tenant's in its order. One process at a time does it.

use crate::failure::{Failure, chain};
use crate::message::{kind, records};
use crate::upkeep::Upkeep;
use crate::worker::Builder;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use unslide_store::outbox::{Message, Relay, Unsent};
use unslide_store::requests::{self, Answer, Given};
use unslide_stream::{OutRecord, StreamError};

/// Messages that are read at once.
const BATCH: u32 = 500;

/// Bytes of records that are held at once: requests carry whole reports.
const BATCH_BYTES: usize = 16 << 20;

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
            Ok(Some(relay)) => serve(&builder, relay).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error.into()),
        };
        builder.metrics.relaying.set(0);
        if let Err(failure) = held {
            builder.metrics.relay_failures.inc();
            let (Failure::Server(detail) | Failure::Again(detail) | Failure::Job { detail, .. }) = failure
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

/// Sends until the host says to stop, or something fails: then the lock is given up, and whoever
/// has it next begins with what was not noted as sent.
async fn serve(builder: &Builder, mut relay: Relay) -> Result<(), Failure> {
    let stopping = builder.host.shutdown.token().clone();
    let mut news = builder.news.of_outbox();
    let mut upkeep = Upkeep::default();
    builder.metrics.relaying.set(1);
    tracing::info!("this process sends the outbox");
    while !stopping.is_cancelled() {
        news.looked();
        let unsent = relay.next(BATCH).await?;
        let now = builder.host.clock.now();
        let oldest = unsent.iter().map(|message| message.created_at).min();
        let lag = oldest.map_or(0.0, |oldest| (now - oldest).as_seconds_f64());
        builder.metrics.relay_lag.set(lag);
        if unsent.is_empty() {
            upkeep.due(builder, &mut relay).await?;
            tokio::select! {
                () = stopping.cancelled() => {}
                () = news.wait(LOOK) => {}
            }
        }
        send(builder, &mut relay, &unsent).await?;
    }
    Ok(())
}

/// Sends messages in the order in which they are given. Records of one key wait for each other, so that a failed one is
/// never overtaken; others are sent together.
async fn send(builder: &Builder, relay: &mut Relay, unsent: &[Unsent]) -> Result<(), Failure> {
    let mut group: Vec<(&Unsent, Option<OutRecord>)> = Vec::new();
    let (mut bytes, mut keys) = (0, HashSet::new());
    for some in unsent.chunks(LOOK_UPS) {
        let records = records(&builder.store, &builder.topics, some).await?;
        for (message, record) in some.iter().zip(records) {
            let size = record.as_ref().map_or(0, OutRecord::size);
            let key = record.as_ref().map(|record| (record.topic.clone(), record.key.clone()));
            let again = key.as_ref().is_some_and(|key| keys.contains(key));
            if again || bytes + size > BATCH_BYTES && !group.is_empty() {
                flush(builder, relay, &mut group).await?;
                (bytes, keys) = (0, HashSet::new());
            }
            bytes += size;
            keys.extend(key);
            group.push((message, record));
        }
    }
    flush(builder, relay, &mut group).await
}

async fn flush(
    builder: &Builder,
    relay: &mut Relay,
    group: &mut Vec<(&Unsent, Option<OutRecord>)>,
) -> Result<(), Failure> {
    if group.is_empty() {
        return Ok(());
    }
    let sending = group.iter().map(async |(_, record)| match record {
        Some(record) => builder.producer.send(record).await.map(drop),
        None => Ok(()),
    });
    let outcomes = futures::future::join_all(sending).await;
    let (mut sent, mut failed) = (Vec::new(), None);
    for ((unsent, _), outcome) in group.iter().zip(outcomes) {
        match outcome {
            Ok(()) => sent.push(*unsent),
            Err(StreamError::TooLarge { topic, bytes }) => {
                // No try will make it smaller.
                tracing::error!(outbox.id = unsent.id, topic, bytes, "a message is too large for its topic");
                give_up(builder, unsent).await?;
                sent.push(*unsent);
            }
            Err(error) => failed = Some(error),
        }
    }
    let ids: Vec<i64> = sent.iter().map(|unsent| unsent.id).collect();
    relay.sent(&ids, builder.host.clock.now()).await?;
    for unsent in sent {
        builder.metrics.relayed.with_label_values(&[kind(&unsent.message)]).inc();
    }
    group.clear();
    failed.map_or(Ok(()), |error| Err(Failure::Server(chain(&error))))
}

/// A request that can't be sent is over: the report keeps the revision that it has.
async fn give_up(builder: &Builder, unsent: &Unsent) -> Result<(), Failure> {
    let Message::Resymbolicate { report_id, variant, revision, requested_at_micros, .. } = &unsent.message
    else {
        return Ok(());
    };
    let given = Given::to(*requested_at_micros);
    let mut tx = builder.store.tenant(unsent.tenant()?).await?;
    let report = (*report_id, *variant);
    requests::answered(&mut tx, report, *revision, Answer::Unsendable, given).await?;
    Ok(tx.commit().await?)
}

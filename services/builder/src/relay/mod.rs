//! The relay: sends the outbox to Kafka, each tenant's messages in their order. One process at a time runs
//! it.

pub(crate) mod maintenance;
pub(crate) mod message;
pub(crate) mod missed;
mod sender;

use crate::builder::Builder;
use crate::failure::JobFailure;
use crate::relay::maintenance::Maintenance;
use crate::relay::missed::MissedSearch;
use crate::relay::sender::Sender;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use unslide_store::outbox::Relay;
use unslide_stream::ByteBound;

/// Interval at which the outbox is polled without a notification.
const LOOK: Duration = Duration::from_secs(1);

/// Interval at which a process checks whether another one still holds the relay, and the pause after a
/// failure.
const STANDBY: Duration = Duration::from_secs(2);

/// Runs the relay until the shutdown begins.
pub(crate) async fn relay(builder: Arc<Builder>) {
    let stopping = builder.host.shutdown.token().clone();
    // They outlive the lock, which is released whenever Kafka or the database fails.
    let mut bound = ByteBound::unbounded();
    let (mut search, mut maintenance) = (MissedSearch::new(), Maintenance::default());
    while !stopping.is_cancelled() {
        let held = match Relay::acquire(&builder.store).await {
            // One process runs the relay, however many builders there are.
            Ok(Some(relay)) => tokio::select! {
                served = serve(&builder, relay, &mut bound) => served,
                () = search.run(&builder) => Ok(()),
                () = maintenance.run(&builder) => Ok(()),
            },
            Ok(None) => {
                // Only the figure of the process that runs the relay counts.
                builder.metrics.missed_wakes.set(0);
                Ok(())
            }
            Err(error) => Err(error.into()),
        };
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

/// Sends until the shutdown begins or a step fails. Then the lock is released, and the next process that
/// holds it starts with the messages that are not marked as sent.
async fn serve(builder: &Builder, relay: Relay, bound: &mut ByteBound) -> Result<(), JobFailure> {
    let stopping = builder.host.shutdown.token().clone();
    let mut notifications = builder.notifications.of_outbox();
    let mut sender = Sender { builder, relay, producer: None, bound };
    tracing::info!("this process sends the outbox");
    while !stopping.is_cancelled() {
        notifications.looked();
        let has_more = tokio::select! {
            has_more = sender.send_next() => has_more?,
            // The transaction in flight is aborted, and the next relay sends its messages.
            () = overdue(builder) => return Ok(()),
        };
        if !has_more {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = notifications.wait(LOOK) => {}
            }
        }
    }
    Ok(())
}

/// Returns once the service stops and the time to wait for Kafka is over.
async fn overdue(builder: &Builder) {
    builder.host.shutdown.begun().await;
    sleep(builder.host.shutdown.drain() / 10).await;
}

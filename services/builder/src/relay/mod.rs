//! The relay: sends the outbox to Kafka, each tenant's in its order. One process at a time does it.

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

/// How often the outbox is looked at without a notification.
const LOOK: Duration = Duration::from_secs(1);

/// How often another process's relay is asked whether it still lives, and the pause after a failure.
const STANDBY: Duration = Duration::from_secs(2);

/// Relays until the host says to stop.
pub(crate) async fn relay(builder: Arc<Builder>) {
    let stopping = builder.host.shutdown.token().clone();
    // They outlive the lock, which is given up whenever Kafka or the database fails.
    let mut bound = ByteBound::unbounded();
    let (mut search, mut maintenance) = (MissedSearch::new(), Maintenance::default());
    while !stopping.is_cancelled() {
        let held = match Relay::acquire(&builder.store).await {
            // Once however many builders there are.
            Ok(Some(relay)) => tokio::select! {
                served = serve(&builder, relay, &mut bound) => served,
                () = search.run(&builder) => Ok(()),
                () = maintenance.run(&builder) => Ok(()),
            },
            Ok(None) => {
                // The relay's own figure counts.
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

/// Sends until the host says to stop, or something fails: then the lock is given up, and the process that
/// has it next begins with what was not noted as sent.
async fn serve(builder: &Builder, relay: Relay, bound: &mut ByteBound) -> Result<(), JobFailure> {
    let stopping = builder.host.shutdown.token().clone();
    let mut notifications = builder.notifications.of_outbox();
    let mut sender = Sender { builder, relay, producer: None, bound };
    tracing::info!("this process sends the outbox");
    while !stopping.is_cancelled() {
        notifications.looked();
        let has_more = tokio::select! {
            has_more = sender.send_next() => has_more?,
            // What is in flight then is aborted, and the next relay sends it.
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

/// Returns when the service stops and has waited for Kafka long enough.
async fn overdue(builder: &Builder) {
    builder.host.shutdown.begun().await;
    sleep(builder.host.shutdown.drain() / 10).await;
}

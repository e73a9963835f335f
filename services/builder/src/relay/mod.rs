//! The relay: sends the outbox to Kafka, each tenant's messages in their order. One process at a time runs
//! it.

pub(crate) mod maintenance;
pub(crate) mod message;
pub(crate) mod missed;
pub(crate) mod resources;
mod sender;

use crate::failure::JobFailure;
use crate::relay::maintenance::Maintenance;
use crate::relay::missed::MissedSearch;
use crate::relay::resources::RelayResources;
use crate::relay::sender::Sender;
use std::time::Duration;
use tokio::time::sleep;
use unslide_store::outbox::Relay;
use unslide_stream::ByteBound;

/// Interval at which the outbox is polled without a notification.
const OUTBOX_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which a process checks whether another one still holds the relay, and the pause after a
/// failure.
const STANDBY_INTERVAL: Duration = Duration::from_secs(2);

/// Runs the relay until the shutdown begins.
pub(crate) async fn run_relay(resources: &RelayResources) {
    let stopping = resources.shutdown.token().clone();
    // They outlive the lock, which is released whenever Kafka or the database fails.
    let mut bound = ByteBound::unbounded();
    let (mut search, mut maintenance) = (MissedSearch::new(), Maintenance::default());
    while !stopping.is_cancelled() {
        let held = match Relay::acquire(&resources.storage.store).await {
            // One process runs the relay, however many builders there are.
            Ok(Some(relay)) => tokio::select! {
                served = serve_outbox(resources, relay, &mut bound) => served,
                () = search.run(resources) => Ok(()),
                () = maintenance.run(resources) => Ok(()),
            },
            Ok(None) => {
                // Only the figure of the process that runs the relay counts.
                resources.metrics.missed_wakes.set(0);
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
            () = sleep(STANDBY_INTERVAL) => {}
        }
    }
}

/// Sends until the shutdown begins or a step fails. Then the lock is released, and the next process that
/// holds it starts with the messages that are not marked as sent.
async fn serve_outbox(
    resources: &RelayResources,
    relay: Relay,
    bound: &mut ByteBound,
) -> Result<(), JobFailure> {
    let stopping = resources.shutdown.token().clone();
    let mut notifications = resources.notifications.subscribe_outbox();
    let mut sender = Sender { resources, relay, producer: None, bound };
    tracing::info!("this process sends the outbox");
    while !stopping.is_cancelled() {
        notifications.mark_seen();
        let has_more = tokio::select! {
            has_more = sender.send_next() => has_more?,
            // The transaction in flight is aborted, and the next relay sends its messages.
            () = wait_overdue(resources) => return Ok(()),
        };
        if !has_more {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = notifications.wait_for_change(OUTBOX_POLL_INTERVAL) => {}
            }
        }
    }
    Ok(())
}

/// Returns once the service stops and the time to wait for Kafka is over.
async fn wait_overdue(resources: &RelayResources) {
    resources.shutdown.wait_until_begun().await;
    sleep(resources.shutdown.drain_timeout() / 10).await;
}

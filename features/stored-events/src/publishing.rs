//! Sends the events of tenants to Kafka, beside the requests of the api.
//!
//! Every process of the api runs it. The database gives each tenant to one process at a time. An event is deleted after all in-sync
//! replicas have it: a process that ends in between leaves it to the next one, which sends it again with the same number.

use crate::record::build_record;
use crate::store::{self, ClaimedTurn, TurnEnd};
use prometheus::IntGauge;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::tenant_turns::{TenantWork, grow_pause};
use unslide_api::feature::{Broker, OutcomeCounts};
use unslide_model::{TenantId, format_causes};
use unslide_store::{Result, Store, StoreError};
use unslide_stream::{OutRecord, StreamError};

/// Timeout of a turn. Shorter than its lease.
const TURN_TIMEOUT: Duration = Duration::from_secs(90);
/// Events that are sent at once, and how often in a turn.
const BATCH_LIMIT: u16 = 500;
const BATCHES_LIMIT: usize = 40;
/// The pause after a turn that failed, which doubles up to the longest.
const FIRST_RETRY_INTERVAL: time::Duration = time::Duration::seconds(1);
const RETRY_INTERVAL_MAX: time::Duration = time::Duration::minutes(1);

/// The reason for which a turn ended before all events were sent.
#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error("a topic is missing, or has settings that lose records")]
    Topics,
    #[error(transparent)]
    Kafka(#[from] StreamError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("Kafka and the database took longer than {} s", TURN_TIMEOUT.as_secs())]
    TimedOut,
}

/// Sends the events of all tenants.
pub struct EventPublisher {
    broker: Arc<Broker>,
    outcomes: Arc<OutcomeCounts>,
    lag: IntGauge,
}

impl TenantWork for EventPublisher {
    const CONCURRENT_TENANTS_LIMIT: usize = 4;
    const LOOK_FAILURE: &'static str = "due events about stored reports could not be looked for";

    async fn list_due(&self, last: &str, limit: u16) -> Result<Vec<TenantId>> {
        let oldest = store::find_oldest(self.store()).await?;
        self.lag.set(oldest.map_or(0, |at| (self.store().now() - at).whole_seconds().max(0)));
        match oldest {
            Some(_) => store::list_due(self.store(), last, limit).await,
            None => Ok(Vec::new()),
        }
    }

    async fn take_turn(&self, tenant: &TenantId) {
        if let Err(error) = self.publish_for_tenant(tenant).await {
            tracing::warn!(%error, %tenant, "a turn of events about stored reports could not be claimed or recorded");
        }
    }
}

impl EventPublisher {
    pub fn new(broker: Arc<Broker>, outcomes: Arc<OutcomeCounts>, lag: IntGauge) -> EventPublisher {
        EventPublisher { broker, outcomes, lag }
    }

    fn store(&self) -> &Store {
        &self.broker.storage.store
    }

    async fn publish_for_tenant(&self, tenant: &TenantId) -> Result<()> {
        let mut tx = self.store().tenant(tenant).await?;
        let claimed = store::claim_turn(&mut tx).await?;
        tx.commit().await?;
        let Some(claimed) = claimed else { return Ok(()) };
        let ended = tokio::time::timeout(TURN_TIMEOUT, self.send_waiting(tenant, &claimed)).await;
        let failure = ended.unwrap_or(Err(PublishError::TimedOut)).err();
        if let Some(failure) = &failure {
            let error = format_causes(failure);
            tracing::warn!(error, %tenant, "events about stored reports could not be sent; they are tried again");
            self.outcomes.add("failed", 1);
        }
        let mut tx = self.store().tenant(tenant).await?;
        store::finish_turn(&mut tx, &claimed, end_turn(failure.is_some(), claimed.failures)).await?;
        tx.commit().await
    }

    /// Sends what waits, batch by batch. The rest of a long queue is sent in the next turn.
    async fn send_waiting(
        &self,
        tenant: &TenantId,
        claimed: &ClaimedTurn,
    ) -> std::result::Result<(), PublishError> {
        for _ in 0..BATCHES_LIMIT {
            let mut tx = self.store().tenant(tenant).await?;
            let events = store::list_waiting(&mut tx, claimed.is_deleted, BATCH_LIMIT).await?;
            tx.rollback().await?;
            if events.is_empty() {
                return Ok(());
            }
            self.broker.check_topics().map_err(|_| PublishError::Topics)?;
            let topic = &self.broker.topics.stored;
            let records: Vec<OutRecord> =
                events.iter().map(|event| build_record(topic, tenant, event)).collect();
            self.broker.producer.send_all(&records).await?;
            let mut tx = self.store().tenant(tenant).await?;
            store::delete_sent(&mut tx, &events).await?;
            tx.commit().await?;
            self.outcomes.add("sent", events.len());
            if events.len() < usize::from(BATCH_LIMIT) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Returns the end of a turn after `failures` turns in a row that failed.
fn end_turn(has_failed: bool, failures: i32) -> TurnEnd {
    if !has_failed {
        return TurnEnd { pause: time::Duration::ZERO, failures: 0 };
    }
    let further = u32::try_from(failures).unwrap_or_default();
    let pause = grow_pause(FIRST_RETRY_INTERVAL, 2, further, RETRY_INTERVAL_MAX);
    TurnEnd { pause, failures: failures.saturating_add(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_after_failures_grows_to_a_minute_and_ends_with_the_first_success() {
        let pauses: Vec<i64> = [0, 1, 5, 6, i32::MAX].map(|n| end_turn(true, n).pause.whole_seconds()).into();
        assert_eq!(pauses, [1, 2, 32, 60, 60]);
        let end = end_turn(false, 9);
        assert!(end.pause.is_zero() && end.failures == 0, "{end:?}");
    }
}

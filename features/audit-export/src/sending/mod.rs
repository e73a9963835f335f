//! Sends the audit logs of tenants to their receivers, beside the requests of the api.
//!
//! Every process of the api runs it. The database gives each receiver to one process at a time. The place of a receiver moves after it has
//! taken entries: a process that ends in between sends them again, with the same ids. Entries of a receiver are sent in the order of their
//! places, and one that it does not take is never left out.

mod client;
mod delivery;
mod syslog;
mod tls_stream;
mod webhook;

pub use client::DeliveryClient;
pub use delivery::{AuditExchange, SentEntries};
pub use tls_stream::read_authority;

use crate::AuditExport;
use crate::store::{self, ClaimedReceiver};
use crate::target::{ReceiverTarget, SEALING_KEY, TargetOwner};
use delivery::AuditDeliveryFailure;
use futures::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::tenant_turns::{TenantWork, retry_pause};
use unslide_model::TenantId;
use unslide_store::audit::list_entries_after;
use unslide_store::{Result, Store, StoreError};

/// Timeout of a turn. Shorter than its lease.
const TURN_TIMEOUT: Duration = Duration::from_secs(120);
/// Entries that are sent at once, and how often in a turn.
const BATCH_LIMIT: u32 = 100;
const BATCHES_LIMIT: usize = 20;
/// The longest pause after a failure, and the longest one that a receiver may ask for.
const RETRY_INTERVAL_MAX: time::Duration = time::Duration::minutes(5);
const WANTED_INTERVAL_MAX: time::Duration = time::Duration::hours(1);

/// The reason for which a turn ended before all entries were sent.
enum TurnFailure {
    Receiver(AuditDeliveryFailure),
    Store(StoreError),
    /// The receiver was set again or removed, or another process has the turn.
    Superseded,
}

impl From<StoreError> for TurnFailure {
    fn from(error: StoreError) -> TurnFailure {
        TurnFailure::Store(error)
    }
}

/// Sends the logs of all tenants.
pub struct AuditSender {
    audit_export: Arc<AuditExport>,
    store: Store,
}

impl TenantWork for AuditSender {
    const CONCURRENT_TENANTS_LIMIT: usize = 16;
    const LOOK_FAILURE: &'static str = "due exports of audit logs could not be looked for";

    async fn list_due(&self, last: &str, limit: u16) -> Result<Vec<TenantId>> {
        if let Some(gauge) = self.audit_export.lag.get() {
            let oldest = store::oldest_unsent(&self.store).await?;
            gauge.set(oldest.map_or(0, |at| (self.store.now() - at).whole_seconds().max(0)));
        }
        store::list_due(&self.store, last, limit).await
    }

    async fn take_turn(&self, tenant: &TenantId) {
        if let Err(error) = self.send_for_tenant(tenant).await {
            tracing::warn!(%error, %tenant, "an export of an audit log could not be claimed or recorded");
        }
    }
}

impl AuditSender {
    pub fn new(audit_export: Arc<AuditExport>, store: Store) -> AuditSender {
        AuditSender { audit_export, store }
    }

    /// Sends to all receivers of a tenant at once, so that none waits for another.
    async fn send_for_tenant(&self, tenant: &TenantId) -> Result<()> {
        let mut tx = self.store.tenant(tenant).await?;
        let claimed = store::claim_receivers(&mut tx).await?;
        tx.commit().await?;
        let turns = claimed.iter().map(|receiver| self.take_receiver_turn(tenant, receiver));
        join_all(turns).await.into_iter().collect()
    }

    async fn take_receiver_turn(&self, tenant: &TenantId, receiver: &ClaimedReceiver) -> Result<()> {
        let mut position = receiver.position;
        let turn = self.send_entries(tenant, receiver, &mut position);
        let ended = tokio::time::timeout(TURN_TIMEOUT, turn).await;
        let has_sent = position > receiver.position;
        let failure = match ended {
            Ok(Ok(())) => None,
            Ok(Err(TurnFailure::Superseded)) => return Ok(()),
            Ok(Err(TurnFailure::Receiver(failure))) => Some(failure),
            Ok(Err(TurnFailure::Store(error))) => {
                tracing::warn!(%error, %tenant, "an audit log could not be read for its export");
                Some(AuditDeliveryFailure::new("This service cannot read the audit log now"))
            }
            // The rest is sent in the next turn.
            Err(_) if has_sent => None,
            Err(_) => Some(AuditDeliveryFailure::new(
                "The receiver or this service is too slow: nothing was sent in time",
            )),
        };
        let failures = if has_sent { 0 } else { receiver.failures };
        let pause = failure.as_ref().map_or(time::Duration::ZERO, |failure| choose_pause(failure, failures));
        self.audit_export.outcomes.add("failed", usize::from(failure.is_some()));
        let mut tx = self.store.tenant(tenant).await?;
        let problem = failure.as_ref().map(|failure| failure.text.as_str());
        store::finish_turn(&mut tx, receiver, pause, problem).await?;
        tx.commit().await
    }

    /// Sends entries until the receiver has all of them, or has had its share of turns. `position` follows what it took.
    async fn send_entries(
        &self,
        tenant: &TenantId,
        receiver: &ClaimedReceiver,
        position: &mut i64,
    ) -> std::result::Result<(), TurnFailure> {
        let target = self.audit_export.open_target(tenant, receiver).map_err(TurnFailure::Receiver)?;
        for _ in 0..BATCHES_LIMIT {
            let mut tx = self.store.tenant(tenant).await?;
            if !store::is_current_turn(&mut tx, receiver).await? {
                return Err(TurnFailure::Superseded);
            }
            let entries = list_entries_after(&mut tx, *position, BATCH_LIMIT).await?;
            tx.commit().await?;
            let Some(last) = entries.last().and_then(|entry| entry.position) else { return Ok(()) };
            let sent = SentEntries { tenant, entries: &entries, at: self.store.now() };
            let exchange = self.audit_export.client.deliver(&target, &sent).await;
            exchange.outcome.map_err(TurnFailure::Receiver)?;
            let mut tx = self.store.tenant(tenant).await?;
            let is_recorded = store::record_sent(&mut tx, receiver, last).await?;
            tx.commit().await?;
            if !is_recorded {
                return Err(TurnFailure::Superseded);
            }
            *position = last;
            self.audit_export.outcomes.add("sent", entries.len());
        }
        Ok(())
    }
}

impl AuditExport {
    /// Returns the target of a receiver.
    fn open_target(
        &self,
        tenant: &TenantId,
        receiver: &ClaimedReceiver,
    ) -> std::result::Result<ReceiverTarget, AuditDeliveryFailure> {
        let owner = TargetOwner { tenant, kind: receiver.kind, shown_address: &receiver.shown_address };
        self.open_sealed(owner, &receiver.sealed_target).map_err(AuditDeliveryFailure::new)
    }

    /// Decrypts a target.
    ///
    /// # Errors
    /// Returns why it cannot be used, for the tenant.
    pub fn open_sealed(
        &self,
        owner: TargetOwner<'_>,
        sealed: &[u8],
    ) -> std::result::Result<ReceiverTarget, String> {
        let missing = || format!("the operator of the service has removed {SEALING_KEY}");
        let sealer = self.sealer.as_ref().ok_or_else(missing)?;
        sealer.open_target(owner, sealed).map_err(|error| error.to_string())
    }
}

/// Returns the pause after a failure that follows a number of others.
fn choose_pause(failure: &AuditDeliveryFailure, failures: i32) -> time::Duration {
    let usual = retry_pause(failures.saturating_add(1)).min(RETRY_INTERVAL_MAX);
    failure.pause.map_or(usual, |wanted| wanted.clamp(usual, WANTED_INTERVAL_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_a_receiver_may_ask_for_longer_ones() {
        let pause = |wanted: Option<i64>, failures| {
            let pause = wanted.map(time::Duration::seconds);
            choose_pause(&AuditDeliveryFailure { text: String::new(), pause }, failures).whole_seconds()
        };
        assert_eq!(
            [0, 1, 2, 3, 4, i32::MAX].map(|failures| pause(None, failures)),
            [10, 30, 90, 270, 300, 300]
        );
        assert_eq!([1, 60, 100_000].map(|wanted| pause(Some(wanted), 0)), [10, 60, 3_600]);
    }
}

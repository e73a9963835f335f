//! Asks Apple for submissions, beside the requests of the api.
//!
//! Every process of the api runs it. The database gives each tenant to one process at a time. A submission is recorded as sent
//! after the broker has its report: a process that ends in between sends the same report again, which the store
//! recognises by its id.

mod failure;
mod lists;
mod logs;

use crate::Inbox;
use crate::apple::AppleKey;
use crate::sealing::AppleKeyOwner;
use crate::store::{self, InboxApp, InboxKey, PollEnd};
use failure::TurnFailure;
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::tenant_turns::TenantWork;
use unslide_api::feature::{Broker, Symbolication};
use unslide_model::{Clock, TenantId};
use unslide_proto::trace::Ids;
use unslide_store::{Result, Store};

/// Timeout of a turn. Shorter than its lease.
const TURN_TIMEOUT: Duration = Duration::from_secs(300);
/// The interval between two polls of a tenant.
const POLL_INTERVAL: time::Duration = time::Duration::minutes(15);
/// The interval if there is more to do.
const NEXT_TURN_INTERVAL: time::Duration = time::Duration::seconds(30);

/// Asks Apple for the submissions of all tenants.
pub struct Poller {
    inbox: Arc<Inbox>,
    broker: Arc<Broker>,
    symbolication: Arc<Symbolication>,
    ids: Ids,
}

impl TenantWork for Poller {
    const CONCURRENT_TENANTS_LIMIT: usize = 4;
    const LOOK_FAILURE: &'static str = "due TestFlight inboxes could not be looked for";

    async fn list_due(&self, _: &str, limit: u16) -> Result<Vec<TenantId>> {
        store::list_due(self.store(), limit).await
    }

    async fn take_turn(&self, tenant: &TenantId) {
        if let Err(error) = self.poll_tenant(tenant).await {
            tracing::warn!(error = %error, %tenant, "a poll of a TestFlight inbox could not be claimed or recorded");
        }
    }
}

impl Poller {
    pub fn new(inbox: Arc<Inbox>, broker: &Arc<Broker>, symbolication: &Arc<Symbolication>) -> Poller {
        let (broker, symbolication) = (broker.clone(), symbolication.clone());
        Poller { inbox, broker, symbolication, ids: Ids::default() }
    }

    fn store(&self) -> &Store {
        &self.broker.storage.store
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.broker.storage.clock
    }

    async fn poll_tenant(&self, tenant: &TenantId) -> Result<()> {
        let mut tx = self.store().tenant(tenant).await?;
        let Some(key) = store::claim_poll(&mut tx).await? else { return tx.commit().await };
        let apps = store::list_apps(&mut tx).await?;
        tx.commit().await?;
        let turn = tokio::time::timeout(TURN_TIMEOUT, self.poll_apps(tenant, &key, apps)).await;
        let end = match turn {
            Ok(Ok(pause)) => PollEnd { pause, is_held: false, problem: None },
            Ok(Err(failure)) => failure.into_end(key.failures, tenant),
            Err(_) => PollEnd { pause: NEXT_TURN_INTERVAL, is_held: false, problem: None },
        };
        self.inbox.outcomes.add(if end.problem.is_none() { "polled" } else { "failed" }, 1);
        let mut tx = self.store().tenant(tenant).await?;
        store::finish_poll(&mut tx, &key, &end).await?;
        store::delete_orphans(&mut tx).await?;
        tx.commit().await
    }

    /// Reads the lists of the apps, and sends crash logs. Returns the pause until the next poll.
    async fn poll_apps(
        &self,
        tenant: &TenantId,
        key: &InboxKey,
        mut apps: Vec<InboxApp>,
    ) -> Result<time::Duration, TurnFailure> {
        if key.expires_at.is_some_and(|end| end <= self.clock().now()) {
            return Err(TurnFailure::Expired);
        }
        let client = self.inbox.client.as_ref().ok_or(TurnFailure::NoTls)?;
        let sealer = self.inbox.sealer.as_ref().ok_or(TurnFailure::NoSealer)?;
        let owner = AppleKeyOwner { tenant, key_id: &key.key_id };
        let pem = sealer.open(owner, &key.sealed_key)?;
        let apple_key = AppleKey::from_pem(key.issuer_id.as_deref(), &key.key_id, &pem)?;
        let mut session = client.with_key(&apple_key, self.clock());
        self.look_apps_up(tenant, &mut session, &mut apps).await?;
        let mut wrong_app = None;
        for app in &apps {
            if let Some(failure) = self.read_list(tenant, &mut session, app).await? {
                wrong_app = wrong_app.or(Some(failure));
            }
        }
        let is_more = self.send_logs(tenant, &mut session).await?;
        match wrong_app {
            Some(failure) => Err(failure),
            None => Ok(if is_more { NEXT_TURN_INTERVAL } else { POLL_INTERVAL }),
        }
    }
}

//! The work on tickets, beside the requests of the api.
//!
//! Every process of the api runs it. The database gives each request to one process at a time. A ticket is made at most once: a
//! request that may have made one is recorded before it is sent, and its marker is searched for before another one is sent.

mod create;
mod current;
mod failure;
mod follow;

use crate::Tickets;
use crate::store::{self, ClaimedRequest, TicketAction, TrackerRow};
use crate::trackers::{TrackerAccount, TrackerCall, TrackerClient, TrackerProtocol};
use current::CurrentTicket;
use failure::WorkFailure;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use unslide_api::feature::Symbolication;
use unslide_api::feature::tenant_turns::TenantWork;
use unslide_model::TenantId;
use unslide_store::groups::GroupActor;
use unslide_store::{Result, Store};

/// Requests of a tenant's turn.
const TURN_REQUESTS_LIMIT: usize = 20;
/// Timeout of the work on a request. Shorter than its lease.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(90);

/// Works on the tickets of all tenants.
pub struct TicketWorker {
    tickets: Arc<Tickets>,
    symbolication: Arc<Symbolication>,
}

/// A request with its tracker, its ticket and its group.
struct Job<'j> {
    tenant: &'j TenantId,
    request: &'j ClaimedRequest,
    row: TrackerRow,
    /// As they were when the work began.
    begun: CurrentTicket,
    protocol: &'static dyn TrackerProtocol,
    account: TrackerAccount,
    client: &'j TrackerClient,
}

impl Job<'_> {
    async fn send(&self, call: &TrackerCall) -> std::result::Result<Value, WorkFailure> {
        Ok(self.client.send(self.protocol, &self.account, call).await?)
    }

    /// Returns the author of changes of the group.
    fn actor(&self) -> GroupActor<'_> {
        GroupActor { actor: crate::NAME, name: Some(&self.row.name) }
    }
}

/// The end of the work on a request.
enum WorkEnd {
    Done(&'static str),
    /// It goes on after a pause: a ticket may still appear.
    Wait(time::Duration),
}

impl TenantWork for TicketWorker {
    const CONCURRENT_TENANTS_LIMIT: usize = 4;
    const LOOK_FAILURE: &'static str = "due work on tickets could not be looked for";

    async fn list_due(&self, last: &str, limit: u16) -> Result<Vec<TenantId>> {
        store::list_due(self.store(), last, limit).await
    }

    async fn take_turn(&self, tenant: &TenantId) {
        if let Err(error) = self.work_for(tenant).await {
            tracing::warn!(error = %error, %tenant, "work on tickets could not be claimed or recorded");
        }
    }
}

impl TicketWorker {
    pub fn new(tickets: Arc<Tickets>, symbolication: &Arc<Symbolication>) -> TicketWorker {
        TicketWorker { tickets, symbolication: symbolication.clone() }
    }

    fn store(&self) -> &Store {
        &self.symbolication.storage.store
    }

    async fn work_for(&self, tenant: &TenantId) -> Result<()> {
        let mut tx = self.store().tenant(tenant).await?;
        store::add_tickets_by_rule(&mut tx).await?;
        tx.commit().await?;
        let end = Instant::now() + Duration::from_millis(self.tickets.settings.turn_millis);
        for _ in 0..TURN_REQUESTS_LIMIT {
            let mut tx = self.store().tenant(tenant).await?;
            let Some(request) = store::claim_request(&mut tx).await? else { return tx.commit().await };
            tx.commit().await?;
            let work = tokio::time::timeout(REQUEST_TIMEOUT, self.work_on(tenant, &request)).await;
            let outcome = match work {
                Ok(Ok(WorkEnd::Done(outcome))) => outcome,
                Ok(Ok(WorkEnd::Wait(pause))) => {
                    let mut tx = self.store().tenant(tenant).await?;
                    store::postpone_request(&mut tx, &request, pause, Some(request.attempts - 1)).await?;
                    tx.commit().await?;
                    "postponed"
                }
                Ok(Err(failure)) => self.record_failure(tenant, &request, failure).await?,
                Err(_) => self.record_failure(tenant, &request, WorkFailure::TooLong).await?,
            };
            self.tickets.outcomes.add(outcome, 1);
            // A tracker that is slow gives the worker to the next tenant.
            if Instant::now() >= end {
                break;
            }
        }
        Ok(())
    }

    async fn work_on(
        &self,
        tenant: &TenantId,
        request: &ClaimedRequest,
    ) -> std::result::Result<WorkEnd, WorkFailure> {
        let Some(job) = self.load_job(tenant, request).await? else { return Ok(WorkEnd::Done("failed")) };
        let end = match request.action {
            TicketAction::Create => self.create_ticket(&job).await?,
            TicketAction::Read => self.read_ticket(&job).await?,
            TicketAction::Reopen => self.reopen_ticket(&job).await?,
        };
        if job.row.problem.is_some() || job.row.failures > 0 || job.row.not_before.is_some() {
            let mut tx = self.store().tenant(tenant).await?;
            store::release_tracker(&mut tx, &job.row.name).await?;
            tx.commit().await?;
        }
        Ok(end)
    }

    /// Loads everything that a request needs. Returns None if its group, its ticket or its tracker is gone: then the request is, too.
    async fn load_job<'j>(
        &'j self,
        tenant: &'j TenantId,
        request: &'j ClaimedRequest,
    ) -> std::result::Result<Option<Job<'j>>, WorkFailure> {
        let mut tx = self.store().tenant(tenant).await?;
        let row = store::get_tracker(&mut tx, &request.tracker).await?;
        let begun = CurrentTicket::lock_current(&mut tx, request).await?;
        let (Some(row), Some(begun)) = (row, begun) else {
            store::drop_request(&mut tx, request).await?;
            tx.commit().await?;
            return Ok(None);
        };
        tx.commit().await?;
        let client = self.tickets.client.as_ref().ok_or(WorkFailure::NoTls)?;
        let account = self.tickets.open_account(tenant, &row).map_err(WorkFailure::Account)?;
        let protocol = row.kind.protocol();
        Ok(Some(Job { tenant, request, row, begun, protocol, account, client }))
    }
}

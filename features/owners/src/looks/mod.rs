//! Looks for the owners of groups, beside the requests of the api.
//!
//! Every process of the api looks. The database gives each group that is due to one process at a time, and takes a result
//! only if nothing has made it old. After a look that fails the group stays due; the others of its batch do not notice.

mod batch;
mod cause;

use batch::{LookBatch, UnfinishedLook};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use unslide_api::feature::operation::Problem;
use unslide_api::feature::tenant_turns::TenantWork;
use unslide_api::feature::{OutcomeCounts, Symbolication};
use unslide_model::TenantId;

use crate::store;

/// The interval between two searches for groups that are due.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Groups that are claimed together.
const BATCH_LIMIT: u16 = 50;
/// Batches of one tenant, and the time after which none is begun, before others have their turn.
const BATCHES_LIMIT: usize = 20;
const TURN_TIME_LIMIT: Duration = Duration::from_secs(10);

/// Looks for the owners of groups of all tenants.
pub struct OwnerSearch {
    symbolication: Arc<Symbolication>,
    outcomes: Arc<OutcomeCounts>,
}

impl OwnerSearch {
    pub fn new(symbolication: &Arc<Symbolication>, outcomes: &Arc<OutcomeCounts>) -> OwnerSearch {
        OwnerSearch { symbolication: symbolication.clone(), outcomes: outcomes.clone() }
    }

    /// Looks at the next groups of a tenant. Returns false if there are none.
    async fn look_at_batch(&self, tenant: &TenantId) -> Result<bool, Problem> {
        let storage = &self.symbolication.storage;
        let mut tx = storage.tenant(tenant).await?;
        store::make_groups_due(&mut tx).await?;
        tx.commit().await?;
        let mut tx = storage.tenant(tenant).await?;
        let due = store::claim_groups(&mut tx, BATCH_LIMIT).await?;
        if due.is_empty() {
            tx.rollback();
            return Ok(false);
        }
        let mut batch = LookBatch::read(&self.symbolication, tenant, &mut tx).await?;
        tx.commit().await?;
        for one in due {
            let outcome = match batch.look_at(&one).await {
                Ok(outcome) => outcome.as_str(),
                Err(UnfinishedLook::Old) => "old",
                Err(UnfinishedLook::Failed(problem)) => {
                    let mut tx = storage.tenant(tenant).await?;
                    let is_given_up = store::record_failed_look(&mut tx, &one).await?;
                    tx.commit().await?;
                    tracing::info!(error = %problem, %tenant, group = %one.group, is_given_up, "a look for the owner of a group failed");
                    if is_given_up { "given_up" } else { "failed" }
                }
            };
            self.outcomes.add(outcome, 1);
        }
        batch.finish_unchanged().await?;
        Ok(true)
    }
}

impl TenantWork for OwnerSearch {
    const CONCURRENT_TENANTS_LIMIT: usize = 2;
    const LOOK_FAILURE: &'static str = "groups whose owner is due could not be looked for";

    async fn list_due(&self, last: &str, limit: u16) -> unslide_store::Result<Vec<TenantId>> {
        store::list_due_tenants(&self.symbolication.storage.store, last, limit).await
    }

    async fn take_turn(&self, tenant: &TenantId) {
        let end = Instant::now() + TURN_TIME_LIMIT;
        for _ in 0..BATCHES_LIMIT {
            if Instant::now() > end {
                break;
            }
            match self.look_at_batch(tenant).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(problem) => {
                    tracing::warn!(error = %problem, %tenant, "groups whose owner is due could not be claimed");
                    break;
                }
            }
        }
    }
}

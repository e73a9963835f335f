//! Looks for the owners of groups, beside the requests of the api.
//!
//! Every process of the api looks. The database gives each group that is due to one process at a time, and takes a result
//! only if nothing has made it old. A group whose look fails stays due; the others of its batch do not notice.

mod batch;
mod cause;

use batch::LookBatch;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use unslide_api::feature::operation::Problem;
use unslide_api::feature::{OutcomeCounts, Symbolication};
use unslide_model::TenantId;

use crate::store;

/// The interval between two searches for groups that are due.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Tenants whose groups a process looks at, at the same time.
const CONCURRENT_TENANTS_LIMIT: usize = 2;
/// Tenants that one search gives.
const TENANTS_LIMIT: u16 = 20;
/// Groups that are claimed together.
const BATCH_LIMIT: u16 = 50;
/// Batches of one tenant before others have their turn.
const BATCHES_LIMIT: usize = 4;

/// Looks for the owners of groups of all tenants.
pub struct OwnerSearch {
    symbolication: Arc<Symbolication>,
    outcomes: Arc<OutcomeCounts>,
}

impl OwnerSearch {
    pub fn new(symbolication: &Arc<Symbolication>, outcomes: &Arc<OutcomeCounts>) -> OwnerSearch {
        OwnerSearch { symbolication: symbolication.clone(), outcomes: outcomes.clone() }
    }

    /// Begins to look, until `stop`. What is under way then ends with its process, and goes on after its lease.
    pub fn start(self, stop: CancellationToken) -> JoinHandle<()> {
        let search = Arc::new(self);
        tokio::spawn(async move {
            let (mut looks, mut tenants) = (JoinSet::new(), BTreeSet::new());
            let mut last = String::new();
            while tokio::time::timeout(LOOK_INTERVAL, stop.cancelled()).await.is_err() {
                while let Some(ended) = looks.try_join_next() {
                    match ended {
                        Ok(tenant) => drop(tenants.remove(&tenant)),
                        // Which one it was is not known: forget them all, the database keeps them apart.
                        Err(_) => tenants.clear(),
                    }
                }
                match store::list_due_tenants(&search.symbolication.storage.store, &last, TENANTS_LIMIT).await
                {
                    Ok(due) => {
                        for tenant in due {
                            if looks.len() < CONCURRENT_TENANTS_LIMIT && tenants.insert(tenant.clone()) {
                                tenant.as_str().clone_into(&mut last);
                                looks.spawn(search.clone().look_for(tenant));
                            }
                        }
                    }
                    Err(error) => {
                        tracing::warn!(error = %error, "groups whose owner is due could not be looked for");
                    }
                }
            }
        })
    }

    /// Looks at groups of a tenant, and returns it.
    async fn look_for(self: Arc<OwnerSearch>, tenant: TenantId) -> TenantId {
        for _ in 0..BATCHES_LIMIT {
            match self.look_at_batch(&tenant).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(problem) => {
                    tracing::warn!(error = %problem, %tenant, "groups whose owner is due could not be claimed");
                    break;
                }
            }
        }
        tenant
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
                Err(problem) => {
                    tracing::info!(error = %problem, %tenant, group = %one.group, "a look for the owner of a group is repeated");
                    let mut tx = storage.tenant(tenant).await?;
                    store::record_failed_look(&mut tx, &one).await?;
                    tx.commit().await?;
                    "failed"
                }
            };
            self.outcomes.add(outcome, 1);
        }
        Ok(true)
    }
}

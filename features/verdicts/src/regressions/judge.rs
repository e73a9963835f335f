//! Judges the groups that wait, by turns of their tenants.

use crate::fix::{DAYS_AFTER, GroupFixState, judge_group};
use crate::store::{self, RegressionRule};
use unslide_api::feature::tenant_turns::TenantWork;
use unslide_model::TenantId;
use unslide_store::groups::{Contradiction, GroupStatus};
use unslide_store::queries::groups::{ListedGroup, find_group};
use unslide_store::reports::return_group;
use unslide_store::{Result, Store, TenantTx};

/// Judges the groups of all tenants.
pub struct RegressionJudge {
    store: Store,
}

impl RegressionJudge {
    pub fn new(store: Store) -> RegressionJudge {
        RegressionJudge { store }
    }

    async fn judge_for_tenant(&self, tenant: &TenantId) -> Result<()> {
        let mut tx = self.store.tenant(tenant).await?;
        let claimed = store::claim_held(&mut tx).await?;
        tx.commit().await?;
        for found in claimed {
            let mut tx = self.store.tenant(tenant).await?;
            judge_held(&mut tx, &found).await?;
            tx.commit().await?;
        }
        Ok(())
    }
}

impl TenantWork for RegressionJudge {
    const CONCURRENT_TENANTS_LIMIT: usize = 4;
    const LOOK_FAILURE: &'static str = "groups that wait for a verdict could not be looked for";

    async fn list_due(&self, last: &str, limit: u16) -> Result<Vec<TenantId>> {
        store::list_due(&self.store, last, limit).await
    }

    async fn take_turn(&self, tenant: &TenantId) {
        if let Err(error) = self.judge_for_tenant(tenant).await {
            tracing::warn!(%error, %tenant, "a group could not be judged by its verdict");
        }
    }
}

/// Opens a group that is not fixed, and one that no verdict can come for any more. One that is not resolved any more waits for nothing, and
/// neither does one that is fixed in spite of the report.
async fn judge_held(tx: &mut TenantTx, found: &Contradiction) -> Result<()> {
    let group = find_group(tx, found.group, None).await?;
    let is_resolved =
        |group: &ListedGroup| group.status == GroupStatus::Resolved && group.merged_into.is_none();
    let Some(group) = group.filter(is_resolved) else {
        return store::release(tx, &[found.group]).await;
    };
    let now = tx.now();
    let verdict = judge_group(tx, &group, now.date()).await?;
    let may_change = group.resolved_at.is_some_and(|at| now < at + DAYS_AFTER)
        && verdict.sessions_before > 0
        && verdict.hint != Some(store::NO_SESSIONS);
    let comes_back = match verdict.verdict {
        GroupFixState::Fixed => false,
        GroupFixState::TooEarly if may_change && store::read_rule(tx).await? == RegressionRule::NotFixed => {
            return Ok(());
        }
        GroupFixState::NotFixed | GroupFixState::TooEarly | GroupFixState::NotResolved => true,
    };
    // The end of its wait is one of the events of a group that comes back.
    if comes_back && return_group(tx, &Contradiction { group: group.id, ..found.clone() }).await? {
        return Ok(());
    }
    store::release(tx, &[found.group]).await
}

//! Folds what stored reports add to the counts of groups into these counts.

use crate::metrics::Metrics;
use std::collections::BTreeMap;
use time::Duration;
use unslide_model::{TenantId, format_causes};
use unslide_store::deltas::{self, DueDeltas};
use unslide_store::{GroupId, Store, StoreError};

/// Number of a group's rows at which they are folded. One write of a count is for many reports then, and readers add few rows.
const FOLD_ROWS: u64 = 32;
/// Age at which a row is folded anyway. The counts of a group with fewer reports are written once in this time.
const FOLD_INTERVAL: Duration = Duration::DAY;
/// Number of groups that one round folds.
const FOLD_ROUND_GROUPS: u32 = 10_000;
/// Number of rows that one transaction folds. It holds the locks of their groups, for which stored reports wait.
const FOLD_TRANSACTION_ROWS: u32 = 2_000;

/// Folds the rows of groups that have many or old ones. Each transaction moves rows as a whole, so that an end at any step
/// loses and doubles nothing. Until then readers add the rows, also if no indexer runs.
///
/// # Errors
/// Returns the first failure. A failure for one tenant does not stop the work for the others.
pub async fn fold_due(store: &Store, metrics: &Metrics) -> Result<(), StoreError> {
    let now = store.clock().now();
    let due = deltas::list_due(store, FOLD_ROWS, now - FOLD_INTERVAL, FOLD_ROUND_GROUPS).await?;
    metrics.set_unfolded_age(&due, now);
    let mut by_tenant: BTreeMap<TenantId, Vec<DueDeltas>> = BTreeMap::new();
    for one in due {
        by_tenant.entry(one.tenant.clone()).or_default().push(one);
    }
    let mut failed = None;
    for (tenant, due) in &by_tenant {
        match fold_tenant(store, tenant, due).await {
            // The cell that serves a tenant that is moving does it.
            Ok(()) | Err(StoreError::TenantMoving) => {}
            Err(error) if error.is_outage() => return Err(error),
            Err(error) => {
                let text = format_causes(&error);
                tracing::warn!(
                    error = text,
                    "the counts of a tenant's groups cannot be folded and are tried again"
                );
                failed.get_or_insert(error);
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

async fn fold_tenant(store: &Store, tenant: &TenantId, due: &[DueDeltas]) -> Result<(), StoreError> {
    let (mut groups, mut rows) = (Vec::new(), 0_u64);
    for (place, one) in due.iter().enumerate() {
        groups.push(one.group);
        rows += one.deltas;
        if rows >= u64::from(FOLD_TRANSACTION_ROWS) || place + 1 == due.len() {
            fold_pages(store, tenant, &groups).await?;
            groups.clear();
            rows = 0;
        }
    }
    Ok(())
}

async fn fold_pages(store: &Store, tenant: &TenantId, groups: &[GroupId]) -> Result<(), StoreError> {
    let mut more = true;
    while more {
        let mut tx = store.tenant(tenant).await?;
        more = deltas::fold_groups(&mut tx, groups, FOLD_TRANSACTION_ROWS).await?;
        tx.commit().await?;
    }
    Ok(())
}

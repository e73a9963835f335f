//! Asking for the reports that came before their symbols did.

use crate::failure::Failure;
use crate::pace::Turn;
use crate::worker::Builder;
use time::Duration;
use unslide_model::{DebugId, Owner};
use unslide_store::jobs::{self, Lease};
use unslide_store::{uploads, wakes};

/// Reports of one transaction.
const PAGE: u32 = 200;

/// Tenants of one question.
const TENANTS: u32 = 100;

/// While an upload of system symbols is under way, a job that wakes for them waits for so long, and
/// looks again.
const LATER: Duration = Duration::seconds(2);

/// An upload that has not moved for so long holds nobody up any more.
const PATIENCE: Duration = Duration::minutes(10);

/// Pages over the waits, a transaction each, no faster than is set. Begun anew it asks nobody twice: a
/// report has one request at a time.
pub(crate) async fn wake(
    builder: &Builder,
    job: &Lease,
    debug_id: &DebugId,
    generation: u64,
) -> Result<(), Failure> {
    let turn = Turn::of(builder);
    let mut from = None;
    loop {
        builder.waking.wait(&turn).await;
        let mut tx = builder.store.tenant(job.tenant()?).await?;
        let page = wakes::page(&mut tx, debug_id, generation, from, PAGE).await?;
        let next = page.next.filter(|_| !turn.is_over());
        if page.next.is_none() {
            jobs::complete(&mut tx, job).await?;
        } else if next.is_none() {
            jobs::postpone(&mut tx, job, Duration::ZERO).await?;
        }
        tx.commit().await?;
        builder.metrics.woken.inc_by(page.requested);
        builder.waking.asked(page.requested);
        match next {
            Some(next) => from = Some(next),
            None => return Ok(()),
        }
    }
}

/// The same for system symbols: for all that came, through the reports of all tenants that lack
/// any. What was done is noted by day and by debug id: begun anew it goes on with the rest.
pub(crate) async fn wake_system(builder: &Builder, job: &Lease) -> Result<(), Failure> {
    let turn = Turn::of(builder);
    loop {
        let mut tx = builder.store.owner(&Owner::System).await?;
        let since = tx.now() - PATIENCE;
        if uploads::under_way(&mut tx, since).await? {
            jobs::postpone(&mut tx, job, LATER).await?;
            return Ok(tx.commit().await?);
        }
        let arrived = wakes::system::arrived(&mut tx).await?;
        tx.rollback().await?;
        let mut after = None;
        loop {
            let tenants = wakes::system::tenants(&builder.store, &arrived, after.as_ref(), TENANTS).await?;
            let Some(last) = tenants.last() else { break };
            after = Some(last.clone());
            for tenant in &tenants {
                let mut from = None;
                loop {
                    builder.waking.wait(&turn).await;
                    let mut tx = builder.store.tenant(tenant).await?;
                    let page = match wakes::system::page(&mut tx, &arrived, from, PAGE).await {
                        // It waits for nothing any more, and the others do.
                        Err(unslide_store::StoreError::TenantDeleted) => break,
                        page => page?,
                    };
                    tx.commit().await?;
                    builder.metrics.woken.inc_by(page.requested);
                    builder.waking.asked(page.requested);
                    from = page.next;
                    if turn.is_over() {
                        let mut tx = builder.store.owner(&Owner::System).await?;
                        jobs::postpone(&mut tx, job, Duration::ZERO).await?;
                        return Ok(tx.commit().await?);
                    }
                    if from.is_none() {
                        break;
                    }
                }
            }
        }
        let mut tx = builder.store.owner(&Owner::System).await?;
        let more = wakes::system::done(&mut tx, &arrived).await?;
        if !more {
            jobs::complete(&mut tx, job).await?;
        }
        tx.commit().await?;
        if !more {
            return Ok(());
        }
    }
}

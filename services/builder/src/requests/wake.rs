//! Asking for the reports that came before their symbols did.

use crate::builder::Builder;
use crate::failure::JobFailure;
use crate::requests::pace::JobTurn;
use time::Duration;
use unslide_model::{DebugId, Owner, TenantId};
use unslide_store::jobs::{self, JobLease, Work};
use unslide_store::wakes::system::{Arrived, Resume, SystemWakeCursor};
use unslide_store::wakes::{self, WakeCursor};
use unslide_store::{captures, uploads};

/// Reports of one transaction.
const PAGE: u32 = 200;

/// Tenants of one question.
const TENANTS: u32 = 100;

/// While an upload of system symbols is under way, a job that wakes for them waits for so long, and
/// looks again.
const LATER: Duration = Duration::seconds(2);

/// An upload that has not moved for so long holds nobody up any more.
const PATIENCE: Duration = Duration::minutes(10);

/// Pages over the waits, a transaction each, no faster than is set. Each page notes in the job where the next
/// begins: a builder that dies costs one page.
pub(crate) async fn wake(
    builder: &Builder,
    job: &JobLease,
    debug_id: &DebugId,
    generation: u64,
    mut from: Option<WakeCursor>,
) -> Result<(), JobFailure> {
    let turn = JobTurn::begin(builder.host.shutdown.token());
    wake_captures(builder, job.tenant()?, &[Arrived { debug_id: *debug_id, generation }], false).await?;
    loop {
        builder.waking.wait(&turn).await;
        let mut tx = builder.store.tenant(job.tenant()?).await?;
        let page = wakes::page(&mut tx, debug_id, generation, from, PAGE).await?;
        from = page.next;
        match from {
            None => jobs::complete(&mut tx, job).await?,
            Some(_) => {
                let rest = Work::Wake { debug_id: *debug_id, generation, from };
                jobs::progressed(&mut tx, job, &rest).await?;
            }
        }
        let is_over = from.is_none() || turn.is_over();
        if from.is_some() && is_over {
            jobs::postpone(&mut tx, job, Duration::ZERO).await?;
        }
        tx.commit().await?;
        builder.waking.asked(page.requested);
        if is_over {
            return Ok(());
        }
    }
}

/// Asks for new analyses of the captures that lacked these symbols. Done again it asks for nothing more.
async fn wake_captures(
    builder: &Builder,
    tenant: &TenantId,
    arrived: &[Arrived],
    system: bool,
) -> Result<(), JobFailure> {
    loop {
        let mut tx = builder.store.tenant(tenant).await?;
        let woken = captures::wake(&mut tx, arrived, system, PAGE).await?;
        tx.commit().await?;
        if woken < u64::from(PAGE) {
            return Ok(());
        }
    }
}

/// The same for system symbols: for all that came, through the reports of all tenants that lack
/// any. What was done is noted by day and by debug id, and within a day in the job: begun anew it goes
/// on with the rest.
pub(crate) async fn wake_system(
    builder: &Builder,
    job: &JobLease,
    from: Option<&Resume>,
) -> Result<(), JobFailure> {
    let turn = JobTurn::begin(builder.host.shutdown.token());
    let mut from = from.cloned();
    loop {
        let mut tx = builder.store.owner(&Owner::System).await?;
        let since = tx.now() - PATIENCE;
        if uploads::under_way(&mut tx, since).await? {
            jobs::postpone(&mut tx, job, LATER).await?;
            return Ok(tx.commit().await?);
        }
        let arrived = wakes::system::arrived(&mut tx).await?;
        tx.rollback().await?;
        let begun = from.take().and_then(|resume| resume.of(&arrived));
        let mut after = None;
        if let Some((tenant, cursor)) = begun {
            if !wake_tenant(builder, job, &turn, &arrived, &tenant, Some(cursor)).await? {
                return Ok(());
            }
            after = Some(tenant);
        }
        loop {
            let tenants = wakes::system::tenants(&builder.store, &arrived, after.as_ref(), TENANTS).await?;
            let Some(last) = tenants.last() else { break };
            after = Some(last.clone());
            for tenant in &tenants {
                if !wake_tenant(builder, job, &turn, &arrived, tenant, None).await? {
                    return Ok(());
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

/// Goes through one tenant's reports; false where the job's turn was over before their end, and it was given
/// back.
async fn wake_tenant(
    builder: &Builder,
    job: &JobLease,
    turn: &JobTurn<'_>,
    arrived: &[Arrived],
    tenant: &TenantId,
    mut from: Option<SystemWakeCursor>,
) -> Result<bool, JobFailure> {
    if from.is_none() {
        match wake_captures(builder, tenant, arrived, true).await {
            // It waits for nothing any more, and the others do.
            Err(JobFailure::TenantDeleted) => return Ok(true),
            woken => woken?,
        }
    }
    loop {
        builder.waking.wait(turn).await;
        let mut tx = builder.store.tenant(tenant).await?;
        let page = match wakes::system::page(&mut tx, arrived, from, PAGE).await {
            // It waits for nothing any more, and the others do.
            Err(unslide_store::StoreError::TenantDeleted) => return Ok(true),
            page => page?,
        };
        tx.commit().await?;
        builder.waking.asked(page.requested);
        from = page.next;
        let mut tx = builder.store.owner(&Owner::System).await?;
        let resume = from.map(|cursor| Resume::at(arrived, tenant, cursor));
        jobs::progressed(&mut tx, job, &Work::WakeSystem { from: resume }).await?;
        let is_over = turn.is_over();
        if is_over {
            jobs::postpone(&mut tx, job, Duration::ZERO).await?;
        }
        tx.commit().await?;
        if is_over {
            return Ok(false);
        }
        if from.is_none() {
            return Ok(true);
        }
    }
}

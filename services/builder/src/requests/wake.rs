//! Asking for the reports that came before their symbols did.

use crate::builder::Builder;
use crate::failure::JobFailure;
use crate::requests::pace::JobTurn;
use time::Duration;
use unslide_model::{DebugId, Owner, TenantId};
use unslide_runtime::causes;
use unslide_store::jobs::{self, JobLease, Work};
use unslide_store::wakes::system::{Arrived, Resume, SystemWakeCursor, SystemWakePage};
use unslide_store::wakes::{self, WakeCursor};
use unslide_store::{ArrivedSymbols, StoreError, uploads, wake_features};

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
    let arrived = [Arrived { debug_id: *debug_id, generation }];
    let symbols = ArrivedSymbols { arrived: &arrived, is_system: false, limit: PAGE };
    wake_features(&builder.store, job.tenant()?, symbols).await?;
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
        let from = from.take().filter(|resume| resume.is_of(&arrived));
        let mut wake = SystemWake { builder, job, turn: &turn, arrived, left_out: false, failed: None };
        if !wake.all_tenants(from).await? {
            return Ok(());
        }
        let SystemWake { arrived, left_out, failed, .. } = wake;
        let mut tx = builder.store.owner(&Owner::System).await?;
        if let Some(failure) = failed {
            // The job stays open for those that were left out, and begins with the first of them.
            jobs::progressed(&mut tx, job, &Work::WakeSystem { from: None }).await?;
            tx.commit().await?;
            return Err(failure);
        }
        if left_out {
            // They failed in a turn before this one.
            tx.rollback().await?;
            continue;
        }
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

/// One walk through the tenants with reports that lack system symbols.
struct SystemWake<'b> {
    builder: &'b Builder,
    job: &'b JobLease,
    turn: &'b JobTurn<'b>,
    arrived: Vec<Arrived>,
    /// A tenant failed, in this turn or in one before, so that the job is not done.
    left_out: bool,
    /// Why the first one in this turn did.
    failed: Option<JobFailure>,
}

impl SystemWake<'_> {
    /// False where the job's turn was over before the end, and it was given back.
    async fn all_tenants(&mut self, from: Option<Resume>) -> Result<bool, JobFailure> {
        let mut after = None;
        if let Some(Resume { tenant, cursor, left_out, .. }) = from {
            self.left_out = left_out;
            if !self.tenant(&tenant, Some(cursor)).await? {
                return Ok(false);
            }
            after = Some(tenant);
        }
        loop {
            let store = &self.builder.store;
            let tenants = wakes::system::tenants(store, &self.arrived, after.as_ref(), TENANTS).await?;
            let Some(last) = tenants.last() else { return Ok(true) };
            after = Some(last.clone());
            for tenant in &tenants {
                if !self.tenant(tenant, None).await? {
                    return Ok(false);
                }
            }
        }
    }

    /// Goes through one tenant's reports. Where that fails the next tenant has its turn. False where the job's turn
    /// was over, and it was given back.
    ///
    /// # Errors
    /// A failure that would be every tenant's, or of the job.
    async fn tenant(
        &mut self,
        tenant: &TenantId,
        mut from: Option<SystemWakeCursor>,
    ) -> Result<bool, JobFailure> {
        loop {
            self.builder.waking.wait(self.turn).await;
            let page = match self.page(tenant, from).await {
                Ok(page) => page,
                // It waits for nothing any more, and the others do.
                Err(StoreError::TenantDeleted) => return Ok(true),
                Err(error) if error.is_connection() => return Err(error.into()),
                Err(error) => {
                    let text = causes(&error);
                    tracing::warn!(tenant = %tenant, error = text, "a wake for system symbols leaves a tenant out");
                    self.left_out = true;
                    self.failed.get_or_insert(error.into());
                    return Ok(true);
                }
            };
            self.builder.waking.asked(page.requested);
            from = page.next;
            let mut tx = self.builder.store.owner(&Owner::System).await?;
            let resume = from.map(|cursor| Resume::at(&self.arrived, tenant, cursor, self.left_out));
            jobs::progressed(&mut tx, self.job, &Work::WakeSystem { from: resume }).await?;
            let is_over = self.turn.is_over();
            if is_over {
                jobs::postpone(&mut tx, self.job, Duration::ZERO).await?;
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

    /// Asks for the next reports of a tenant, and before the first ones for what features have of it.
    async fn page(
        &self,
        tenant: &TenantId,
        from: Option<SystemWakeCursor>,
    ) -> Result<SystemWakePage, StoreError> {
        if from.is_none() {
            let symbols = ArrivedSymbols { arrived: &self.arrived, is_system: true, limit: PAGE };
            wake_features(&self.builder.store, tenant, symbols).await?;
        }
        let mut tx = self.builder.store.tenant(tenant).await?;
        let page = wakes::system::page(&mut tx, &self.arrived, from, PAGE).await?;
        tx.commit().await?;
        Ok(page)
    }
}

//! Requests new revisions of reports that arrived before their symbols.

use crate::failure::JobFailure;
use crate::requests::pace::JobTurn;
use crate::requests::resources::RequestResources;
use time::Duration;
use unslide_model::{DebugId, Owner, TenantId, format_causes};
use unslide_store::jobs::{self, JobLease, Work};
use unslide_store::wakes::system::{Arrived, Resume, SystemWakeCursor, SystemWakePage};
use unslide_store::wakes::{self, WakeCursor};
use unslide_store::{ArrivedSymbols, StoreError, uploads, wake_features};

/// Number of reports per transaction.
const WAKE_PAGE_ENTRIES: u32 = 200;

/// Number of tenants per query.
const TENANT_PAGE_ENTRIES: u32 = 100;

/// Time that a job for system symbols waits while an upload of system symbols is under way, before it checks
/// again.
const UPLOAD_CHECK_INTERVAL: Duration = Duration::seconds(2);

/// Time without progress after which an upload no longer delays the job.
const UPLOAD_PROGRESS_TIMEOUT: Duration = Duration::minutes(10);

/// Requests the reports that wait for a debug id, one page per transaction and no faster than the configured
/// rate. Each page stores the start of the next in the job: a builder that dies repeats one page.
pub(crate) async fn wake_reports(
    resources: &RequestResources,
    job: &JobLease,
    debug_id: &DebugId,
    generation: u64,
    mut from: Option<WakeCursor>,
) -> Result<(), JobFailure> {
    let turn = JobTurn::begin(resources.shutdown.token());
    let arrived = [Arrived { debug_id: *debug_id, generation }];
    let symbols = ArrivedSymbols { arrived: &arrived, is_system: false, limit: WAKE_PAGE_ENTRIES };
    wake_features(&resources.storage.store, job.tenant()?, symbols).await?;
    loop {
        resources.waking.wait_for_rate(&turn).await;
        let mut tx = resources.storage.store.tenant(job.tenant()?).await?;
        let page = wakes::request_page(&mut tx, debug_id, generation, from, WAKE_PAGE_ENTRIES).await?;
        from = page.next;
        match from {
            None => jobs::complete_job(&mut tx, job).await?,
            Some(_) => {
                let rest = Work::Wake { debug_id: *debug_id, generation, from };
                jobs::record_progress(&mut tx, job, &rest).await?;
            }
        }
        let is_over = from.is_none() || turn.is_over();
        if from.is_some() && is_over {
            jobs::postpone_job(&mut tx, job, Duration::ZERO).await?;
        }
        tx.commit().await?;
        resources.waking.record_requested(page.requested);
        if is_over {
            return Ok(());
        }
    }
}

/// Requests the reports that wait for any new system symbols, of all tenants. Progress is stored by day and
/// by debug id, and within a day in the job. A restarted job continues with the rest.
pub(crate) async fn wake_system(
    resources: &RequestResources,
    job: &JobLease,
    from: Option<&Resume>,
) -> Result<(), JobFailure> {
    let turn = JobTurn::begin(resources.shutdown.token());
    let mut from = from.cloned();
    loop {
        let mut tx = resources.storage.store.owner(&Owner::System).await?;
        let since = tx.now() - UPLOAD_PROGRESS_TIMEOUT;
        if uploads::under_way(&mut tx, since).await? {
            jobs::postpone_job(&mut tx, job, UPLOAD_CHECK_INTERVAL).await?;
            return Ok(tx.commit().await?);
        }
        let arrived = wakes::system::list_arrived(&mut tx).await?;
        tx.rollback().await?;
        let from = from.take().filter(|resume| resume.is_of(&arrived));
        let mut wake = SystemWake { resources, job, turn: &turn, arrived, left_out: false, failed: None };
        if !wake.all_tenants(from).await? {
            return Ok(());
        }
        let SystemWake { arrived, left_out, failed, .. } = wake;
        let mut tx = resources.storage.store.owner(&Owner::System).await?;
        if let Some(failure) = failed {
            // The job stays open for the tenants that were left out, and begins with the first of them.
            jobs::record_progress(&mut tx, job, &Work::WakeSystem { from: None }).await?;
            tx.commit().await?;
            return Err(failure);
        }
        if left_out {
            // They failed in an earlier turn of the job.
            tx.rollback().await?;
            continue;
        }
        let more = wakes::system::remove_arrived(&mut tx, &arrived).await?;
        if !more {
            jobs::complete_job(&mut tx, job).await?;
        }
        tx.commit().await?;
        if !more {
            return Ok(());
        }
    }
}

/// One pass over the tenants with reports that lack system symbols.
struct SystemWake<'b> {
    resources: &'b RequestResources,
    job: &'b JobLease,
    turn: &'b JobTurn<'b>,
    arrived: Vec<Arrived>,
    /// True if a tenant failed, in this turn or an earlier one, so that the job is not done.
    left_out: bool,
    /// Failure of the first tenant that failed in this turn.
    failed: Option<JobFailure>,
}

impl SystemWake<'_> {
    /// Processes all tenants. Returns false if the job's turn ended first and the job was returned to the
    /// queue.
    async fn all_tenants(&mut self, from: Option<Resume>) -> Result<bool, JobFailure> {
        let mut after = None;
        if let Some(Resume { tenant, cursor, left_out, .. }) = from {
            self.left_out = left_out;
            if !self.wake_tenant(&tenant, Some(cursor)).await? {
                return Ok(false);
            }
            after = Some(tenant);
        }
        loop {
            let store = &self.resources.storage.store;
            let tenants =
                wakes::system::list_tenants(store, &self.arrived, after.as_ref(), TENANT_PAGE_ENTRIES)
                    .await?;
            let Some(last) = tenants.last() else { return Ok(true) };
            after = Some(last.clone());
            for tenant in &tenants {
                if !self.wake_tenant(tenant, None).await? {
                    return Ok(false);
                }
            }
        }
    }

    /// Processes one tenant's reports. If that fails, the next tenant follows. Returns false if the job's
    /// turn ended and the job was returned to the queue.
    ///
    /// # Errors
    /// Returns a failure that would affect every tenant, or that belongs to the job.
    async fn wake_tenant(
        &mut self,
        tenant: &TenantId,
        mut from: Option<SystemWakeCursor>,
    ) -> Result<bool, JobFailure> {
        loop {
            self.resources.waking.wait_for_rate(self.turn).await;
            let page = match self.request_page(tenant, from).await {
                Ok(page) => page,
                // A deleted tenant has no reports that wait; the other tenants follow.
                Err(StoreError::TenantDeleted) => return Ok(true),
                // The job stays open for a tenant that is moving to another cell, and ends without those that have moved.
                Err(StoreError::TenantMoving) => {
                    self.left_out = true;
                    let detail = format!("the tenant {tenant} is moving to another cell");
                    self.failed.get_or_insert(JobFailure::Server(detail));
                    return Ok(true);
                }
                Err(error) if error.is_outage() => return Err(error.into()),
                Err(error) => {
                    let text = format_causes(&error);
                    tracing::warn!(tenant = %tenant, error = text, "a wake for system symbols leaves a tenant out");
                    self.left_out = true;
                    self.failed.get_or_insert(error.into());
                    return Ok(true);
                }
            };
            self.resources.waking.record_requested(page.requested);
            from = page.next;
            let mut tx = self.resources.storage.store.owner(&Owner::System).await?;
            let resume = from.map(|cursor| Resume::at_cursor(&self.arrived, tenant, cursor, self.left_out));
            jobs::record_progress(&mut tx, self.job, &Work::WakeSystem { from: resume }).await?;
            let is_over = self.turn.is_over();
            if is_over {
                jobs::postpone_job(&mut tx, self.job, Duration::ZERO).await?;
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

    /// Requests the next page of a tenant's reports. Before the first page it requests what features have of
    /// the tenant.
    async fn request_page(
        &self,
        tenant: &TenantId,
        from: Option<SystemWakeCursor>,
    ) -> Result<SystemWakePage, StoreError> {
        if from.is_none() {
            let symbols =
                ArrivedSymbols { arrived: &self.arrived, is_system: true, limit: WAKE_PAGE_ENTRIES };
            wake_features(&self.resources.storage.store, tenant, symbols).await?;
        }
        let mut tx = self.resources.storage.store.tenant(tenant).await?;
        let page = wakes::system::request_page(&mut tx, &self.arrived, from, WAKE_PAGE_ENTRIES).await?;
        tx.commit().await?;
        Ok(page)
    }
}

//! Deletes the rows and objects of a deleted tenant, and proves it.
//!
//! The order does not matter, since no data is added any more. A transaction that adds rows is refused, and a
//! builder that has stored an object checks afterwards whether its tenant still exists. Neither of these
//! helps if the builder's process dies. An object of an upload that had begun before the deletion is found by
//! the job's second pass, much later.

use crate::deletion::Deletion;
use crate::deletion::parts;
use crate::failure::JobFailure;
use crate::storage::JobStorage;
use futures::future::{FutureExt, join_all};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::sleep;
use unslide_artifacts::keys;
use unslide_history::{History, HistoryError, HistoryFilter, HistoryOrder};
use unslide_model::{Owner, TenantId, format_causes};
use unslide_store::jobs::{self, JobLease};
use unslide_store::tenants::{self, TenantStanding};
use unslide_store::{erasure, partial};
use unslide_stream::{Settings, admin};

/// Number of rows per transaction.
const ERASE_PAGE_ENTRIES: u32 = 1_000;
/// Number of objects on one page, which are counted together.
const OBJECT_PAGE_ENTRIES: u16 = 1_000;
const CONCURRENT_DELETIONS_LIMIT: usize = 16;
/// Interval between two checks for jobs that still run; they end at their next heartbeat.
const RUNNING_JOBS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Deletes rows and objects until none are left, and ends the job with the proof. A restarted job continues
/// with the rest.
pub(crate) async fn erase_tenant(
    storage: &JobStorage,
    kafka: &Settings,
    job: &JobLease,
) -> Result<(), JobFailure> {
    let tenant = job.tenant()?;
    let mut parts = Deletion::new(storage);
    // Parts come first: once their rows are deleted they cannot be found.
    delete_unfinished(storage, tenant, &mut parts).await?;
    if !parts.is_complete() {
        delete_objects(storage, tenant, Some(job)).await?;
        return parts.into_result();
    }
    loop {
        let mut emptied = 0;
        while delete_rows(storage, tenant, job, &mut emptied).await? {}
        delete_objects(storage, tenant, Some(job)).await?;
        if kafka.tenant_topics {
            let removed = admin::delete_tenant_topics(kafka, tenant).await;
            removed.map_err(|error| JobFailure::Server(format_causes(&error)))?;
        }
        if let Some(history) = storage.store.history() {
            delete_history(history, tenant).await?;
        }
        let left = storage.objects.list(&keys::tenant_prefix(tenant), None, 1).await?.entries.len();
        let mut tx = storage.store.tenant(tenant).await?;
        if erasure::finish_erasure(&mut tx, job, left as u64).await? {
            tx.commit().await?;
            tracing::info!(tenant = %tenant, "nothing of a deleted tenant is left");
            return Ok(());
        }
        tx.rollback().await?;
        sleep(RUNNING_JOBS_CHECK_INTERVAL).await;
    }
}

/// Deletes the tenant's rows at ClickHouse with their bytes, and looks whether one is left.
async fn delete_history(history: &History, tenant: &TenantId) -> Result<(), JobFailure> {
    let failed = |error: HistoryError| JobFailure::Server(format_causes(&error));
    history.delete_tenant(tenant).await.map_err(failed)?;
    let every = HistoryFilter::default();
    let left =
        history.find_versions(tenant, &every, None, HistoryOrder::OldestFirst, 1).await.map_err(failed)?;
    if !left.is_empty() {
        return Err(JobFailure::Server(
            "a replica of ClickHouse still has rows of a deleted tenant".to_owned(),
        ));
    }
    history.apply_deletions().await.map_err(failed)?;
    Ok(())
}

/// Deletes the parts of every upload that was not complete.
async fn delete_unfinished(
    storage: &JobStorage,
    tenant: &TenantId,
    deletion: &mut Deletion<'_>,
) -> Result<(), JobFailure> {
    let owner = Owner::Tenant(tenant.clone());
    let mut left = HashSet::new();
    loop {
        let mut tx = storage.store.tenant(tenant).await?;
        let mut page = partial::list_uploads(&mut tx, ERASE_PAGE_ENTRIES).await?;
        tx.rollback().await?;
        page.retain(|partial| !left.contains(&partial.id));
        if page.is_empty() {
            return Ok(());
        }
        for partial in page {
            if deletion.record_result(parts::abort_parts(storage, &owner, &partial).await)? {
                // If the parts have become a file, it is deleted with the other objects.
                let mut tx = storage.store.tenant(tenant).await?;
                partial::end_upload(&mut tx, partial.id).await?;
                tx.commit().await?;
            } else {
                left.insert(partial.id);
            }
        }
    }
}

/// Deletes one page of rows. Returns false once there are none. `emptied` is the number of tables that have none.
async fn delete_rows(
    storage: &JobStorage,
    tenant: &TenantId,
    job: &JobLease,
    emptied: &mut usize,
) -> Result<bool, JobFailure> {
    let mut tx = storage.store.tenant(tenant).await?;
    let gone = erasure::erase_rows(&mut tx, emptied, ERASE_PAGE_ENTRIES).await?;
    if gone.is_some() {
        jobs::record_progress(&mut tx, job, &job.work).await?;
    }
    tx.commit().await?;
    Ok(gone.is_some())
}

/// Deletes every object under the tenant's prefix, page by page. Objects that cannot be deleted are skipped,
/// and named at the end. `job` is the job that gets the progress.
async fn delete_objects(
    storage: &JobStorage,
    tenant: &TenantId,
    job: Option<&JobLease>,
) -> Result<(), JobFailure> {
    let prefix = keys::tenant_prefix(tenant);
    let (mut after, mut deletion) = (None, Deletion::new(storage));
    loop {
        let page = storage.objects.list(&prefix, after.as_ref(), OBJECT_PAGE_ENTRIES).await?;
        let (mut gone, mut bytes) = (0, 0);
        for some in page.entries.chunks(CONCURRENT_DELETIONS_LIMIT) {
            let deletions: Vec<_> =
                some.iter().map(|entry| storage.objects.delete(&entry.key).boxed()).collect();
            let deleted = join_all(deletions).await;
            for (entry, deleted) in some.iter().zip(deleted) {
                if deletion.record_result(deleted)? {
                    gone += 1;
                    bytes += entry.size;
                }
            }
        }
        if gone > 0 {
            let mut tx = storage.store.tenant(tenant).await?;
            erasure::record_objects(&mut tx, gone, bytes).await?;
            if let Some(job) = job {
                jobs::record_progress(&mut tx, job, &job.work).await?;
            }
            tx.commit().await?;
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return deletion.into_result(),
        }
    }
}

/// Runs after a job that may have stored objects. If its tenant was deleted, deletes the objects, ends the
/// job and returns true.
pub(crate) async fn erase_if_deleted(storage: &JobStorage, job: &JobLease) -> Result<bool, JobFailure> {
    // The system owner is never deleted.
    let Some(tenant) = job.owner.tenant() else { return Ok(false) };
    let mut tx = storage.store.tenant(tenant).await?;
    let standing = tenants::read_standing(&mut tx).await?;
    tx.rollback().await?;
    if standing != Some(TenantStanding::Deleted) {
        return Ok(false);
    }
    delete_objects(storage, tenant, None).await?;
    let mut tx = storage.store.tenant(tenant).await?;
    match jobs::complete_job(&mut tx, job).await {
        // The job's row may have been deleted with the tenant's other rows.
        Ok(()) | Err(unslide_store::StoreError::LeaseLost(_)) => tx.commit().await?,
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

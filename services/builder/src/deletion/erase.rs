//! Taking away what a deleted tenant had, and proving it.
//!
//! The order does not matter, since nothing is added any more: a transaction that adds rows is
//! refused, and a builder that has stored an object looks afterwards whether its tenant is still
//! there. What neither of them can do is to end well when its process dies: an object of an upload
//! that had begun before the deletion is found when the job looks a second time, much later.

use crate::builder::Builder;
use crate::deletion::Deletion;
use crate::deletion::parts;
use crate::failure::JobFailure;
use futures::future::{FutureExt, join_all};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::sleep;
use unslide_artifacts::keys;
use unslide_model::{Owner, TenantId};
use unslide_runtime::causes;
use unslide_store::jobs::{self, JobLease};
use unslide_store::tenants::{self, TenantStanding};
use unslide_store::{OwnerTx, erasure, partial};
use unslide_stream::admin;

/// Rows of one transaction.
const ROWS: u32 = 1_000;
/// Objects of one page, which are counted together.
const OBJECTS: u16 = 1_000;
/// Removals at a time.
const AT_ONCE: usize = 16;
/// Between two looks at jobs that still run; they end by themselves at their next heartbeat.
const LOOK: Duration = Duration::from_secs(1);

/// Removes rows and objects until nothing is left, and ends the job with the proof. Begun anew it
/// goes on where it was.
pub(crate) async fn erase(builder: &Builder, job: &JobLease) -> Result<(), JobFailure> {
    let tenant = job.tenant()?;
    let mut parts = Deletion::new(builder);
    // First of all: once their rows are gone they cannot be found.
    unfinished(builder, tenant, &mut parts).await?;
    if !parts.is_complete() {
        objects(builder, tenant, Some(job)).await?;
        return parts.end();
    }
    loop {
        while rows(builder, tenant, job).await? {}
        objects(builder, tenant, Some(job)).await?;
        if builder.kafka.tenant_topics {
            let removed = admin::delete_tenant_topics(&builder.kafka, tenant).await;
            removed.map_err(|error| JobFailure::Server(causes(&error)))?;
        }
        let left = builder.objects.list(&keys::tenant_prefix(tenant), None, 1).await?.entries.len();
        let mut tx = builder.store.tenant(tenant).await?;
        if erasure::finish(&mut tx, job, left as u64).await? {
            tx.commit().await?;
            tracing::info!(tenant = %tenant, "nothing of a deleted tenant is left");
            return Ok(());
        }
        tx.rollback().await?;
        sleep(LOOK).await;
    }
}

/// The parts of every upload that was not complete.
async fn unfinished(
    builder: &Builder,
    tenant: &TenantId,
    deletion: &mut Deletion<'_>,
) -> Result<(), JobFailure> {
    let owner = Owner::Tenant(tenant.clone());
    let mut left = HashSet::new();
    loop {
        let mut tx = builder.store.tenant(tenant).await?;
        let mut page = partial::list(&mut tx, ROWS).await?;
        tx.rollback().await?;
        page.retain(|partial| !left.contains(&partial.id));
        if page.is_empty() {
            return Ok(());
        }
        for partial in page {
            if deletion.note(parts::abort(builder, &owner, &partial).await)? {
                // A file that they have become goes with the other objects.
                let mut tx = builder.store.tenant(tenant).await?;
                partial::end(&mut tx, partial.id).await?;
                tx.commit().await?;
            } else {
                left.insert(partial.id);
            }
        }
    }
}

/// One page of rows; false once there is none.
async fn rows(builder: &Builder, tenant: &TenantId, job: &JobLease) -> Result<bool, JobFailure> {
    let mut tx = builder.store.tenant(tenant).await?;
    let gone = erasure::rows(&mut tx, ROWS).await?;
    if gone.is_some() {
        jobs::progressed(&mut tx, job, &job.work).await?;
    }
    tx.commit().await?;
    Ok(gone.is_some())
}

/// Every object under the tenant's prefix, page by page. Those that cannot be deleted are skipped, and
/// named in the end. `job` is the one that makes progress by it.
async fn objects(builder: &Builder, tenant: &TenantId, job: Option<&JobLease>) -> Result<(), JobFailure> {
    let prefix = keys::tenant_prefix(tenant);
    let (mut after, mut deletion) = (None, Deletion::new(builder));
    loop {
        let page = builder.objects.list(&prefix, after.as_ref(), OBJECTS).await?;
        let (mut gone, mut bytes) = (0, 0);
        for some in page.entries.chunks(AT_ONCE) {
            let deletions: Vec<_> =
                some.iter().map(|entry| builder.objects.delete(&entry.key).boxed()).collect();
            let deleted = join_all(deletions).await;
            for (entry, deleted) in some.iter().zip(deleted) {
                if deletion.note(deleted)? {
                    gone += 1;
                    bytes += entry.size;
                }
            }
        }
        if gone > 0 {
            let mut tx = builder.store.tenant(tenant).await?;
            erasure::objects(&mut tx, gone, bytes).await?;
            if let Some(job) = job {
                jobs::progressed(&mut tx, job, &job.work).await?;
            }
            tx.commit().await?;
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return deletion.end(),
        }
    }
}

/// Goes on only where the transaction's tenant is not deleted, and holds the deletion off until the
/// transaction ends: for what is stored outside of the database.
pub(crate) async fn alive(tx: &mut OwnerTx) -> Result<(), JobFailure> {
    match tenants::standing(tx).await? {
        Some(TenantStanding::Deleted) => Err(JobFailure::TenantDeleted),
        _ => Ok(()),
    }
}

/// After a job that may have stored objects: where its tenant was deleted meanwhile they go again,
/// and the job is over. True where that was so.
pub(crate) async fn abandoned(builder: &Builder, job: &JobLease) -> Result<bool, JobFailure> {
    // The system is never deleted.
    let Some(tenant) = job.owner.tenant() else { return Ok(false) };
    let mut tx = builder.store.tenant(tenant).await?;
    let standing = tenants::standing(&mut tx).await?;
    tx.rollback().await?;
    if standing != Some(TenantStanding::Deleted) {
        return Ok(false);
    }
    objects(builder, tenant, None).await?;
    let mut tx = builder.store.tenant(tenant).await?;
    match jobs::complete(&mut tx, job).await {
        // Its row may be gone with the tenant's others.
        Ok(()) | Err(unslide_store::StoreError::LeaseLost(_)) => tx.commit().await?,
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

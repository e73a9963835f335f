//! Taking away what a deleted tenant had, and proving it.
//!
//! The order does not matter, since nothing is added any more: a transaction that adds rows is
//! refused, and a builder that has stored an object looks afterwards whether its tenant is still
//! there. What neither of them can do is to end well when its process dies: an object of an upload
//! that had begun before the deletion is found when the job looks a second time, much later.

use crate::failure::{Failure, chain};
use crate::parts;
use crate::worker::Builder;
use futures::future::try_join_all;
use std::time::Duration;
use tokio::time::sleep;
use unslide_artifacts::keys;
use unslide_model::{Owner, TenantId};
use unslide_store::jobs::{self, Lease};
use unslide_store::tenants::{self, State};
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
pub(crate) async fn erase(builder: &Builder, job: &Lease) -> Result<(), Failure> {
    let tenant = job.tenant()?;
    // First of all: once their rows are gone nobody knows of them.
    unfinished(builder, tenant).await?;
    loop {
        while rows(builder, tenant).await? {}
        objects(builder, tenant).await?;
        if builder.kafka.tenant_topics {
            let removed = admin::delete_tenant_topics(&builder.kafka, tenant).await;
            removed.map_err(|error| Failure::Server(chain(&error)))?;
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
async fn unfinished(builder: &Builder, tenant: &TenantId) -> Result<(), Failure> {
    loop {
        let mut tx = builder.store.tenant(tenant).await?;
        let page = partial::list(&mut tx, ROWS).await?;
        tx.rollback().await?;
        if page.is_empty() {
            return Ok(());
        }
        for partial in page {
            parts::clear(builder, &Owner::Tenant(tenant.clone()), &partial).await?;
        }
    }
}

/// One page of rows; false once there is none.
async fn rows(builder: &Builder, tenant: &TenantId) -> Result<bool, Failure> {
    let mut tx = builder.store.tenant(tenant).await?;
    let gone = erasure::rows(&mut tx, ROWS).await?;
    tx.commit().await?;
    Ok(gone.is_some())
}

/// Every object under the tenant's prefix, page by page.
async fn objects(builder: &Builder, tenant: &TenantId) -> Result<(), Failure> {
    let prefix = keys::tenant_prefix(tenant);
    loop {
        // Always the first page: what it names is gone when the next is asked for.
        let page = builder.objects.list(&prefix, None, OBJECTS).await?;
        if page.entries.is_empty() {
            return Ok(());
        }
        let bytes = page.entries.iter().map(|entry| entry.size).sum();
        for some in page.entries.chunks(AT_ONCE) {
            try_join_all(some.iter().map(|entry| builder.objects.delete(&entry.key))).await?;
        }
        let mut tx = builder.store.tenant(tenant).await?;
        erasure::objects(&mut tx, page.entries.len() as u64, bytes).await?;
        tx.commit().await?;
    }
}

/// Goes on only where the transaction's tenant is not deleted, and holds the deletion off until the
/// transaction ends: for what is stored outside of the database.
pub(crate) async fn alive(tx: &mut OwnerTx) -> Result<(), Failure> {
    match tenants::standing(tx).await? {
        Some(State::Deleted) => Err(Failure::TenantDeleted),
        _ => Ok(()),
    }
}

/// After a job that may have stored objects: where its tenant was deleted meanwhile they go again,
/// and the job is over. True where that was so.
pub(crate) async fn abandoned(builder: &Builder, job: &Lease) -> Result<bool, Failure> {
    // The system is for good.
    let Some(tenant) = job.owner.tenant() else { return Ok(false) };
    let mut tx = builder.store.tenant(tenant).await?;
    let standing = tenants::standing(&mut tx).await?;
    tx.rollback().await?;
    if standing != Some(State::Deleted) {
        return Ok(false);
    }
    objects(builder, tenant).await?;
    let mut tx = builder.store.tenant(tenant).await?;
    match jobs::complete(&mut tx, job).await {
        // Its row may be gone with the tenant's others.
        Ok(()) | Err(unslide_store::StoreError::LeaseLost(_)) => tx.commit().await?,
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

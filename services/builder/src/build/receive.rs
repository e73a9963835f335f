//! Takes a file of a job as an upload: its row, its bytes in object storage, and the job that builds what is in it, in the order in
//! which the api does it. A failure in between leaves a row that maintenance ends.

use crate::build::resources::BuildResources;
use crate::deleted_tenants::check_alive;
use crate::failure::JobFailure;
use std::path::Path;
use unslide_artifacts::{Put, keys};
use unslide_model::ContentHash;
use unslide_store::jobs::JobLease;
use unslide_store::{OwnerTx, UploadId, tenants, uploads, usage};

/// A file in the folder of a job.
#[derive(Clone, Copy, Debug)]
pub struct JobFile<'f> {
    pub path: &'f Path,
    /// Its name in lists of uploads.
    pub name: &'f str,
    pub size: u64,
    pub sha256: ContentHash,
}

/// The result of a file that was to become an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceivedFile {
    /// It is this upload. The same bytes may have come before.
    Taken(UploadId),
    /// The tenant's limit on symbols does not allow it; a sentence says so.
    OverQuota(String),
}

/// Returns the largest size of one upload of a job's owner.
pub(crate) async fn read_file_limit(resources: &BuildResources, job: &JobLease) -> Result<u64, JobFailure> {
    let mut tx = resources.storage.store.owner(&job.owner).await?;
    let own = tenants::get(&mut tx).await?.map_or(0, |tenant| tenant.limits.upload_bytes);
    tx.rollback().await?;
    Ok(if own == 0 { resources.upload_bytes } else { own })
}

pub(crate) async fn receive_file(
    resources: &BuildResources,
    job: &JobLease,
    file: &JobFile<'_>,
) -> Result<ReceivedFile, JobFailure> {
    let (store, owner) = (&resources.storage.store, &job.owner);
    let mut tx = store.owner(owner).await?;
    if let Some(earlier) = uploads::find_valid_upload(&mut tx, &file.sha256).await? {
        return Ok(ReceivedFile::Taken(earlier.id));
    }
    if let Some(reason) = find_excess(resources, &mut tx, file.size).await? {
        return Ok(ReceivedFile::OverQuota(reason));
    }
    let id = uploads::create_upload(&mut tx, Some(file.name), None).await?;
    tx.commit().await?;
    let key = keys::for_upload(owner.own(id));
    resources.storage.objects.put_file(&key, file.path, &Put::default()).await?;
    let mut tx = store.owner(owner).await?;
    // A deletion of the tenant waits for this transaction, and finds the upload after it.
    check_alive(&mut tx).await?;
    // The lock is held until the commit, so that two uploads do not exceed the limit together.
    if let Some(reason) = find_excess(resources, &mut tx, file.size).await? {
        uploads::given_up(&mut tx, id, super::OVER_QUOTA, &reason).await?;
        tx.commit().await?;
        resources.storage.objects.delete(&key).await?;
        return Ok(ReceivedFile::OverQuota(reason));
    }
    if !uploads::record_received(&mut tx, id, file.size, &file.sha256).await? {
        return Err(JobFailure::Again(format!("the upload {id} was given up in the meantime")));
    }
    tx.commit().await?;
    Ok(ReceivedFile::Taken(id))
}

/// Returns a sentence about the limit on the tenant's symbols if a file of this size exceeds it.
async fn find_excess(
    resources: &BuildResources,
    tx: &mut OwnerTx,
    size: u64,
) -> Result<Option<String>, JobFailure> {
    let limit = super::read_symbol_limit(resources, tx).await?;
    let used = usage::hold_symbols(tx).await?.total_bytes();
    Ok((used.saturating_add(size) > limit).then(|| {
        format!("{used} bytes of symbols are stored or wait, the file has {size}, and the limit is {limit}")
    }))
}

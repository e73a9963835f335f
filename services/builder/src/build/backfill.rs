//! Rebuilds symcaches after a change of their format or of what is read from an object.

use crate::build::child::ChildError;
use crate::build::publish::publish_symcaches;
use crate::build::resources::BuildResources;
use crate::build::slices::unpack_file;
use crate::build::{build_symcaches, reject_object};
use crate::failure::JobFailure;
use unslide_artifacts::keys;
use unslide_model::ContentHash;
use unslide_store::jobs::{self, JobLease, Work};
use unslide_store::objects::{self, ObjectRow, ObjectStatus};

/// Name of the object in its job's folder.
const FILE: &str = "object";

/// Rebuilds one page of the tenant's objects after `after`, in version `version`: those with an older
/// symcache, or `all`. Retries objects that were too complex for earlier limits. Another job continues with
/// the next page, so that a builder that dies repeats little and other tenants get their turn.
pub(crate) async fn backfill_objects(
    resources: &BuildResources,
    job: &JobLease,
    version: u32,
    all: bool,
    after: Option<&ContentHash>,
) -> Result<(), JobFailure> {
    if !resources.settings.symcache_versions.contains(&version) {
        // Otherwise it would find the same objects in every job.
        let detail = format!("this builder does not write version {version} of the symcache's format");
        return Err(JobFailure::job("version_not_written", detail));
    }
    let limit = resources.settings.backfill_objects;
    let mut tx = resources.storage.store.owner(&job.owner).await?;
    let page = objects::to_rebuild(&mut tx, version, all, after, limit).await?;
    tx.rollback().await?;
    for object in &page {
        let done = rebuild_object(resources, job, object).await?;
        resources.metrics.backfilled.with_label_values(&[done]).inc();
    }
    let mut tx = resources.storage.store.owner(&job.owner).await?;
    if let Some(last) = page.last().filter(|_| page.len() as u64 == u64::from(limit)) {
        jobs::add_job(&mut tx, &Work::Backfill { version, all, after: Some(last.content_hash) }).await?;
    }
    jobs::complete_job(&mut tx, job).await?;
    Ok(tx.commit().await?)
}

/// Rebuilds one object and returns the outcome. An object that an earlier release could read and this one
/// cannot keeps its symcache.
async fn rebuild_object(
    resources: &BuildResources,
    job: &JobLease,
    object: &ObjectRow,
) -> Result<&'static str, JobFailure> {
    let owner = &job.owner;
    let hash = object.content_hash;
    let room = resources.work.acquire_room(object.size, false).await?;
    let path = room.path().join(FILE);
    let key = keys::for_object(owner.own(hash));
    let Some(fetched) = resources.storage.objects.get_to_file(&key, &path, object.size).await? else {
        tracing::warn!(object.hash = %hash, "an object's bytes are missing in object storage; its old symcache stays");
        return Ok("gone");
    };
    if fetched.sha256 != hash {
        tracing::warn!(object.hash = %hash, "object storage returned other bytes; the old symcache stays");
        return Ok("damaged");
    }
    let slices = unpack_file(resources, job, &room, FILE, &object.name).await?.slices;
    let Some(slice) = slices.into_iter().find(|slice| slice.new.content_hash == hash) else {
        tracing::warn!(object.hash = %hash, "a file is not readable as an object any more; its old symcache stays");
        return Ok("rejected");
    };
    match build_symcaches(resources, job, &room, &slice).await {
        Ok(built) => {
            publish_symcaches(resources, owner, &room, &slice, &built).await?;
            Ok("built")
        }
        Err(ChildError::Rejected(status, reason)) if object.status == ObjectStatus::TooComplex => {
            reject_object(&resources.storage, owner, &hash, status, &reason).await?;
            Ok("rejected")
        }
        Err(ChildError::Failed(failure)) => Err(failure),
        Err(ChildError::Rejected(_, reason)) => {
            tracing::warn!(object.hash = %hash, reason, "an object cannot be built any more; its symcache stays");
            Ok("rejected")
        }
    }
}

//! Processes an upload, from its bytes to every object's final status.

pub(crate) mod backfill;
pub(crate) mod bundles;
pub(crate) mod child;
pub(crate) mod derive;
pub(crate) mod memory;
pub(crate) mod publish;
pub(crate) mod receive;
pub(crate) mod resources;
pub(crate) mod slices;
pub(crate) mod work_folder;

use crate::build::child::{ChildAnswer, ChildError};
use crate::build::derive::derive_objects;
use crate::build::publish::{BuiltSymcaches, SymcacheForm, publish_symcaches};
use crate::build::resources::BuildResources;
use crate::build::slices::{UploadedSlice, unpack_file};
use crate::build::work_folder::Room;
use crate::failure::JobFailure;
use crate::storage::JobStorage;
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use unslide_archive::SkipReason;
use unslide_artifacts::keys::{self, ObjectKey};
use unslide_artifacts::{Condition, Put, StorageError, Wrong, read_again};
use unslide_model::{ContentHash, Owned, Owner};
use unslide_sandbox::{BuiltSlice, SYMCACHE, Task};
use unslide_store::jobs::{self, JobLease};
use unslide_store::objects::{self, ObjectStatus};
use unslide_store::uploads::{self, SymbolUpload};
use unslide_store::{OwnerTx, UploadId, tenants, usage};

/// Increment of the pause before a file is fetched again, if its content differs from what was received.
const FETCH_BACKOFF: Duration = Duration::from_millis(200);

/// Name of the upload in its job's folder.
const UPLOAD: &str = "upload";

/// Reason of an upload that fails because it exceeds its tenant's quota.
pub(crate) const OVER_QUOTA: &str = "symbol_quota";

/// Unpacks an upload and builds the new objects in it. Every step may be repeated.
pub(crate) async fn build_upload(
    resources: &BuildResources,
    job: &JobLease,
    id: UploadId,
) -> Result<(), JobFailure> {
    let owner = &job.owner;
    let mut tx = resources.storage.store.owner(owner).await?;
    let Some(upload) = uploads::find_upload(&mut tx, id).await? else {
        // The upload was deleted with its tenant.
        return complete_and_commit(tx, job).await;
    };
    if upload.status.is_final() {
        return complete_and_commit(tx, job).await;
    }
    uploads::mark_building(&mut tx, id).await?;
    tx.commit().await?;

    // Every upload that was received has a size.
    let room = resources
        .work
        .acquire_room(upload.size.unwrap_or_default(), resources.places.is_extra(job.id))
        .await?;
    download_upload(&resources.storage, owner, &upload, &room).await?;
    let name = upload.file_name.as_deref().unwrap_or("upload");
    let name = name.rsplit(['/', '\\']).next().filter(|name| !name.is_empty()).unwrap_or("upload");
    let unpacked = unpack_file(resources, job, &room, UPLOAD, name).await?;
    if unpacked.slices.is_empty() {
        let mut tx = resources.storage.store.owner(owner).await?;
        let (reason, detail) = explain_nothing(&unpacked.skipped);
        uploads::mark_failed(&mut tx, id, reason, &detail, &unpacked.skipped).await?;
        return complete_and_commit(tx, job).await;
    }
    let new = record_slices(resources, owner, id, &unpacked.slices).await?;
    for slice in new {
        build_slice(resources, job, &room, &slice).await?;
    }
    let mut tx = resources.storage.store.owner(owner).await?;
    let usable = end_upload(&mut tx, id, &unpacked.skipped).await?;
    complete_and_commit(tx, job).await?;
    if usable {
        // Its objects are kept by content. An upload without a usable object stays for the operator.
        discard_file(&resources.storage, &owner.own(id)).await;
    }
    Ok(())
}

/// Returns the reason and the detail of an upload in which there is no object.
fn explain_nothing(skipped: &[uploads::SkippedMember]) -> (&'static str, String) {
    let encrypted = SkipReason::EncryptedBinary;
    match skipped.iter().find(|member| member.reason == encrypted.as_str()) {
        Some(member) => (encrypted.as_str(), format!("{}: {encrypted}", member.path)),
        None => {
            ("nothing_found", "there is no Mach-O file and no source map with a debug id in it".to_owned())
        }
    }
}

/// Deletes the file of an upload that has ended. If that fails, maintenance deletes it later.
pub(crate) async fn discard_file(storage: &JobStorage, upload: &Owned<UploadId>) {
    let discarded = async {
        storage.objects.delete(&keys::for_upload(upload)).await?;
        let mut tx = storage.store.owner(&upload.owner).await?;
        uploads::files::record_removed(&mut tx, upload.id).await?;
        Ok::<(), JobFailure>(tx.commit().await?)
    };
    if let Err(failure) = discarded.await {
        tracing::warn!(upload.id = %upload.id, ?failure, "a finished upload's file could not be removed");
    }
}

async fn complete_and_commit(mut tx: OwnerTx, job: &JobLease) -> Result<(), JobFailure> {
    jobs::complete_job(&mut tx, job).await?;
    Ok(tx.commit().await?)
}

/// Ends the upload's record: as done if an object in it is usable.
async fn end_upload(
    tx: &mut OwnerTx,
    id: UploadId,
    skipped: &[uploads::SkippedMember],
) -> Result<bool, JobFailure> {
    let objects = uploads::get(tx, id).await?.map(|(_, objects)| objects).unwrap_or_default();
    let usable = objects.iter().any(|uploaded| uploaded.object.status == ObjectStatus::Ready);
    // Objects that were deleted during the build of this upload have left no row, and no failure.
    match objects.iter().find(|uploaded| uploaded.object.reason.is_some()).filter(|_| !usable) {
        Some(first) => {
            let reason = first.object.reason.as_deref().unwrap_or_default();
            let detail = format!("nothing in it is usable; {}: {reason}", first.path);
            uploads::mark_failed(tx, id, "nothing_usable", &detail, skipped).await?;
        }
        None => uploads::mark_done(tx, id, skipped).await?,
    }
    Ok(usable)
}

/// Fetches the uploaded file and compares it with what the api received. A file that came in parts is
/// compared with what was announced.
async fn download_upload(
    storage: &JobStorage,
    owner: &Owner,
    upload: &SymbolUpload,
    room: &Room,
) -> Result<(), JobFailure> {
    let path = room.path().join(UPLOAD);
    let key = keys::for_upload(owner.own(upload.id));
    let limit = upload.size.unwrap_or_default();
    let read = read_again(&key, FETCH_BACKOFF, || async {
        // An earlier try may have left its file.
        tokio::fs::remove_file(&path).await.ok();
        match storage.objects.get_to_file(&key, &path, limit).await {
            Ok(Some(fetched)) if upload.content_hash.is_some_and(|hash| hash != fetched.sha256) => {
                Ok(Err(Wrong::Other(fetched.sha256)))
            }
            Ok(Some(_)) => Ok(Ok(())),
            Ok(None) => Ok(Err(Wrong::Absent)),
            Err(StorageError::TooLarge { .. }) => Ok(Err(Wrong::Longer)),
            Err(error) => Err(JobFailure::from(error)),
        }
    });
    let wrong = match read.await? {
        Ok(()) => return Ok(()),
        Err(wrong) => wrong,
    };
    let reason = if wrong == Wrong::Absent { "upload_lost" } else { "upload_changed" };
    let wanted = match (&wrong, upload.content_hash) {
        (Wrong::Other(_), Some(hash)) => format!(", and {hash} was received or announced"),
        _ => String::new(),
    };
    Err(JobFailure::job(reason, format!("the stored file {wrong}{wanted}")))
}

/// Records every slice, so that the client sees them all at once. Returns the slices to build.
async fn record_slices(
    resources: &BuildResources,
    owner: &Owner,
    upload: UploadId,
    slices: &[UploadedSlice],
) -> Result<Vec<UploadedSlice>, JobFailure> {
    let mut new: Vec<UploadedSlice> = Vec::new();
    // All in one transaction, under the lock that the check of the limit takes.
    let mut tx = resources.storage.store.owner(owner).await?;
    check_quota(resources, &mut tx, owner, slices).await?;
    let found: Vec<_> = slices.iter().map(|slice| (slice.path.as_str(), &slice.new)).collect();
    let found = objects::record_found(&mut tx, upload, &found).await?;
    for (slice, (_, known)) in slices.iter().zip(found) {
        let again = new.iter().any(|other| other.new.content_hash == slice.new.content_hash);
        if !known && !again {
            new.push(slice.clone());
        }
    }
    tx.commit().await?;
    Ok(new)
}

/// Returns the limit on the stored symbols of the transaction's owner, in bytes.
async fn read_symbol_limit(resources: &BuildResources, tx: &mut OwnerTx) -> Result<u64, JobFailure> {
    let own = tenants::get(tx).await?.map_or(0, |tenant| tenant.limits.symbol_bytes);
    Ok(if own == 0 { resources.symbol_bytes } else { own })
}

/// Checks that the new objects in these slices fit into the tenant's quota: the api only knows the packed
/// size of the file. Symbols that operators store for all tenants have no limit.
async fn check_quota(
    resources: &BuildResources,
    tx: &mut OwnerTx,
    owner: &Owner,
    slices: &[UploadedSlice],
) -> Result<(), JobFailure> {
    if *owner == Owner::System {
        return Ok(usage::lock_usage(tx).await?);
    }
    let limit = read_symbol_limit(resources, tx).await?;
    let used = usage::hold_symbols(tx).await?.stored;
    let slices: Vec<_> = slices.iter().map(|slice| (slice.new.content_hash, slice.new.size)).collect();
    let more = usage::new_bytes(tx, &slices).await?;
    if more > 0 && used.saturating_add(more) > limit {
        let detail =
            format!("{used} bytes of symbols are stored, {more} more are in it, and the limit is {limit}");
        return Err(JobFailure::job(OVER_QUOTA, detail));
    }
    Ok(())
}

/// Processes one new object: keeps it by content, builds it, and publishes its symcache.
async fn build_slice(
    resources: &BuildResources,
    job: &JobLease,
    room: &Arc<Room>,
    slice: &UploadedSlice,
) -> Result<(), JobFailure> {
    let (owner, object) = (&job.owner, &slice.new.content_hash);
    store_slice(&resources.storage, slice, &keys::for_object(owner.own(*object)), &Condition::Absent).await?;
    if let Some((status, reason)) = &slice.rejected {
        return reject_object(&resources.storage, owner, object, *status, reason).await;
    }
    let mut tx = resources.storage.store.owner(owner).await?;
    objects::mark_building(&mut tx, object).await?;
    tx.commit().await?;
    match build_symcaches(resources, job, room, slice).await {
        Ok(built) => {
            publish_symcaches(resources, owner, room, slice, &built).await?;
            Ok(())
        }
        Err(ChildError::Rejected(status, reason)) => {
            reject_object(&resources.storage, owner, object, status, &reason).await
        }
        Err(ChildError::Failed(failure)) => Err(failure),
    }
}

/// Builds an object's symcaches, or returns why none can be built.
pub(crate) async fn build_symcaches(
    resources: &BuildResources,
    job: &JobLease,
    room: &Arc<Room>,
    slice: &UploadedSlice,
) -> ChildAnswer<BuiltSymcaches> {
    let task = Task::Build { file: slice.file.clone(), range: slice.range.clone(), bundle: None };
    let BuiltSlice { quality, mut warnings, sha256 } = child::run_task(resources, job, room, task).await?;
    let symcache = Bytes::from(tokio::fs::read(room.path().join(SYMCACHE)).await?);
    let mut versions = resources.settings.symcache_versions.clone();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    let form = |version| SymcacheForm { version, symcache: symcache.clone(), sha256 };
    let forms = versions.into_iter().map(form).collect();
    let derived = derive_objects(resources, job, room, slice).await?;
    warnings.extend(derived.warnings);
    Ok(BuiltSymcaches { quality, warnings, forms, derived: derived.built })
}

pub(crate) async fn reject_object(
    storage: &JobStorage,
    owner: &Owner,
    object: &ContentHash,
    status: ObjectStatus,
    reason: &str,
) -> Result<(), JobFailure> {
    let mut tx = storage.store.owner(owner).await?;
    objects::mark_rejected(&mut tx, object, status, reason).await?;
    tx.commit().await?;
    Ok(())
}

/// Stores a slice's bytes under a key.
pub(crate) async fn store_slice(
    storage: &JobStorage,
    slice: &UploadedSlice,
    key: &ObjectKey,
    condition: &Condition,
) -> Result<(), JobFailure> {
    let size = slice.new.size;
    if *condition == Condition::Absent && storage.objects.head(key).await?.is_some_and(|h| h.size == size) {
        return Ok(());
    }
    let source = open_range(&slice.file, slice.range.start, size).await?;
    let put = Put { condition: condition.clone(), ..Put::default() };
    match storage.objects.put_stream(key, source, size, &put).await {
        Ok(_) => Ok(()),
        // The key is the content's hash: another writer has stored the same bytes.
        Err(StorageError::Precondition { .. }) if *condition == Condition::Absent => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn open_range(
    path: &Path,
    start: u64,
    size: u64,
) -> Result<tokio::io::Take<tokio::fs::File>, JobFailure> {
    let mut file = tokio::fs::File::open(path).await?;
    file.seek(std::io::SeekFrom::Start(start)).await?;
    Ok(file.take(size))
}

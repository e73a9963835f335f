//! Deletes the parts of uploads that will not be completed. No listing of objects contains them.

use crate::failure::JobFailure;
use crate::storage::JobStorage;
use unslide_artifacts::{StorageError, keys};
use unslide_model::Owner;
use unslide_store::partial::{self, Partial};

/// Deletes an upload's parts, or the file that they have become, and then the upload's row. If object storage
/// refuses to delete parts, they are left to the bucket's lifecycle rule, so that they do not block others.
pub(crate) async fn clear_or_leave(
    storage: &JobStorage,
    owner: &Owner,
    partial: &Partial,
) -> Result<(), JobFailure> {
    match abort_parts(storage, owner, partial).await {
        Err(error) if error.is_operators_fault() => {
            tracing::warn!(upload.id = %partial.id, error = %error, "an upload's parts could not be removed");
        }
        aborted => aborted?,
    }
    forget_upload(storage, owner, partial).await
}

pub(crate) async fn abort_parts(
    storage: &JobStorage,
    owner: &Owner,
    partial: &Partial,
) -> Result<(), StorageError> {
    storage.objects.abort_parts(&keys::for_upload(owner.own(partial.id)), &partial.multipart_id).await
}

/// Deletes the file that the parts may have become, and the row.
async fn forget_upload(storage: &JobStorage, owner: &Owner, partial: &Partial) -> Result<(), JobFailure> {
    storage.objects.delete(&keys::for_upload(owner.own(partial.id))).await?;
    let mut tx = storage.store.owner(owner).await?;
    partial::end_upload(&mut tx, partial.id).await?;
    Ok(tx.commit().await?)
}

//! The files that are still stored of uploads that are over.

use super::OwnedUpload;
use crate::column::OwnerColumn;
use crate::number::to_row32;
use crate::{OwnerTx, Result, Store, UploadId};
use time::{Duration, OffsetDateTime};
use unslide_model::Owned;

/// Uploads, of any owner, that have failed before one time or were done before another, and that may still
/// have a file; failed ones first, then the oldest. Without those that [`postpone_removal`] left for later.
pub async fn list_kept_files(
    store: &Store,
    failed_before: OffsetDateTime,
    done_before: OffsetDateTime,
    limit: u32,
) -> Result<Vec<Owned<UploadId>>> {
    let rows = sqlx::query_as!(
        OwnedUpload,
        r#"SELECT tenant AS "owner!: OwnerColumn", id AS "id!: UploadId" FROM unslide_uploads_kept($1, $2, $3, $4)"#,
        failed_before,
        done_before,
        store.now(),
        to_row32(limit)
    );
    Ok(rows.fetch_all(store.pool()).await?)
}

/// Records that an upload's file was removed.
pub async fn record_removed(tx: &mut OwnerTx, id: UploadId) -> Result<()> {
    let (connection, owner, now) = tx.parts();
    sqlx::query!(
        "UPDATE uploads SET file_gone_at = $3 WHERE tenant = $1 AND id = $2",
        owner,
        id as UploadId,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Leaves a file for an hour that could not be removed.
pub async fn postpone_removal(tx: &mut OwnerTx, id: UploadId) -> Result<()> {
    let (connection, owner, now) = tx.parts();
    sqlx::query!(
        "UPDATE uploads SET file_retry_at = $3 WHERE tenant = $1 AND id = $2",
        owner,
        id as UploadId,
        now + Duration::HOUR
    )
    .execute(connection)
    .await?;
    Ok(())
}

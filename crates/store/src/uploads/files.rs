//! The files of uploads that are over: what is still stored of them.

use crate::number::to_row32;
use crate::{OwnerTx, Result, Store, StoreError, Uuid};
use time::OffsetDateTime;
use unslide_model::{Owned, Owner};

/// Uploads, of any owner, that have failed before one time or were done before another, and whose file may
/// still be there; failed ones first, then the oldest.
///
/// # Errors
/// Where the database fails.
pub async fn kept(
    store: &Store,
    failed_before: OffsetDateTime,
    done_before: OffsetDateTime,
    limit: u32,
) -> Result<Vec<Owned<Uuid>>> {
    let rows = sqlx::query!(
        r#"SELECT tenant AS "tenant!", id AS "id!" FROM unslide_uploads_kept($1, $2, $3)"#,
        failed_before,
        done_before,
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?;
    let owned = |owner: &str, id| Owner::read(owner).map(|owner| owner.own(id));
    let owned = rows.iter().map(|row| owned(&row.tenant, row.id));
    owned.map(|owned| owned.map_err(|e| StoreError::corrupt("uploads", e))).collect()
}

/// Notes that an upload's file was removed.
///
/// # Errors
/// Where the database fails.
pub async fn gone(tx: &mut OwnerTx, id: Uuid) -> Result<()> {
    let (connection, owner, now) = tx.parts();
    sqlx::query!("UPDATE uploads SET file_gone_at = $3 WHERE tenant = $1 AND id = $2", owner, id, now)
        .execute(connection)
        .await?;
    Ok(())
}

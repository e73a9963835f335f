//! Objects that are no longer referenced.

use crate::column::TenantColumn;
use crate::number::to_row32;
use crate::{OwnerTx, Result, Store, TenantTx};
use time::{Duration, OffsetDateTime};
use unslide_model::TenantId;

/// Abandons the intents from before `before`: their writers have died. Returns their number.
pub async fn abandon_intents(store: &Store, before: OffsetDateTime) -> Result<i64> {
    Ok(sqlx::query_scalar!(r#"SELECT unslide_segments_abandon($1, $2) AS "gone!""#, before, store.now())
        .fetch_one(store.pool())
        .await?)
}

/// An object that is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condemned {
    /// The tenant of the file.
    pub tenant: TenantId,
    /// Its key.
    pub key: String,
    /// Since when nothing refers to it.
    pub condemned_at: OffsetDateTime,
}

/// Returns objects that were condemned before `before`, the oldest first, without those that [`postpone_object`]
/// left for later.
pub async fn condemned_due(store: &Store, before: OffsetDateTime, limit: u32) -> Result<Vec<Condemned>> {
    Ok(sqlx::query_as!(
        Condemned,
        r#"SELECT tenant AS "tenant!: TenantColumn", key AS "key!", condemned_at AS "condemned_at!"
           FROM unslide_condemned_due($1, $2, $3)"#,
        before,
        store.now(),
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?)
}

/// Condemns objects of the transaction's tenant. Of one that is condemned already the time stays.
pub async fn condemn_objects(tx: &mut OwnerTx, keys: &[String]) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let (_, _, now) = tx.parts();
    condemn_at(tx, keys, now).await
}

/// Condemns objects of the transaction's tenant as of a time, which may be in the future.
pub async fn condemn_at(tx: &mut OwnerTx, keys: &[String], at: OffsetDateTime) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO condemned_objects (tenant, key, condemned_at) SELECT $1, k, $3 FROM unnest($2::text[]) AS k
         ON CONFLICT DO NOTHING",
        tenant,
        keys,
        at
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Leaves an object for later that could not be deleted: it is due again after a pause that grows with the
/// time for which it has been condemned.
pub async fn postpone_object(tx: &mut TenantTx, condemned: &Condemned) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE condemned_objects SET retry_at = $3 WHERE tenant = $1 AND key = $2",
        tenant,
        condemned.key,
        now + (now - condemned.condemned_at).clamp(Duration::MINUTE, Duration::HOUR)
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Counts the objects, of all tenants, that could not be deleted and are retried: for metrics.
pub async fn count_undeleted(store: &Store) -> Result<i64> {
    Ok(sqlx::query_scalar!(r#"SELECT unslide_objects_undeleted() AS "objects!""#)
        .fetch_one(store.pool())
        .await?)
}

/// Forgets objects that were deleted.
pub async fn forget_objects(tx: &mut TenantTx, keys: &[String]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM condemned_objects WHERE tenant = $1 AND key = ANY ($2)", tenant, keys)
        .execute(connection)
        .await?;
    Ok(())
}

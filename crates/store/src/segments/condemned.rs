//! Objects that nothing refers to any more.

use crate::number::to_row32;
use crate::{Result, Store, StoreError, TenantTx};
use time::OffsetDateTime;
use unslide_model::{ReportId, TenantId};

/// Gives up the intents from before `before`: their writers have died. Gives how many.
///
/// # Errors
/// Where the database fails.
pub async fn abandon(store: &Store, before: OffsetDateTime) -> Result<i64> {
    Ok(sqlx::query_scalar!(r#"SELECT unslide_segments_abandon($1, $2) AS "gone!""#, before, store.now())
        .fetch_one(store.pool())
        .await?)
}

/// An object that is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condemned {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its key.
    pub key: String,
    /// Since when nothing refers to it.
    pub condemned_at: OffsetDateTime,
}

/// Objects that were condemned before `before`, the longest first.
///
/// # Errors
/// Where the database fails.
pub async fn condemned_due(store: &Store, before: OffsetDateTime, limit: u32) -> Result<Vec<Condemned>> {
    let rows = sqlx::query!(
        r#"SELECT tenant AS "tenant!", key AS "key!", condemned_at AS "condemned_at!"
           FROM unslide_condemned_due($1, $2)"#,
        before,
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Condemned {
                tenant: TenantId::new(&row.tenant)
                    .map_err(|e| StoreError::corrupt("condemned_objects", e))?,
                key: row.key,
                condemned_at: row.condemned_at,
            })
        })
        .collect()
}

/// Condemns objects of the transaction's tenant. Of one that is condemned already the time stays.
///
/// # Errors
/// Where the database fails.
pub async fn condemn(tx: &mut TenantTx, keys: &[String]) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO condemned_objects (tenant, key, condemned_at) SELECT $1, k, $3 FROM unnest($2::text[]) AS k
         ON CONFLICT DO NOTHING",
        tenant,
        keys,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Forgets objects that were deleted.
///
/// # Errors
/// Where the database fails.
pub async fn forget(tx: &mut TenantTx, keys: &[String]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM condemned_objects WHERE tenant = $1 AND key = ANY ($2)", tenant, keys)
        .execute(connection)
        .await?;
    Ok(())
}

/// Notes objects that hold the bodies of stored reports besides the store itself, so that they go
/// when the report goes: when it arrived, its id, its variant, the key.
///
/// # Errors
/// Where the database fails.
pub async fn apart(tx: &mut TenantTx, bodies: &[(OffsetDateTime, ReportId, u32, &str)]) -> Result<()> {
    for (received_at, report_id, variant, key) in bodies {
        let (connection, tenant, _) = tx.parts();
        sqlx::query!(
            "INSERT INTO apart_bodies (tenant, key, received_at, report_id, variant) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT DO NOTHING",
            tenant,
            key,
            received_at,
            report_id.uuid(),
            to_row32(*variant)
        )
        .execute(connection)
        .await?;
    }
    Ok(())
}

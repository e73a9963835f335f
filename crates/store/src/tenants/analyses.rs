//! The analyses of reports that a tenant has turned off.

use super::TenantStanding;
use crate::{OwnerTx, Result, TenantTx};

/// Returns the names of the analyses that the transaction's tenant has turned off.
pub async fn disabled_analyses(tx: &mut OwnerTx) -> Result<Vec<String>> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!("SELECT disabled_analyses FROM tenants WHERE slug = $1", tenant);
    Ok(found.fetch_optional(connection).await?.unwrap_or_default())
}

/// Turns an analysis of the transaction's tenant on or off, and announces it to the workers. Returns the outbox row of
/// the announcement; `None` if there is no such tenant.
pub async fn set_enabled(tx: &mut TenantTx, name: &str, is_enabled: bool) -> Result<Option<i64>> {
    let locked = super::lock_tenant(tx).await?.filter(|tenant| tenant.state != TenantStanding::Deleted);
    let Some(record) = locked else { return Ok(None) };
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE tenants
         SET disabled_analyses = array_remove(disabled_analyses, $2) || CASE WHEN $3 THEN '{}' ELSE ARRAY[$2] END
         WHERE slug = $1",
        tenant,
        name,
        is_enabled
    )
    .execute(connection)
    .await?;
    let changed = super::change_tenant(tx, &record.name, record.state, &record.limits).await?;
    Ok(changed.map(|(_, announcement)| announcement))
}

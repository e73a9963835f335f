//! The analyses of reports that a tenant has switched from their default to the other position.

use super::TenantStanding;
use crate::{OwnerTx, Result, TenantTx};

/// Returns the names of the analyses that the transaction's tenant has switched to the other position: off, or on for
/// those that are off by default. The column is older than analyses that are off by default.
pub async fn switched_analyses(tx: &mut OwnerTx) -> Result<Vec<String>> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!("SELECT disabled_analyses FROM tenants WHERE slug = $1", tenant);
    Ok(found.fetch_optional(connection).await?.unwrap_or_default())
}

/// Switches an analysis of the transaction's tenant to its default position or to the other one, and announces it to
/// the workers. Returns the outbox row of the announcement; `None` if there is no such tenant.
pub async fn set_analysis(tx: &mut TenantTx, name: &str, is_default: bool) -> Result<Option<i64>> {
    let locked = super::lock_tenant(tx).await?.filter(|tenant| tenant.state != TenantStanding::Deleted);
    let Some(record) = locked else { return Ok(None) };
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE tenants
         SET disabled_analyses = array_remove(disabled_analyses, $2) || CASE WHEN $3 THEN '{}' ELSE ARRAY[$2] END
         WHERE slug = $1",
        tenant,
        name,
        is_default
    )
    .execute(connection)
    .await?;
    let changed = super::change_tenant(tx, &record.name, record.state, &record.limits).await?;
    Ok(changed.map(|(_, announcement)| announcement))
}

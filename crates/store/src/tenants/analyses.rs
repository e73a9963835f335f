//! The analyses of reports that a tenant has turned on or off.

use super::TenantStanding;
use crate::column::JsonColumn;
use crate::{OwnerTx, Result, TenantTx};
use std::collections::BTreeMap;

/// Names of analyses and whether the tenant has turned them on or off. The default counts for an analysis that is not
/// named, so a new default changes no choice.
pub type AnalysisSwitches = BTreeMap<String, bool>;

/// Returns the analyses that the transaction's tenant has turned on or off.
pub async fn read_switches(tx: &mut OwnerTx) -> Result<AnalysisSwitches> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!(
        r#"SELECT analysis_switches AS "switches: JsonColumn<AnalysisSwitches>" FROM tenants WHERE slug = $1"#,
        tenant
    );
    Ok(found.fetch_optional(connection).await?.map(|switches| switches.0).unwrap_or_default())
}

/// Turns an analysis of the transaction's tenant on or off, and announces it to the workers. Returns the outbox row of the
/// announcement; `None` if there is no such tenant.
pub async fn switch_analysis(tx: &mut TenantTx, name: &str, is_enabled: bool) -> Result<Option<i64>> {
    let locked = super::lock_tenant(tx).await?.filter(|tenant| tenant.state != TenantStanding::Deleted);
    let Some(record) = locked else { return Ok(None) };
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE tenants SET analysis_switches = analysis_switches || jsonb_build_object($2::text, $3::boolean)
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

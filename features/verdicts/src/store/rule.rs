//! When a resolved group comes back, as its tenant chose.

use unslide_store::{Result, StoreError, TenantTx};
use utoipa::ToSchema;

unslide_model::words! {
    /// When a resolved group comes back.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum RegressionRule {
        /// With the first report that contradicts that it is resolved.
        AnyReport = "any_report",
        /// When its verdict says that it is not fixed, if its app has sessions; else as with `any_report`.
        NotFixed = "not_fixed",
    }
}

/// Returns the rule of the transaction's tenant.
pub async fn read_rule(tx: &mut TenantTx) -> Result<RegressionRule> {
    let (connection, tenant, _) = tx.parts();
    let rule = sqlx::query_scalar!("SELECT rule FROM regression_rules WHERE tenant = $1", tenant);
    let Some(rule) = rule.fetch_optional(connection).await? else { return Ok(RegressionRule::NotFixed) };
    RegressionRule::parse(&rule)
        .ok_or_else(|| StoreError::corrupt("regression_rules", "a rule that is not known"))
}

/// Sets the rule of the transaction's tenant. Groups that wait for a verdict then come back at the next look, or wait on.
pub async fn set_rule(tx: &mut TenantTx, rule: RegressionRule) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO regression_rules (tenant, rule, changed_at) VALUES ($1, $2, $3)
         ON CONFLICT (tenant) DO UPDATE SET rule = EXCLUDED.rule, changed_at = EXCLUDED.changed_at",
        tenant,
        rule.as_str(),
        now
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!("UPDATE held_regressions SET next_look_at = $2 WHERE tenant = $1", tenant, now)
        .execute(connection)
        .await?;
    Ok(())
}

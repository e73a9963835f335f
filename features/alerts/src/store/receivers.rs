//! The statements on the secrets of receivers, and on the hooks by which pagers acknowledge.

use super::rules::AlertChannel;
use super::{AlertFiringId, AlertRuleId};
use time::OffsetDateTime;
use unslide_store::{Result, TenantTx, Uuid};

/// The encrypted address and secret of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedReceiver {
    pub address: Vec<u8>,
    /// None if there is no secret.
    pub secret: Option<Vec<u8>>,
    /// The part of the address that may be shown.
    pub shown_address: String,
}

/// The hook of a rule: who may acknowledge by it, and its secret.
#[derive(Clone, Debug)]
pub struct AlertHook {
    pub rule: AlertRuleId,
    /// The only app of the rule. A hook acknowledges no firing of another one.
    pub app: Option<String>,
    pub channel: AlertChannel,
    pub sealed_secret: Vec<u8>,
}

/// An acknowledgement that a pager tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagerAcknowledgement {
    /// The rule of a figure, or a firing: what the key of the pager's alert names.
    pub subject: Uuid,
    pub at: OffsetDateTime,
}

/// Writes the secret of the hooks of a rule, or removes it; with `app` only of a rule of that app. Returns false if there is no such rule.
pub async fn set_hook_secret(
    tx: &mut TenantTx,
    rule: AlertRuleId,
    app: Option<&str>,
    sealed: Option<&[u8]>,
) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let changed = sqlx::query!(
        "UPDATE alert_rules SET sealed_hook_secret = $4 WHERE tenant = $1 AND id = $2 AND ($3::text IS NULL OR app = $3)",
        tenant,
        rule as AlertRuleId,
        app,
        sealed
    )
    .execute(connection)
    .await?;
    Ok(changed.rows_affected() > 0)
}

/// Finds the hook of a rule. Returns `None` if the tenant has no such rule, or the rule has no secret of hooks.
pub async fn find_hook(tx: &mut TenantTx, rule: AlertRuleId) -> Result<Option<AlertHook>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        AlertHook,
        r#"SELECT id AS "rule: AlertRuleId", app, channel AS "channel: AlertChannel", sealed_hook_secret AS "sealed_secret!"
           FROM alert_rules WHERE tenant = $1 AND id = $2 AND sealed_hook_secret IS NOT NULL"#,
        tenant,
        rule as AlertRuleId
    )
    .fetch_optional(connection)
    .await?)
}

/// Returns the key that signs the links that mute a rule. Returns `None` if the tenant has no such rule.
pub async fn find_mute_key(tx: &mut TenantTx, rule: AlertRuleId) -> Result<Option<Vec<u8>>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        "SELECT link_key FROM alert_rules WHERE tenant = $1 AND id = $2",
        tenant,
        rule as AlertRuleId
    )
    .fetch_optional(connection)
    .await?)
}

/// Finds the open firing that an acknowledgement is about: it began before, and a receiver of the hook's channel was told of it. The
/// acknowledgement of a former time in which a figure was bad finds none.
pub async fn find_acknowledged(
    tx: &mut TenantTx,
    hook: &AlertHook,
    told: PagerAcknowledgement,
) -> Result<Option<AlertFiringId>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT f.id AS "id: AlertFiringId" FROM alert_firings f JOIN alert_rules r ON r.tenant = $1 AND r.id = f.rule
           WHERE f.tenant = $1 AND (f.id = $2 OR f.rule = $2 AND r.condition = 'figure')
             AND f.ended_at IS NULL AND f.acknowledged_at IS NULL AND f.began_at <= $3
             AND ($4::text IS NULL OR r.app = $4)
             AND EXISTS (SELECT FROM alert_rules t WHERE t.tenant = $1 AND t.id IN (f.rule, f.escalated_to) AND t.channel = $5)"#,
        tenant,
        told.subject,
        told.at,
        hook.app,
        hook.channel.as_str()
    )
    .fetch_optional(connection)
    .await?)
}

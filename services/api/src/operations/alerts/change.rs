//! `PATCH /v1/alert-rules/{id}`.

use super::{check, no_rule};
use crate::operations::prelude::*;
use crate::requests::input;
use unslide_store::alerts::rules::{self, AlertRule, AlertRuleChange};
use unslide_store::{Uuid, audit};

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound);

/// Change an alert rule
///
/// Mute it, switch it off, or change when it tells of what. For another receiver make another rule.
#[utoipa::path(patch, path = "/v1/alert-rules/{id}", tag = "alerts", operation_id = "change_alert_rule",
    params(("id" = Uuid, Path, description = "The rule's id.")),
    request_body = AlertRuleChange,
    responses((status = 200, description = "The rule as it is now.", body = AlertRule), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn change_alert_rule(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
    input::Json(change): input::Json<AlertRuleChange>,
) -> Result<Json<AlertRule>, Problem> {
    let id: Uuid = parameter("id", &id)?;
    check(change.name.as_deref(), None, change.threshold, change.digest_minutes)?;
    let mut tx = api.tenant(access.tenant()).await?;
    if !rules::change(&mut tx, id, access.only_app(), &change).await? {
        return Err(no_rule());
    }
    let rule = rules::get(&mut tx, id, access.only_app()).await?.ok_or_else(no_rule)?;
    let detail = serde_json::json!({"enabled": rule.enabled, "threshold": rule.threshold});
    let actor = access.principal.key_id.to_string();
    audit::append(&mut tx, &actor, "alert_rule.change", &id.to_string(), &detail).await?;
    tx.commit().await?;
    Ok(Json(rule))
}

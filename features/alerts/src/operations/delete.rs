//! `DELETE /v1/alert-rules/{id}`.

use super::no_rule;
use crate::store::{AlertRuleId, rule_table};
use axum::extract::State;
use http::StatusCode;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Path, Problem, TenantAdmin, problems};
use unslide_store::audit;

problems!(Failures: InvalidParameter, NotFound);

/// Delete an alert rule
///
/// Deletes the rule and its messages. Waiting messages are not sent.
#[utoipa::path(delete, path = "/v1/alert-rules/{id}", tag = "alerts", operation_id = "delete_alert_rule",
    params(("id" = Uuid, Path, description = "The rule's id.")),
    responses((status = 204, description = "The rule is deleted."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn delete_alert_rule(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Path(id): Path<AlertRuleId>,
) -> Result<StatusCode, Problem> {
    let mut tx = storage.tenant(access.tenant()).await?;
    if !rule_table::delete_rule(&mut tx, id, access.only_app()).await? {
        return Err(no_rule());
    }
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "alert_rule.delete", &id.to_string(), &serde_json::json!({}))
        .await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

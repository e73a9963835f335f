//! `DELETE /v1/chat/slack` removes the Slack app of the tenant.

use super::{EVERY_APP, SlackSetting};
use crate::store;
use axum::Json;
use axum::extract::State;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};
use unslide_store::audit;

problems!(Failures: );

/// Remove the Slack app
///
/// Its secrets are deleted, buttons do nothing any more, and people have to connect their accounts again. Messages in Slack stay.
#[utoipa::path(delete, path = "/v1/chat/slack", tag = "chat", operation_id = "remove_slack",
    responses((status = 200, description = "No Slack app is set.", body = SlackSetting), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn remove_slack(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<SlackSetting>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    if store::remove_app(&mut tx).await? {
        let actor = access.principal.key_id.to_string();
        audit::append_entry(&mut tx, &actor, "slack.remove", "slack", &json!({})).await?;
    }
    tx.commit().await?;
    Ok(Json(SlackSetting { slack: None }))
}

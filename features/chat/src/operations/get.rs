//! `GET /v1/chat/slack` shows the Slack app of the tenant.

use super::{EVERY_APP, ShownSlackApp, SlackSetting};
use crate::{ChatExtension, store};
use axum::extract::State;
use axum::{Extension, Json};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};

problems!(Failures: );

/// Get the Slack app
///
/// The Slack app of the tenant without its secrets, with the address of its requests and the problem that concerns all groups.
#[utoipa::path(get, path = "/v1/chat/slack", tag = "chat", operation_id = "get_slack",
    responses((status = 200, description = "The setting.", body = SlackSetting), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_slack(
    State(storage): State<Arc<Storage>>,
    Extension(chat): ChatExtension,
    access: Access<TenantAdmin>,
) -> Result<Json<SlackSetting>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let row = store::get_app(&mut tx).await?;
    Ok(Json(SlackSetting { slack: row.map(|row| ShownSlackApp::from_row(&chat, access.tenant(), row)) }))
}

//! `/console/assistants`: how an assistant is connected, and the access that the person gave.

use super::ASSISTANTS_PATH;
use crate::ids::McpGrantId;
use crate::oauth::McpExtension;
use crate::oauth::service_url::McpResource;
use crate::store::{self, McpGrantEntry};
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::HeaderMap;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Path, Problem, ReportsRead, parse_parameter};
use unslide_site::{Shell, SignedIn, Template, escaping, filters, render_html};
use unslide_store::{KeyId, audit};

#[derive(Template)]
#[template(path = "mcp/assistants.html", askama = escaping)]
struct AssistantsPage {
    shell: Shell,
    /// The address that a person gives to an assistant.
    url: String,
    /// True if people of the tenant sign in at an identity provider.
    signs_in: bool,
    grants: Vec<McpGrantEntry>,
}

/// `GET`: the access that the person gave.
pub async fn show_assistants(
    State(storage): State<Arc<Storage>>,
    mcp: McpExtension,
    signed: SignedIn<ReportsRead>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let access = signed.access;
    let signs_in = store::signs_people_in(&storage.store, Some(access.tenant())).await?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let grants = store::list_grants(&mut tx, KeyId::from_uuid(access.principal.key_id)).await?;
    tx.rollback();
    let resource = McpResource { tenant: Some(access.tenant().clone()) };
    let url = mcp.service_url(&headers).address_of(&resource.path());
    let shell = Shell::for_viewer(signed.viewer, crate::NAME, "Assistants");
    render_html(&AssistantsPage { shell, url, signs_in, grants })
}

/// `POST /console/assistants/{id}/end`: ends the access of an assistant. Nothing happens if it has none.
pub async fn end_assistant(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<ReportsRead>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = parse_parameter("id", &id).map(McpGrantId::from_uuid)?;
    let key_id = KeyId::from_uuid(signed.access.principal.key_id);
    let mut tx = storage.tenant(signed.access.tenant()).await?;
    if let Some(client) = store::end_grant(&mut tx, id, key_id).await? {
        let detail = json!({"client": client});
        audit::append_entry(&mut tx, &key_id.to_string(), "mcp.revoke", &id.to_string(), &detail).await?;
    }
    tx.commit().await?;
    Ok(Redirect::to(ASSISTANTS_PATH).into_response())
}

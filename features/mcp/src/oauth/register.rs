//! `POST /oauth/register`: dynamic registration of clients (RFC 7591).

use super::McpExtension;
use super::client::McpClient;
use super::failure::OAuthFailure;
use super::metadata::require_sign_in;
use axum::Json;
use axum::extract::{Request, State};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_site::read_form_bytes;

/// The facts of a client in its registration. Members that are not here mean nothing to this service.
#[derive(Deserialize)]
struct NewClient {
    redirect_uris: Vec<String>,
    client_name: Option<String>,
    grant_types: Option<Vec<String>>,
    response_types: Option<Vec<String>>,
}

/// Registers a client. It has no secret, whatever it asks for.
pub async fn register_client(
    State(storage): State<Arc<Storage>>,
    mcp: McpExtension,
    request: Request,
) -> Result<(StatusCode, Json<Value>), OAuthFailure> {
    let (parts, body) = request.into_parts();
    mcp.take_request(&storage, &parts.extensions)?;
    require_sign_in(&storage, None).await?;
    let body = read_form_bytes(&parts, body).await?;
    let invalid = |why: String| OAuthFailure::new("invalid_client_metadata", why);
    let new: NewClient = serde_json::from_slice(&body).map_err(|error| invalid(error.to_string()))?;
    let lacks = |given: &Option<Vec<String>>, needed: &str| {
        given.as_ref().is_some_and(|given| !given.iter().any(|one| one == needed))
    };
    if lacks(&new.grant_types, "authorization_code") {
        return Err(invalid("grant_types: authorization_code is needed".to_owned()));
    }
    if lacks(&new.response_types, "code") {
        return Err(invalid("response_types: code is needed".to_owned()));
    }
    let client = McpClient::register(new.client_name.as_deref(), &new.redirect_uris).map_err(|why| {
        let error =
            if why.starts_with("redirect") { "invalid_redirect_uri" } else { "invalid_client_metadata" };
        OAuthFailure::new(error, why)
    })?;
    let answer = json!({
        "client_id": client.id,
        "client_id_issued_at": storage.clock.now().unix_timestamp(),
        "client_name": client.name,
        "redirect_uris": new.redirect_uris,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    Ok((StatusCode::CREATED, Json(answer)))
}

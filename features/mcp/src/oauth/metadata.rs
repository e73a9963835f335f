//! Documents about the service, for clients: RFC 9728 about the resource, RFC 8414 about the authorization server.

use super::request::MCP_SCOPES;
use super::service_url::{AUTHORIZE_PATH, McpResource, ServiceUrl};
use super::{McpExtension, REGISTER_PATH, REVOKE_PATH, TOKEN_PATH};
use crate::store;
use axum::Json;
use axum::extract::State;
use http::{Extensions, HeaderMap, HeaderValue};
use serde_json::{Value, json};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Kind, Path, Problem};
use unslide_model::{Scope, TenantId};

/// The path of the document about the resource, before the resource's own.
pub const RESOURCE_DOCUMENT_PATH: &str = "/.well-known/oauth-protected-resource";
/// The path of the document about the authorization server.
pub const SERVER_DOCUMENT_PATH: &str = "/.well-known/oauth-authorization-server";

/// Returns the scopes of the protocol, as clients write them.
fn write_scopes() -> String {
    MCP_SCOPES.map(Scope::as_str).join(" ")
}

/// Returns the `WWW-Authenticate` that tells a client where to learn how it gets access. `error` is the reason of a refusal.
pub fn build_challenge(service: &ServiceUrl, resource: &McpResource, error: Option<&str>) -> HeaderValue {
    let error = error.map(|error| format!("error=\"{error}\", ")).unwrap_or_default();
    let document = service.address_of(&format!("{RESOURCE_DOCUMENT_PATH}{}", resource.path()));
    let text = format!(
        "Bearer realm=\"unslide\", {error}resource_metadata=\"{document}\", scope=\"{}\"",
        write_scopes()
    );
    // A host that no header can hold is none.
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("Bearer realm=\"unslide\""))
}

/// Refuses if no person of a tenant, or of any, signs in at an identity provider.
pub async fn require_sign_in(storage: &Storage, tenant: Option<&TenantId>) -> Result<(), Problem> {
    match store::signs_people_in(&storage.store, tenant).await? {
        true => Ok(()),
        false => Err(Problem::new(
            Kind::NotFound,
            "no identity provider is set for the sign-in of people: use an API key",
        )),
    }
}

/// `GET /.well-known/oauth-protected-resource/mcp`.
pub async fn describe_resource(
    State(storage): State<Arc<Storage>>,
    mcp: McpExtension,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Json<Value>, Problem> {
    mcp.take_request(&storage, &extensions)?;
    require_sign_in(&storage, None).await?;
    Ok(render_resource(&mcp.service_url(&headers), &McpResource { tenant: None }))
}

/// `GET /.well-known/oauth-protected-resource/mcp/{tenant}`.
pub async fn describe_tenant_resource(
    State(storage): State<Arc<Storage>>,
    mcp: McpExtension,
    Path(tenant): Path<TenantId>,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Json<Value>, Problem> {
    mcp.take_request(&storage, &extensions)?;
    require_sign_in(&storage, Some(&tenant)).await?;
    Ok(render_resource(&mcp.service_url(&headers), &McpResource { tenant: Some(tenant) }))
}

fn render_resource(service: &ServiceUrl, resource: &McpResource) -> Json<Value> {
    Json(json!({
        "resource": service.address_of(&resource.path()),
        "authorization_servers": [service.issuer()],
        "scopes_supported": MCP_SCOPES,
        "bearer_methods_supported": ["header"],
        "resource_name": "Unslide",
    }))
}

/// `GET /.well-known/oauth-authorization-server`.
pub async fn describe_server(
    State(storage): State<Arc<Storage>>,
    mcp: McpExtension,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Json<Value>, Problem> {
    mcp.take_request(&storage, &extensions)?;
    require_sign_in(&storage, None).await?;
    let service = mcp.service_url(&headers);
    Ok(Json(json!({
        "issuer": service.issuer(),
        "authorization_endpoint": service.address_of(AUTHORIZE_PATH),
        "token_endpoint": service.address_of(TOKEN_PATH),
        "registration_endpoint": service.address_of(REGISTER_PATH),
        "revocation_endpoint": service.address_of(REVOKE_PATH),
        "scopes_supported": MCP_SCOPES,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
        "client_id_metadata_document_supported": true,
    })))
}

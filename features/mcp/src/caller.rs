//! Who sends a message: the owner of an API key, or the person who gave an assistant access.

use crate::oauth::Mcp;
use crate::oauth::metadata::build_challenge;
use crate::oauth::service_url::McpResource;
use crate::oauth::token_text::{OAuthSecret, hash_bytes};
use crate::store;
use http::request::Parts;
use unslide_api::feature::Keys;
use unslide_api::feature::operation::{Access, Kind, Problem, ReportsRead};
use unslide_api::feature::site::{admit_request, authenticate_key, parse_bearer};
use unslide_store::keys::Principal;

/// Admits the sender of a message to a resource. A refusal tells the client how a person gives it access.
///
/// # Errors
/// The key or token does not count for this resource, has no scope `reports:read`, or too many requests run.
pub async fn admit_caller(
    parts: &Parts,
    keys: &Keys,
    mcp: &Mcp,
    resource: &McpResource,
) -> Result<Access<ReportsRead>, Problem> {
    let admitted = match find_principal(parts, keys, resource).await {
        Ok(principal) => admit_request(parts, &keys.capacity, principal, &parts.method),
        Err(problem) => Err(problem),
    };
    admitted.map_err(|problem| {
        let error = match problem.kind() {
            Kind::Unauthorized => parse_bearer(&parts.headers).map(|_| "invalid_token"),
            Kind::InsufficientScope => Some("insufficient_scope"),
            _ => return problem,
        };
        let service = mcp.service_url(&parts.headers);
        problem.with_challenge(build_challenge(&service, resource, error))
    })
}

async fn find_principal(parts: &Parts, keys: &Keys, resource: &McpResource) -> Result<Principal, Problem> {
    let refused = || Problem::from_kind(Kind::Unauthorized);
    let bearer = parse_bearer(&parts.headers).unwrap_or_default();
    let principal = match OAuthSecret::parse(bearer) {
        Some((_, OAuthSecret::Access(token))) => {
            let storage = &keys.storage;
            let owner = store::find_token_owner(&storage.store, &hash_bytes(token)).await?;
            let owner = owner.filter(|owner| owner.names_tenant == resource.tenant.is_some());
            let principal = owner.ok_or_else(refused)?.principal;
            let now = storage.clock.now();
            keys.uses.record_use(&principal.tenant, principal.key_id, principal.last_used_at, now);
            principal
        }
        _ => authenticate_key(&parts.extensions, keys, bearer).await?,
    };
    let is_own = resource.tenant.as_ref().is_none_or(|tenant| *tenant == principal.tenant);
    if is_own { Ok(principal) } else { Err(refused()) }
}

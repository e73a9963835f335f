//! `POST /oauth/token` and `POST /oauth/revoke`: codes and refresh tokens become tokens, and tokens end.

use super::McpExtension;
use super::failure::OAuthFailure;
use super::fields::RequestFields;
use super::service_url::ServiceUrl;
use super::token_text::{OAuthSecret, hash_bytes};
use crate::store::{self, HeldGrant, IssuedTokens, TokenHashes};
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use time::Duration;
use unslide_api::feature::Keys;
use unslide_api::feature::operation::Problem;
use unslide_model::{Scope, TenantId};
use unslide_site::{Caller, assign_caller, read_form_bytes};
use unslide_store::{TenantTx, audit};

/// How long an access token counts.
const ACCESS_LIFETIME: Duration = Duration::hours(1);
/// How long a grant lasts from the consent on: the person is asked again after it.
const GRANT_LIFETIME: Duration = Duration::days(30);
/// Characters of a verifier (RFC 7636, section 4.1).
const VERIFIER_CHARACTERS: std::ops::RangeInclusive<usize> = 43..=128;

/// A form that presents a code or a token.
struct PresentedForm {
    fields: RequestFields,
    service: ServiceUrl,
}

impl PresentedForm {
    async fn read(mcp: &McpExtension, keys: &Keys, request: Request) -> Result<PresentedForm, OAuthFailure> {
        let (parts, body) = request.into_parts();
        mcp.take_request(&keys.storage, &parts.extensions)?;
        let body = read_form_bytes(&parts, body).await?;
        Ok(PresentedForm { fields: RequestFields::parse(&body), service: mcp.service_url(&parts.headers) })
    }

    fn require(&self, name: &str) -> Result<&str, OAuthFailure> {
        self.fields.require(name).map_err(OAuthFailure::invalid_request)
    }

    /// Checks that the request comes from the client of a grant, and is for its resource.
    fn check_client(&self, tenant: &TenantId, grant: &HeldGrant) -> Result<(), OAuthFailure> {
        if hash_bytes(self.require("client_id")?).as_slice() != grant.client_hash {
            return Err(OAuthFailure::invalid_grant());
        }
        let Some(text) = self.fields.find("resource").map_err(OAuthFailure::invalid_request)? else {
            return Ok(());
        };
        let resource = self.service.parse_resource(text);
        let is_same = resource
            .is_some_and(|resource| resource.tenant.as_ref() == Some(tenant).filter(|_| grant.names_tenant));
        match is_same {
            true => Ok(()),
            false => Err(OAuthFailure::new("invalid_target", "resource: the access is for another one")),
        }
    }
}

/// Gives tokens for a code or a refresh token.
pub async fn issue_tokens(
    State(keys): State<Arc<Keys>>,
    mcp: McpExtension,
    request: Request,
) -> Result<Json<Value>, OAuthFailure> {
    let extensions = request.extensions().clone();
    let form = PresentedForm::read(&mcp, &keys, request).await?;
    let (name, is_code) = match form.require("grant_type")? {
        "authorization_code" => ("code", true),
        "refresh_token" => ("refresh_token", false),
        _ => return Err(OAuthFailure::new("unsupported_grant_type", "grant_type: one of the metadata's")),
    };
    let (tenant, secret) = OAuthSecret::parse(form.require(name)?).ok_or_else(OAuthFailure::invalid_grant)?;
    let hashes = match secret {
        OAuthSecret::Code(code) if is_code => {
            TokenHashes { code: Some(hash_bytes(code)), ..TokenHashes::default() }
        }
        OAuthSecret::Refresh { family, .. } if !is_code => {
            TokenHashes { refresh_family: Some(hash_bytes(family)), ..TokenHashes::default() }
        }
        _ => return Err(OAuthFailure::invalid_grant()),
    };
    assign_caller(&extensions, &keys.capacity, Caller::Public(tenant.clone()))?;
    let mut tx = keys.storage.tenant(&tenant).await?;
    let grant = store::hold_grant(&mut tx, hashes).await?.ok_or_else(OAuthFailure::invalid_grant)?;
    if is_replayed(&grant, secret) {
        // Two have the same code or token, and one of them is a thief.
        end_and_note(&mut tx, &grant, "mcp.replay").await?;
        tx.commit().await?;
        return Err(OAuthFailure::invalid_grant());
    }
    form.check_client(&tenant, &grant)?;
    if is_code {
        check_code(&form, &grant, tx.now())?;
    }
    if !grant.scopes.contains(&Scope::ReportsRead) {
        return Err(OAuthFailure::invalid_grant());
    }
    let random = || keys.entropy.generate_token().map_err(Problem::internal);
    let family = match secret {
        OAuthSecret::Refresh { family, .. } => family,
        _ => random()?,
    };
    let (access, own) = (random()?, random()?);
    let ends_at = grant.created_at + GRANT_LIFETIME;
    let access_ends_at = ends_at.min(tx.now() + ACCESS_LIFETIME);
    let issued = IssuedTokens {
        access_hash: hash_bytes(access),
        access_ends_at,
        refresh_family: hash_bytes(family),
        refresh_hash: hash_bytes(own),
        ends_at,
    };
    store::set_tokens(&mut tx, grant.id, &issued).await?;
    let seconds = (access_ends_at - tx.now()).whole_seconds();
    tx.commit().await?;
    let scopes: Vec<&str> = grant.scopes.iter().map(|scope| scope.as_str()).collect();
    Ok(Json(json!({
        "access_token": OAuthSecret::Access(access).write_text(&tenant),
        "token_type": "Bearer",
        "expires_in": seconds,
        "refresh_token": OAuthSecret::Refresh { family, own }.write_text(&tenant),
        "scope": scopes.join(" "),
    })))
}

/// Returns true for a code that was used, and for a refresh token that another one has replaced.
fn is_replayed(grant: &HeldGrant, secret: OAuthSecret) -> bool {
    match (&grant.refresh_hash, secret) {
        (used, OAuthSecret::Code(_)) => used.is_some(),
        (Some(current), OAuthSecret::Refresh { own, .. }) => hash_bytes(own).as_slice() != current,
        _ => false,
    }
}

/// Checks that a code is in time, went to the address that the client names, and comes from the program that has its verifier.
fn check_code(
    form: &PresentedForm,
    grant: &HeldGrant,
    now: time::OffsetDateTime,
) -> Result<(), OAuthFailure> {
    let (redirect, verifier) = (form.require("redirect_uri")?, form.require("code_verifier")?);
    let is_verifier = VERIFIER_CHARACTERS.contains(&verifier.len())
        && hash_bytes(verifier).as_slice() == grant.code_challenge;
    let is_same_redirect = hash_bytes(redirect).as_slice() == grant.redirect_hash;
    match grant.code_ends_at > now && is_verifier && is_same_redirect {
        true => Ok(()),
        false => Err(OAuthFailure::invalid_grant()),
    }
}

async fn end_and_note(tx: &mut TenantTx, grant: &HeldGrant, action: &str) -> Result<(), OAuthFailure> {
    if let Some(client) = store::end_grant(tx, grant.id, grant.key_id).await? {
        let detail = json!({"client": client});
        let actor = grant.key_id.to_string();
        audit::append_entry(tx, &actor, action, &grant.id.to_string(), &detail).await?;
    }
    Ok(())
}

/// Ends the grant of a token (RFC 7009). A token that is unknown gets the same answer.
pub async fn revoke_token(
    State(keys): State<Arc<Keys>>,
    mcp: McpExtension,
    request: Request,
) -> Result<Response, OAuthFailure> {
    let extensions = request.extensions().clone();
    let form = PresentedForm::read(&mcp, &keys, request).await?;
    let presented = OAuthSecret::parse(form.require("token")?);
    let (tenant, hashes) = match presented {
        Some((tenant, OAuthSecret::Access(token))) => {
            (tenant, TokenHashes { access: Some(hash_bytes(token)), ..TokenHashes::default() })
        }
        Some((tenant, OAuthSecret::Refresh { family, .. })) => {
            (tenant, TokenHashes { refresh_family: Some(hash_bytes(family)), ..TokenHashes::default() })
        }
        Some((_, OAuthSecret::Code(_))) | None => return Ok(StatusCode::OK.into_response()),
    };
    assign_caller(&extensions, &keys.capacity, Caller::Public(tenant.clone()))?;
    let mut tx = keys.storage.tenant(&tenant).await?;
    if let Some(grant) = store::hold_grant(&mut tx, hashes).await? {
        end_and_note(&mut tx, &grant, "mcp.revoke").await?;
    }
    tx.commit().await?;
    Ok(StatusCode::OK.into_response())
}

//! `POST /v1/scim-tokens`: makes a SCIM token.

use super::EVERY_APP;
use super::token_form::{NewScimToken, ScimToken};
use crate::token::SCIM_TOKENS;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use std::sync::Arc;
use unslide_api::feature::Keys;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, problems};
use unslide_model::Scope;
use unslide_store::audit;
use unslide_store::keys::create_record;
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge, LimitReached);

/// A SCIM token that was made, with its text.
#[derive(Serialize, ToSchema)]
pub struct CreatedScimToken {
    /// The token's record, as in the list of tokens.
    #[serde(flatten)]
    pub token: ScimToken,
    /// The token's text, for the identity provider. Shown this one time.
    #[schema(example = "uscim_00000000000000000000000000")]
    pub text: String,
}

/// Create a SCIM token
///
/// The identity provider of the tenant sends users and groups with it, below `/scim/v2`. On every other path it is an unknown key.
/// Because groups may give every scope but `operator`, the key that makes it needs all of these, for all apps. The token stays in
/// force when that key ends. A tenant may have 10 that are in force.
#[utoipa::path(post, path = "/v1/scim-tokens", tag = "scim", operation_id = "create_scim_token",
    request_body = NewScimToken,
    responses((status = 201, description = "The token was made.", body = CreatedScimToken), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn create_scim_token(
    State(keys): State<Arc<Keys>>,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewScimToken>,
) -> Result<(StatusCode, Json<CreatedScimToken>), Problem> {
    access.require_every_app(EVERY_APP)?;
    let missing =
        Scope::ALL.iter().find(|scope| **scope != Scope::Operator && !access.principal.has_scope(**scope));
    if let Some(scope) = missing {
        let detail = format!("the key lacks the scope {scope}, which groups that the token sends may give");
        return Err(Problem::new(Kind::InsufficientScope, detail));
    }
    let new = SCIM_TOKENS.check_new(new.into(), keys.storage.clock.now());
    let new = new.map_err(|wrong| Problem::new(Kind::InvalidBody, wrong))?;
    let entropy = keys.entropy.generate_key().map_err(Problem::internal)?;
    let actor = access.principal.key_id.to_string();
    let mut tx = keys.storage.tenant(access.tenant()).await?;
    let (token, text) = create_record(&mut tx, &SCIM_TOKENS, &new, &entropy).await?;
    let token = ScimToken::from(token);
    let detail = serde_json::json!({ "name": token.name });
    audit::append_entry(&mut tx, &actor, "scim_token.create", &token.id, &detail).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(CreatedScimToken { token, text: text.reveal().to_owned() })))
}

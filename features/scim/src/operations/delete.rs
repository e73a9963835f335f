//! `DELETE /v1/scim-tokens/{id}`: ends a SCIM token.

use super::EVERY_APP;
use super::token_form::filter_tokens;
use crate::token::SCIM_TOKENS;
use axum::extract::State;
use http::StatusCode;
use std::sync::Arc;
use unslide_api::feature::Keys;
use unslide_api::feature::operation::{Access, Kind, Path, Problem, TenantAdmin, check_texts, problems};
use unslide_store::audit;
use unslide_store::keys::{find_record, revoke_record};

/// The most bytes of an id in a path; more can't match.
const MAX_ID_BYTES: usize = 64;

problems!(Failures: InvalidParameter, NotFound);

/// Delete a SCIM token
///
/// It is refused after at most one second. Users and groups that were sent with it stay.
#[utoipa::path(delete, path = "/v1/scim-tokens/{id}", tag = "scim", operation_id = "delete_scim_token",
    params(("id" = String, Path, description = "The token's id: 8 hexadecimal digits.", max_length = 64)),
    responses((status = 204, description = "The token is gone."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn delete_scim_token(
    State(keys): State<Arc<Keys>>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    access.require_every_app(EVERY_APP)?;
    check_texts(Kind::InvalidParameter, MAX_ID_BYTES, [("id", Some(&*id))])?;
    let mut tx = keys.storage.tenant(access.tenant()).await?;
    let token = find_record(&mut tx, filter_tokens(), &id).await?;
    let token = token.ok_or_else(|| Problem::new(Kind::NotFound, "there is no such SCIM token"))?;
    revoke_record(&mut tx, &SCIM_TOKENS, &token.prefix, None).await?;
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "scim_token.delete", &token.prefix, &serde_json::json!({})).await?;
    tx.commit().await?;
    keys.cache.forget(access.tenant());
    Ok(StatusCode::NO_CONTENT)
}

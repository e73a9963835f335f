//! `DELETE /v1/keys/{id}`.

use crate::access::{Access, TenantAdmin};
use crate::input::{Path, parameter};
use crate::problem::{Kind, Problem, problems};
use crate::state::Api;
use axum::extract::State;
use http::StatusCode;
use unslide_store::{Uuid, audit, keys};

problems!(Failures: InvalidParameter, NotFound);

/// Revoke a key
///
/// It is refused from the next request on. Again is no error. A key that speaks for one app revokes keys
/// of that app only.
#[utoipa::path(delete, path = "/v1/keys/{id}", tag = "keys", operation_id = "revoke_key",
    params(("id" = Uuid, Path, description = "The key's id.")),
    responses((status = 204, description = "The key is revoked."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn revoke_key(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let id: Uuid = parameter("id", &id)?;
    let mut tx = api.tenant(access.tenant()).await?;
    if !keys::revoke(&mut tx, id, access.principal.app.as_deref()).await? {
        return Err(Problem::new(Kind::NotFound, "there is no such key"));
    }
    let actor = access.principal.key_id.to_string();
    audit::append(&mut tx, &actor, "key.revoke", &id.to_string(), &serde_json::json!({})).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

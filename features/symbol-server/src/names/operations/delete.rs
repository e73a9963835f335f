//! `DELETE /v1/names-keys/{id}`: ends a names key.

use super::super::store;
use axum::extract::State;
use http::StatusCode;
use std::sync::Arc;
use unslide_api::feature::Keys;
use unslide_api::feature::operation::{Access, Kind, Path, Problem, TenantAdmin, check_texts, problems};
use unslide_store::audit;

/// The most bytes of an id in a path; more can't match.
const MAX_ID_BYTES: usize = 64;

problems!(Failures: InvalidParameter, NotFound);

/// Delete a names key
///
/// It is refused after at most one second.
#[utoipa::path(delete, path = "/v1/names-keys/{id}", tag = "symbol-server", operation_id = "delete_names_key",
    params(("id" = String, Path, description = "The key's id: 8 hexadecimal digits.", max_length = 64)),
    responses((status = 204, description = "The key is gone."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn delete_names_key(
    State(keys): State<Arc<Keys>>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    check_texts(Kind::InvalidParameter, MAX_ID_BYTES, [("id", Some(&*id))])?;
    let mut tx = keys.storage.tenant(access.tenant()).await?;
    if !store::delete_key(&mut tx, &id, access.only_app()).await? {
        return Err(Problem::new(Kind::NotFound, "there is no such names key"));
    }
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "names_key.delete", &id, &serde_json::json!({})).await?;
    tx.commit().await?;
    keys.cache.forget(access.tenant());
    Ok(StatusCode::NO_CONTENT)
}

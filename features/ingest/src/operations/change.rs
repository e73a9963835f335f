//! `PATCH /v1/public-keys/{id}`: retires, closes or activates a public key.

use super::{check_id, no_key};
use crate::store::{self, IngestKey, IngestKeyState};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use std::sync::Arc;
use unslide_api::feature::Keys;
use unslide_api::feature::operation::{Access, JsonBody, Path, Problem, TenantAdmin, problems};
use unslide_store::audit;
use utoipa::ToSchema;

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound);

/// The state that a public key is to have.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PublicKeyChange)]
pub struct IngestKeyChange {
    /// One of `active`, `retired` and `closed`.
    #[schema(value_type = String, example = "retired")]
    pub state: IngestKeyState,
}

/// Change the state of a public key
///
/// A retired key is still accepted. A closed one is refused after at most one second, and apps that carry it lose
/// their reports; `active` opens it again for 30 days, after which its row is deleted.
#[utoipa::path(patch, path = "/v1/public-keys/{id}", tag = "ingest", operation_id = "change_public_key",
    params(("id" = String, Path, description = "The key's id: 8 hexadecimal digits.", max_length = 64)),
    request_body = IngestKeyChange,
    responses((status = 200, description = "The key as it is now.", body = IngestKey), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn change_public_key(
    State(keys): State<Arc<Keys>>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
    JsonBody(change): JsonBody<IngestKeyChange>,
) -> Result<Json<IngestKey>, Problem> {
    check_id(&id)?;
    let mut tx = keys.storage.tenant(access.tenant()).await?;
    let key = store::set_state(&mut tx, &id, access.only_app(), change.state).await?;
    let key = key.ok_or_else(no_key)?;
    let detail = serde_json::json!({"state": key.state});
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "public_key.change", &key.id, &detail).await?;
    tx.commit().await?;
    keys.cache.forget(access.tenant());
    Ok(Json(key))
}

//! `GET /v1/keys`.

use super::Key;
use crate::access::{Access, TenantAdmin};
use crate::problem::{Problem, problems};
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use unslide_store::keys;
use utoipa::ToSchema;

/// All keys of a tenant.
#[derive(Debug, Serialize, ToSchema)]
pub struct Keys {
    /// The keys, oldest first.
    pub items: Vec<Key>,
}

problems!(Failures:);

/// List the own tenant's keys
///
/// Revoked and expired ones too, oldest first. The texts are not known to the service.
#[utoipa::path(get, path = "/v1/keys", tag = "keys", operation_id = "list_keys",
    responses((status = 200, description = "The keys.", body = Keys), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_keys(State(api): State<Api>, access: Access<TenantAdmin>) -> Result<Json<Keys>, Problem> {
    let mut tx = api.store.tenant(access.tenant()).await?;
    let items = keys::list(&mut tx).await?.into_iter().map(Key::from).collect();
    Ok(Json(Keys { items }))
}

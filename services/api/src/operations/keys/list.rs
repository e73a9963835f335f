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
/// Revoked and expired ones too, oldest first. The texts are not known to the service. A key that speaks
/// for one app sees the keys of that app.
#[utoipa::path(get, path = "/v1/keys", tag = "keys", operation_id = "list_keys",
    responses((status = 200, description = "The keys.", body = Keys), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_keys(State(api): State<Api>, access: Access<TenantAdmin>) -> Result<Json<Keys>, Problem> {
    let mut tx = api.tenant(access.tenant()).await?;
    let own = &access.principal.app;
    let seen = keys::list(&mut tx).await?.into_iter().filter(|key| own.is_none() || key.app == *own);
    let items = seen.map(Key::from).collect();
    tx.rollback().await?;
    Ok(Json(Keys { items }))
}

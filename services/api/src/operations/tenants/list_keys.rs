//! `GET /v1/tenants/{tenant}/keys`.

use super::nobody;
use crate::access::{Access, Operator};
use crate::input::{Path, parameter};
use crate::operations::keys::{Key, Keys};
use crate::problem::{Problem, problems};
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use unslide_model::TenantId;
use unslide_store::{keys, tenants};

problems!(Failures: InvalidParameter, NotFound);

/// List a tenant's keys
///
/// Revoked and expired ones too, oldest first. The texts are not known to the service.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/keys", tag = "tenants", operation_id = "list_tenant_keys",
    params(("tenant" = String, Path, description = "The tenant's slug.")),
    responses((status = 200, description = "The keys.", body = Keys), Failures),
    security(("key" = ["operator"])))]
pub async fn list_tenant_keys(
    State(api): State<Api>,
    _access: Access<Operator>,
    Path(tenant): Path<String>,
) -> Result<Json<Keys>, Problem> {
    let tenant: TenantId = parameter("tenant", &tenant)?;
    let mut tx = api.store.tenant(&tenant).await?;
    tenants::get(&mut tx).await?.ok_or_else(nobody)?;
    let items = keys::list(&mut tx).await?.into_iter().map(Key::from).collect();
    tx.rollback().await?;
    Ok(Json(Keys { items }))
}

//! `DELETE /v1/tenants/{tenant}/keys/{id}`.

use super::nobody;
use crate::access::{Access, Operator};
use crate::input::{Path, parameter};
use crate::problem::{Kind, Problem, problems};
use crate::state::Api;
use axum::extract::State;
use http::StatusCode;
use unslide_model::TenantId;
use unslide_store::tenants::State as Standing;
use unslide_store::{Uuid, audit, keys, tenants};

problems!(Failures: InvalidParameter, NotFound);

/// Revoke a key of a tenant
///
/// It is refused from the next request on. Again is no error.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}/keys/{id}", tag = "tenants", operation_id = "revoke_tenant_key",
    params(("tenant" = String, Path, description = "The tenant's slug."), ("id" = Uuid, Path, description = "The key's id.")),
    responses((status = 204, description = "The key is revoked."), Failures),
    security(("key" = ["operator"])))]
pub async fn revoke_tenant_key(
    State(api): State<Api>,
    access: Access<Operator>,
    Path((tenant, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let tenant: TenantId = parameter("tenant", &tenant)?;
    let id: Uuid = parameter("id", &id)?;
    let mut tx = api.store.tenant(&tenant).await?;
    let found = tenants::get(&mut tx).await?;
    if found.is_none_or(|tenant| tenant.state == Standing::Deleted) {
        return Err(nobody());
    }
    if !keys::revoke(&mut tx, id, None).await? {
        return Err(Problem::new(Kind::NotFound, "there is no such key"));
    }
    let actor = access.principal.key_id.to_string();
    audit::append(&mut tx, &actor, "key.revoke", &id.to_string(), &serde_json::json!({})).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

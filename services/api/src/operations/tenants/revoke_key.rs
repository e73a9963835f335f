//! `DELETE /v1/tenants/{tenant}/keys/{id}`.

use super::no_such_tenant;
use crate::operations::keys::{RevokeQuery, RevokedKey, revoke_and_count};
use crate::operations::prelude::*;
use unslide_model::TenantId;
use unslide_store::tenants::TenantStanding;
use unslide_store::{Uuid, tenants};

problems!(Failures: InvalidParameter, NotFound);

/// Revoke a key of a tenant
///
/// Works as `DELETE /v1/keys/{id}`. Keys that descend from it are counted and revoked in every tenant.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}/keys/{id}", tag = "tenants", operation_id = "revoke_tenant_key",
    params(("tenant" = String, Path, description = "The tenant's slug."), ("id" = Uuid, Path, description = "The key's id."), RevokeQuery),
    responses((status = 200, description = "The key is revoked.", body = RevokedKey), Failures),
    security(("key" = ["operator"])))]
pub async fn revoke_tenant_key(
    State(keys): State<Arc<Keys>>,
    access: Access<Operator>,
    Path((tenant, id)): Path<(TenantId, Uuid)>,
    Query(query): Query<RevokeQuery>,
) -> Result<Json<RevokedKey>, Problem> {
    let mut tx = keys.storage.store.tenant(&tenant).await?;
    let found = tenants::get(&mut tx).await?;
    if found.is_none_or(|tenant| tenant.state == TenantStanding::Deleted) {
        return Err(no_such_tenant());
    }
    revoke_and_count(&keys, tx.into(), &access.principal, id, query, None).await.map(Json)
}

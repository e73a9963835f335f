//! `GET /v1/tenants/{tenant}`.

use super::{TenantDetail, no_such_tenant};
use crate::operations::prelude::*;
use unslide_model::TenantId;
use unslide_store::{erasure, tenants, usage};

problems!(Failures: InvalidParameter, NotFound);

/// Get a tenant and its usage
///
/// A deleted tenant also has the progress of its erasure. After the end it has the proof: the removed rows by
/// table, and that nothing was left.
#[utoipa::path(get, path = "/v1/tenants/{tenant}", tag = "tenants", operation_id = "get_tenant",
    params(("tenant" = String, Path, description = "The tenant's slug.")),
    responses((status = 200, description = "The tenant.", body = TenantDetail), Failures),
    security(("key" = ["operator"])))]
pub async fn get_tenant(
    State(storage): State<Arc<Storage>>,
    _access: Access<Operator>,
    Path(tenant): Path<TenantId>,
) -> Result<Json<TenantDetail>, Problem> {
    let mut tx = storage.store.tenant(&tenant).await?;
    let tenant = tenants::get(&mut tx).await?.ok_or_else(no_such_tenant)?;
    let usage = usage::get(&mut tx).await?;
    let erasure = erasure::get(&mut tx).await?;
    tx.rollback().await?;
    Ok(Json(TenantDetail { tenant, usage, erasure }))
}

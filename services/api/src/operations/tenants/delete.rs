//! `DELETE /v1/tenants/{tenant}`.

use super::{ChangedTenant, no_such_tenant, wait_announced};
use crate::operations::prelude::*;
use unslide_model::TenantId;
use unslide_store::{audit, erasure};

problems!(Failures: InvalidParameter, NotFound);

/// Delete a tenant permanently
///
/// Its keys are refused and its reports are dropped from now on. A builder removes all its data. `GET
/// /v1/tenants/{tenant}` shows the progress and the proof. The slug can never be used again. A second
/// deletion is no error.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}", tag = "tenants", operation_id = "delete_tenant",
    params(("tenant" = String, Path, description = "The tenant's slug.")),
    responses((status = 202, description = "The tenant is deleted; what it had is being removed.",
            headers(("location" = String, description = "The path of the tenant, which shows how far that is.")), body = ChangedTenant), Failures),
    security(("key" = ["operator"])))]
pub async fn delete_tenant(
    State(keys): State<Arc<Keys>>,
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<Operator>,
    Path(tenant): Path<TenantId>,
) -> Result<AcceptedResponse<ChangedTenant>, Problem> {
    if tenant == *access.tenant() {
        return Err(Problem::new(Kind::InvalidParameter, "tenant: a key cannot delete its own tenant"));
    }
    let mut tx = keys.storage.store.tenant(&tenant).await?;
    let (deleted, announcement) = erasure::begin_erasure(&mut tx).await?.ok_or_else(no_such_tenant)?;
    if announcement.is_some() {
        let actor = access.principal.key_id.to_string();
        audit::append_entry(&mut tx, &actor, "tenant.delete", tenant.as_str(), &serde_json::json!({}))
            .await?;
    }
    tx.commit().await?;
    keys.cache.clear();
    symbolication.symcaches.forget_tenant(&tenant);
    let announced = match announcement {
        Some(announcement) => wait_announced(&keys.storage, &tenant, announcement).await?,
        None => true,
    };
    let location = Some(format!("/v1/tenants/{tenant}"));
    Ok(AcceptedResponse { body: ChangedTenant { tenant: deleted, announced }, location })
}

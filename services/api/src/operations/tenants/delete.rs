//! `DELETE /v1/tenants/{tenant}`.

use super::{ChangedTenant, no_such_tenant, wait_announced};
use crate::operations::prelude::*;
use axum::response::{IntoResponse, Response};
use unslide_model::TenantId;
use unslide_store::tables::RemovalCount;
use unslide_store::{audit, erasure, tenants};

/// Whether the tenant is deleted.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteQuery {
    /// `true` only counts what would be removed.
    #[param(default = false)]
    dry_run: bool,
}

problems!(Failures: InvalidParameter, NotFound);

/// Delete a tenant permanently
///
/// Its keys are refused and its reports are dropped from now on. A builder removes all its data. `GET
/// /v1/tenants/{tenant}` shows the progress and the proof. The slug can never be used again. A second
/// deletion is no error. With `dry_run` nothing happens, and the answer is what would be removed from the database; all objects of
/// the tenant would be removed, too.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}", tag = "tenants", operation_id = "delete_tenant",
    params(("tenant" = String, Path, description = "The tenant's slug."), DeleteQuery),
    responses(
        (status = 200, description = "A dry run: what the deletion would remove.", body = RemovalCount),
        (status = 202, description = "The tenant is deleted; what it had is being removed.",
            headers(("location" = String, description = "The path of the tenant, which shows how far that is.")), body = ChangedTenant), Failures),
    security(("key" = ["operator"])))]
pub async fn delete_tenant(
    State(keys): State<Arc<Keys>>,
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<Operator>,
    Path(tenant): Path<TenantId>,
    Query(query): Query<DeleteQuery>,
) -> Result<Response, Problem> {
    if tenant == *access.tenant() {
        return Err(Problem::new(Kind::InvalidParameter, "tenant: a key cannot delete its own tenant"));
    }
    let mut tx = keys.storage.store.tenant(&tenant).await?;
    if query.dry_run {
        tenants::get(&mut tx).await?.ok_or_else(no_such_tenant)?;
        return Ok(Json(erasure::count_removal(&mut tx).await?).into_response());
    }
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
    Ok(AcceptedResponse { body: ChangedTenant { tenant: deleted, announced }, location }.into_response())
}

//! `POST /v1/tenants/{tenant}/keys`.

use crate::operations::keys::{CreatedKey, NewKeyBody, check_new_key, make_key};
use crate::operations::prelude::*;
use crate::requests::input::Json;
use http::StatusCode;
use unslide_model::TenantId;
use unslide_store::tenants;

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, LimitReached);

/// Create a key of a tenant
///
/// Creates the first key of a new tenant. Only this operation creates keys with the scope `operator`. The
/// key's text is only in this answer. A key that expires creates keys that expire no later. A preset names the
/// scopes of a usual purpose.
#[utoipa::path(post, path = "/v1/tenants/{tenant}/keys", tag = "tenants", operation_id = "create_tenant_key",
    params(("tenant" = String, Path, description = "The tenant's slug.")),
    request_body = NewKeyBody,
    responses((status = 201, description = "The key was made.", body = CreatedKey), Failures),
    security(("key" = ["operator"])))]
pub async fn create_tenant_key(
    State(keys): State<Arc<Keys>>,
    access: Access<Operator>,
    Path(tenant): Path<TenantId>,
    Json(new): Json<NewKeyBody>,
) -> Result<(StatusCode, axum::Json<CreatedKey>), Problem> {
    let new = new.into_new_key()?;
    check_new_key(&new, &access.principal, keys.storage.clock.now())?;
    let mut tx = keys.storage.store.tenant(&tenant).await?;
    let found = tenants::get(&mut tx).await?;
    if found.is_none_or(|tenant| tenant.state == tenants::TenantStanding::Deleted) {
        return Err(Problem::new(Kind::NotFound, "there is no such tenant"));
    }
    let created = make_key(&keys, tx.into(), &access.principal, new).await?;
    Ok((StatusCode::CREATED, axum::Json(created)))
}

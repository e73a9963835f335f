//! `GET /v1/tenants/{tenant}/keys`.

use super::no_such_tenant;
use crate::operations::keys::list::list_key_page;
use crate::operations::prelude::*;
use crate::requests::page::time_and_id;
use unslide_model::TenantId;
use unslide_store::keys::ApiKey;
use unslide_store::tenants;

problems!(Failures: InvalidParameter, NotFound);

/// List a tenant's keys
///
/// Lists the keys, oldest first, with revoked and expired ones. The service does not store their texts.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/keys", tag = "tenants", operation_id = "list_tenant_keys",
    params(("tenant" = String, Path, description = "The tenant's slug."), PageQuery),
    responses((status = 200, description = "A page of keys.", body = Page<ApiKey>), Failures),
    security(("key" = ["operator"])))]
pub async fn list_tenant_keys(
    State(storage): State<Arc<Storage>>,
    _access: Access<Operator>,
    Path(tenant): Path<TenantId>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<ApiKey>>, Problem> {
    let list = List::for_operation(&tenant, "list_tenant_keys", &());
    let after = page.read_cursor(list, time_and_id)?;
    let limit = page.check_limit()?;
    let mut tx = storage.store.tenant(&tenant).await?;
    tenants::get(&mut tx).await?.ok_or_else(no_such_tenant)?;
    list_key_page(tx.into(), None, after, limit, list).await
}

//! `GET /v1/tenants`.

use crate::operations::prelude::*;
use unslide_model::TenantId;
use unslide_store::tenants::{self, TenantRecord};

problems!(Failures: InvalidParameter);

/// List all tenants
///
/// Lists all tenants in the order of their slugs, with deleted ones.
#[utoipa::path(get, path = "/v1/tenants", tag = "tenants", operation_id = "list_tenants",
    params(PageQuery),
    responses((status = 200, description = "A page of tenants.", body = Page<TenantRecord>), Failures),
    security(("key" = ["operator"])))]
pub async fn list_tenants(
    State(storage): State<Arc<Storage>>,
    access: Access<Operator>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<TenantRecord>>, Problem> {
    let list = List::for_operation(access.tenant(), "list_tenants", &());
    let limit = page.check_limit()?;
    let after: Option<TenantId> = page.read_cursor(list, |position| position.parse().ok())?;
    let found = tenants::list_tenants(&storage.store, after.as_ref(), limit + 1).await?;
    Ok(Json(Page::from_rows(found, limit, list, |last| last.id.to_string())))
}

//! `GET /v1/public-keys`: public keys without their texts.

use crate::store::{self, IngestKey};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, List, Page, PageQuery, Problem, Query, TenantAdmin, position_by_time, problems, time_and_id,
};

problems!(Failures: InvalidParameter);

/// List public keys
///
/// The oldest first, without their texts, which `GET /v1/public-keys/{id}` has. Closed ones for 30 days. A key that speaks for
/// one app sees the keys of that app.
#[utoipa::path(get, path = "/v1/public-keys", tag = "ingest", operation_id = "list_public_keys",
    params(PageQuery),
    responses((status = 200, description = "A page of keys.", body = Page<IngestKey>), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_public_keys(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<IngestKey>>, Problem> {
    let mut found = find_keys(&storage, &access, &page).await?;
    found.items.iter_mut().for_each(|key| key.key = None);
    Ok(Json(found))
}

/// Returns a page of the keys that an administrator may see, with their texts.
///
/// # Errors
/// A parameter is wrong, or the database fails.
pub async fn find_keys(
    storage: &Storage,
    access: &Access<TenantAdmin>,
    page: &PageQuery,
) -> Result<Page<IngestKey>, Problem> {
    let list = List::for_operation(access.tenant(), "list_public_keys", &access.only_app());
    let after = page.read_cursor(list, time_and_id)?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = store::list_keys(&mut tx, access.only_app(), after, limit + 1).await?;
    Ok(Page::from_rows(found, limit, list, |last| position_by_time(last.created_at, last.row)))
}

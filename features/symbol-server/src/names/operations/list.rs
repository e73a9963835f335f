//! `GET /v1/names-keys`: names keys without their texts.

use super::super::store::{self, NamesKey};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, List, Page, PageQuery, Problem, Query, TenantAdmin, position_by_time, problems, time_and_id,
};

problems!(Failures: InvalidParameter);

/// List names keys
///
/// The oldest first, without their texts. Expired ones for 30 days. A key that speaks for one app sees the keys of that
/// app.
#[utoipa::path(get, path = "/v1/names-keys", tag = "symbol-server", operation_id = "list_names_keys",
    params(PageQuery),
    responses((status = 200, description = "A page of keys.", body = Page<NamesKey>), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_names_keys(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<NamesKey>>, Problem> {
    let list = List::for_operation(access.tenant(), "list_names_keys", &access.only_app());
    let after = page.read_cursor(list, time_and_id)?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = store::list_keys(&mut tx, access.only_app(), after, limit + 1).await?;
    let position = |last: &NamesKey| position_by_time(last.created_at, last.row);
    Ok(Json(Page::from_rows(found, limit, list, position)))
}

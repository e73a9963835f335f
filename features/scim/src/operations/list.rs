//! `GET /v1/scim-tokens`: SCIM tokens without their texts.

use super::EVERY_APP;
use super::token_form::{ScimToken, filter_tokens};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, List, Page, PageQuery, Problem, Query, TenantAdmin, position_by_time, problems, time_and_id,
};
use unslide_store::keys::list_records;

problems!(Failures: InvalidParameter);

/// List SCIM tokens
///
/// The oldest first, without their texts. Expired ones for 30 days.
#[utoipa::path(get, path = "/v1/scim-tokens", tag = "scim", operation_id = "list_scim_tokens",
    params(PageQuery),
    responses((status = 200, description = "A page of tokens.", body = Page<ScimToken>), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_scim_tokens(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<ScimToken>>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let list = List::for_operation(access.tenant(), "list_scim_tokens", &());
    let after = page.read_cursor(list, time_and_id)?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = list_records(&mut tx, filter_tokens(), after, limit + 1).await?;
    let found = found.into_iter().map(ScimToken::from).collect();
    let position = |last: &ScimToken| position_by_time(last.created_at, last.row);
    Ok(Json(Page::from_rows(found, limit, list, position)))
}

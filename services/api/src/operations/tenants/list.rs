//! `GET /v1/tenants`.

use super::Tenant;
use crate::access::{Access, Operator};
use crate::input::{Query, parameter};
use crate::page::{List, Page, PageQuery};
use crate::problem::{Problem, problems};
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use unslide_model::TenantId;
use unslide_store::tenants;

problems!(Failures: InvalidParameter);

/// List all tenants
///
/// Deleted ones too, in the order of their slugs.
#[utoipa::path(get, path = "/v1/tenants", tag = "tenants", operation_id = "list_tenants",
    params(PageQuery),
    responses((status = 200, description = "A page of tenants.", body = Page<Tenant>), Failures),
    security(("key" = ["operator"])))]
pub async fn list_tenants(
    State(api): State<Api>,
    access: Access<Operator>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<Tenant>>, Problem> {
    let list = List::of(access.tenant(), "list_tenants", &());
    let limit = page.limit()?;
    let after: Option<TenantId> = match &page.cursor {
        Some(cursor) => Some(parameter("cursor", &list.position(cursor)?)?),
        None => None,
    };
    let mut found = tenants::list(&api.store, after.as_ref(), limit + 1).await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next_cursor = found.last().filter(|_| more).map(|last| list.cursor(last.id.as_str()));
    Ok(Json(Page { items: found.into_iter().map(Tenant::from).collect(), next_cursor }))
}

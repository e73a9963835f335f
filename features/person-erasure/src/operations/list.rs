//! `GET /v1/person-erasures`: the erasures of a tenant.

use super::EVERY_APP;
use crate::store::{self, PersonErasure};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, List, Page, PageQuery, Problem, Query, TenantAdmin, position_by_time, problems, time_and_id,
};

problems!(Failures: InvalidParameter);

/// List erasures of persons
///
/// The newest first. An erasure has a keyed hash of the person's id, and never the id.
#[utoipa::path(get, path = "/v1/person-erasures", tag = "person-erasure", operation_id = "list_person_erasures",
    params(PageQuery),
    responses((status = 200, description = "A page of erasures.", body = Page<PersonErasure>), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_person_erasures(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<PersonErasure>>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let list = List::for_operation(access.tenant(), "list_person_erasures", &());
    let after = page.read_cursor(list, time_and_id)?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = store::list_erasures(&mut tx, after, limit + 1).await?;
    Ok(Json(Page::from_rows(found, limit, list, |last| position_by_time(last.requested_at, last.id))))
}

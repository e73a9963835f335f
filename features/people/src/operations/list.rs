//! `GET /v1/people`: the people who have signed in.

use super::EVERY_APP;
use crate::store::{self, PersonEntry};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, List, Page, PageQuery, Problem, Query, TenantAdmin, position_by_time, problems, time_and_id,
};
use unslide_store::Uuid;

problems!(Failures: InvalidParameter);

/// List people
///
/// The people who have signed in at the tenant's identity provider, in the order of their first sign-ins. After a person
/// has left, revoke `key_id` with `cascade=true`: that ends their sessions, and the keys that they made.
#[utoipa::path(get, path = "/v1/people", tag = "people", operation_id = "list_people",
    params(PageQuery),
    responses((status = 200, description = "A page of people.", body = Page<PersonEntry>), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_people(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<PersonEntry>>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let list = List::for_operation(access.tenant(), "list_people", &());
    let after = page.read_cursor(list, time_and_id::<Uuid>)?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = store::list_people(&mut tx, after, limit + 1).await?;
    let position = |last: &PersonEntry| position_by_time(last.created_at, last.key_id);
    Ok(Json(Page::from_rows(found, limit, list, position)))
}

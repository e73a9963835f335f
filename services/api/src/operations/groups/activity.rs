//! `GET /v1/groups/{id}/activity`.

use super::no_such_group;
use super::reference::resolve_group;
use crate::operations::prelude::*;
use crate::requests::page::{position_by_time, time_and_id};
use unslide_model::GroupRef;
use unslide_store::groups::{self, GroupActivity};
use unslide_store::queries::groups::find_group;

problems!(Failures: InvalidParameter, NotFound);

/// List a group's activity
///
/// Lists the group's history, the newest entry first: states, assignments, comments, merges, splits,
/// regressions and groups that it replaced, with their history.
#[utoipa::path(get, path = "/v1/groups/{id}/activity", tag = "groups", operation_id = "list_group_activity",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64), PageQuery),
    responses((status = 200, description = "A page of entries.", body = Page<GroupActivity>), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_group_activity(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(id): Path<GroupRef>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<GroupActivity>>, Problem> {
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let id = resolve_group(&mut tx, &id).await?;
    let list = List::for_operation(access.tenant(), "list_group_activity", &id);
    let after = page.read_cursor(list, time_and_id)?;
    let group = find_group(&mut tx, id, access.only_app()).await?.ok_or_else(no_such_group)?;
    let found = groups::list_activity(&mut tx, group.id, after, limit + 1).await?;
    Ok(Json(Page::from_rows(found, limit, list, |last| position_by_time(last.at, last.id))))
}

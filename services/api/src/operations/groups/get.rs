//! `GET /v1/groups/{id}`.

use super::no_such_group;
use crate::operations::prelude::*;
use unslide_store::Uuid;
use unslide_store::queries::groups::{self, GroupCounts};

problems!(Failures: InvalidParameter, NotFound);

/// Get a group
///
/// Its reports are listed by `GET /v1/reports?group={id}`. A group is replaced if late symbols move its reports to other
/// groups. Then the answer is the group that got most of them, and `redirected_from` is the id of the path.
#[utoipa::path(get, path = "/v1/groups/{id}", tag = "groups", operation_id = "get_group",
    params(("id" = Uuid, Path, description = "The group's id.")),
    responses((status = 200, description = "The group.", body = GroupCounts), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_group(
    State(api): State<Api>,
    access: Access<ReportsRead>,
    Path(id): Path<Uuid>,
) -> Result<Json<GroupCounts>, Problem> {
    let mut tx = api.tenant(access.tenant()).await?;
    let found = groups::get(&mut tx, id, access.principal.app.as_deref()).await?;
    found.map(Json).ok_or_else(no_such_group)
}

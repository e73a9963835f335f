//! `GET /v1/groups/{id}/changes`: which functions of a stack changed.

use crate::comparing::{StackChanges, find_group_changes};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::{Access, Path, Problem, ReportsRead, problems};
use unslide_model::GroupRef;

problems!(Failures: InvalidParameter, NotFound);

/// Get the changed functions of a group
///
/// Says which functions of the group's stack, with the calls that are inlined there, were edited between the last version without
/// the group and the first with it. Builds are those that stored reports of the versions name. If they cannot be compared, the
/// answer says why.
#[utoipa::path(get, path = "/v1/groups/{id}/changes", tag = "changes", operation_id = "get_group_changes",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64)),
    responses((status = 200, description = "The functions of the stack.", body = StackChanges), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_group_changes(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<ReportsRead>,
    Path(id): Path<GroupRef>,
) -> Result<Json<StackChanges>, Problem> {
    Ok(Json(Box::pin(find_group_changes(&symbolication, &access, &id)).await?))
}

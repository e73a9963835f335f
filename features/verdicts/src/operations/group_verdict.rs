//! `GET /v1/groups/{id}/verdict`.

use crate::fix::{GroupVerdict, judge_group};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Path, Problem, ReportsRead, problems};
use unslide_api::feature::site::find_named_group;
use unslide_model::GroupRef;

problems!(Failures: InvalidParameter, NotFound);

/// Say whether a group is fixed
///
/// Compares the crashes in sessions of the version that resolves the group, and of later ones, with those expected at the old rate.
/// The test may be read on any day, and is wrong with a chance of 1 % at most over all readings.
#[utoipa::path(get, path = "/v1/groups/{id}/verdict", tag = "verdicts", operation_id = "get_group_verdict",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64)),
    responses((status = 200, description = "The verdict.", body = GroupVerdict), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_group_verdict(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(id): Path<GroupRef>,
) -> Result<Json<GroupVerdict>, Problem> {
    let mut tx = storage.tenant(access.tenant()).await?;
    let group = find_named_group(&mut tx, &id, access.only_app()).await?;
    Ok(Json(judge_group(&mut tx, &group, storage.clock.now().date()).await?))
}

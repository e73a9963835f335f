//! `GET /v1/groups/{id}/commonalities`: what devices with a bug have in common.

use crate::commonalities::{Commonalities, compare_group};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Path, Problem, ReportsRead, problems};
use unslide_api::feature::site::find_named_group;
use unslide_model::GroupRef;

problems!(Failures: InvalidParameter, NotFound);

/// Say what the devices that met a bug have in common
///
/// Compares the devices of the newest 2,000 reports of the last 14 days with a sample of the installations that had sessions of the
/// same version on the same days. A value is listed if it is more frequent with the bug than chance explains. Compared are models,
/// systems, and the flags of sessions with own keys of reports, if nine of ten installations carry flags. `not_compared` names the rest
/// with the reason.
#[utoipa::path(get, path = "/v1/groups/{id}/commonalities", tag = "verdicts", operation_id = "get_group_commonalities",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64)),
    responses((status = 200, description = "The values.", body = Commonalities), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_group_commonalities(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(id): Path<GroupRef>,
) -> Result<Json<Commonalities>, Problem> {
    let mut tx = storage.tenant(access.tenant()).await?;
    let group = find_named_group(&mut tx, &id, access.only_app()).await?;
    Ok(Json(compare_group(&mut tx, &group).await?))
}

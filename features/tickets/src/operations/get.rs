//! `GET /v1/groups/{id}/ticket`.

use super::GroupTicket;
use crate::store;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Path, Problem, ReportsRead, problems};
use unslide_api::feature::site::find_named_group;
use unslide_model::GroupRef;

problems!(Failures: InvalidParameter, NotFound);

/// Get the ticket of a group
///
/// Its state as it was read last: a hook of the tracker has it read again, otherwise that happens once a day. `ticket` is absent if
/// the group has none in a tracker of the tenant.
#[utoipa::path(get, path = "/v1/groups/{id}/ticket", tag = "tickets", operation_id = "get_ticket",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64)),
    responses((status = 200, description = "The ticket.", body = GroupTicket), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_ticket(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(id): Path<GroupRef>,
) -> Result<Json<GroupTicket>, Problem> {
    let mut tx = storage.tenant(access.tenant()).await?;
    let group = find_named_group(&mut tx, &id, access.only_app()).await?;
    let ticket = store::get_ticket(&mut tx, group.id).await?;
    Ok(Json(GroupTicket { group: group.id, ticket: ticket.map(Into::into) }))
}

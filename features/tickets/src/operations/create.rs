//! `POST /v1/groups/{id}/ticket`.

use super::{GroupTicket, TICKET_UNITS, choose_tracker};
use crate::store::{self, NewTicketRow};
use crate::ticket::TicketState;
use axum::extract::State;
use serde::Deserialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    AcceptedResponse, Access, Charge, JsonBody, Kind, Path, Problem, problems,
};
use unslide_api::feature::site::{GroupsWrite, find_named_group};
use unslide_model::GroupRef;
use unslide_store::groups::{GroupActor, GroupUpdate, UpdateOutcome, update_group};
use utoipa::ToSchema;

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, Conflict, GroupMerged, RateLimited);

/// A ticket to be made.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTicket {
    /// The name of the tracker. It may be absent if the tenant has one.
    #[serde(default)]
    #[schema(max_length = 40, example = "main")]
    pub tracker: Option<String>,
}

/// Make a ticket of a group
///
/// A ticket with the group's title, counts and link, and the report that represents it. A group has at most one ticket: a second
/// request changes nothing while it is being made, and is a conflict if there is one. A ticket that the tracker has refused is tried
/// again. It costs as many units as 100 reports.
#[utoipa::path(post, path = "/v1/groups/{id}/ticket", tag = "tickets", operation_id = "create_ticket",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64)),
    request_body = NewTicket,
    responses((status = 202, description = "The ticket will be made.",
            headers(("location" = String, description = "The path of the ticket.")), body = GroupTicket), Failures),
    security(("key" = ["groups:write"])))]
pub async fn create_ticket(
    State(storage): State<Arc<Storage>>,
    access: Access<GroupsWrite>,
    Path(id): Path<GroupRef>,
    JsonBody(new): JsonBody<NewTicket>,
) -> Result<AcceptedResponse<GroupTicket>, Problem> {
    Charge::for_reports(&storage.capacity, access.tenant(), access.principal.limits.units_per_second)?
        .charge_reports(TICKET_UNITS)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let group = find_named_group(&mut tx, &id, access.only_app()).await?;
    let trackers = store::list_trackers(&mut tx).await?;
    let tracker = choose_tracker(trackers, new.tracker.as_deref())?;
    let asked_by = access.principal.key_id.to_string();
    // Locks the group: no person links it to another ticket before this one is recorded.
    let actor = GroupActor { actor: &asked_by, name: None };
    if let UpdateOutcome::Merged(into) =
        update_group(&mut tx, group.id, None, actor, &GroupUpdate::default()).await?
    {
        return Err(Problem::new(Kind::GroupMerged, format!("the group is merged into {into}")));
    }
    let group = find_named_group(&mut tx, &GroupRef::Id(group.id.uuid()), access.only_app()).await?;
    if let Some(url) = &group.ticket_url {
        return Err(Problem::new(Kind::Conflict, format!("the group has the ticket {url}")));
    }
    // Also one of a group that is merged into it.
    let known = store::get_ticket(&mut tx, group.id).await?.filter(|known| known.group != group.id);
    if let Some(url) = known.as_ref().and_then(|known| known.url.as_ref()) {
        return Err(Problem::new(Kind::Conflict, format!("the group has the ticket {url}")));
    }
    if store::keep_tracker(&mut tx, &tracker.name).await?.is_none() {
        return Err(Problem::new(Kind::Conflict, "the tracker was removed at this moment: try again"));
    }
    if known.is_none_or(|known| known.state != TicketState::Creating) {
        let row = NewTicketRow { group: group.id, tracker: &tracker.name, asked_by: &asked_by };
        store::add_ticket(&mut tx, row).await?;
    }
    let ticket = store::get_ticket(&mut tx, group.id).await?;
    tx.commit().await?;
    let location = Some(format!("/v1/groups/{}/ticket", group.id));
    Ok(AcceptedResponse { body: GroupTicket { group: group.id, ticket: ticket.map(Into::into) }, location })
}

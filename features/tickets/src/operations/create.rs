//! `POST /v1/groups/{id}/ticket`.

use super::{GroupTicket, TICKET_UNITS};
use crate::new_ticket::{TicketOutcome, ask_for_ticket};
use crate::store;
use axum::extract::State;
use serde::Deserialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    AcceptedResponse, Access, Charge, JsonBody, Kind, Path, Problem, problems,
};
use unslide_api::feature::site::{GroupsWrite, find_named_group};
use unslide_model::GroupRef;
use unslide_store::group_tickets::TicketRequest;
use unslide_store::groups::GroupActor;
use utoipa::ToSchema;

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, Conflict, GroupMerged, RateLimited);

/// A ticket to be made.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTicket {
    /// The name of the tracker. It may be absent if the tenant has one, or one with a rule for the app of the group.
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
    let asked_by = access.principal.key_id.to_string();
    let actor = GroupActor { actor: &asked_by, name: None };
    let request = TicketRequest { group: group.id, app: access.only_app(), actor };
    let refused = match ask_for_ticket(&mut tx, &request, new.tracker.as_deref()).await? {
        TicketOutcome::Requested(_) => None,
        TicketOutcome::Exists(url) => Some((Kind::Conflict, format!("the group has the ticket {url}"))),
        TicketOutcome::NoGroup => Some((Kind::NotFound, "there is no such group".to_owned())),
        TicketOutcome::Merged(into) => Some((Kind::GroupMerged, format!("the group is merged into {into}"))),
        TicketOutcome::NoTracker(error) => Some((Kind::InvalidBody, error.to_string())),
        TicketOutcome::TrackerRemoved => {
            Some((Kind::Conflict, "the tracker was removed at this moment: try again".to_owned()))
        }
    };
    if let Some((kind, detail)) = refused {
        return Err(Problem::new(kind, detail));
    }
    let ticket = store::get_ticket(&mut tx, group.id).await?;
    tx.commit().await?;
    let location = Some(format!("/v1/groups/{}/ticket", group.id));
    Ok(AcceptedResponse { body: GroupTicket { group: group.id, ticket: ticket.map(Into::into) }, location })
}

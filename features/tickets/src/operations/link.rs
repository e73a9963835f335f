//! `PUT /v1/groups/{id}/ticket`.

use super::GroupTicket;
use crate::TicketsExtension;
use crate::new_ticket::choose_tracker;
use crate::store::{self, NewTicketRow};
use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{
    Access, JsonBody, Kind, Path, Problem, is_text, is_ticket_url, problems,
};
use unslide_api::feature::site::{GroupsWrite, find_named_group};
use unslide_model::GroupRef;
use unslide_store::groups::{GroupActor, GroupUpdate, UpdateOutcome, update_group};
use utoipa::ToSchema;

problems!(Failures: InvalidParameter, InvalidBody, IncompleteBody, BodyTimeout, TooLarge, NotFound, Conflict, GroupMerged);

/// A ticket that a person made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkedTicket {
    /// The name of the tracker. It may be absent if the tenant has one, or one with a rule for the app of the group.
    #[serde(default)]
    #[schema(max_length = 40, example = "main")]
    pub tracker: Option<String>,
    /// The ticket's number, name or address.
    #[schema(min_length = 1, max_length = 2000, example = "https://github.com/example/shop/issues/17")]
    pub ticket: String,
}

/// Link a group to a ticket
///
/// The ticket is read at once and followed from then on, as one that was made here. It takes the place of the ticket before. While a
/// ticket is being made and may exist, this is a conflict.
#[utoipa::path(put, path = "/v1/groups/{id}/ticket", tag = "tickets", operation_id = "link_ticket",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64)),
    request_body = LinkedTicket,
    responses((status = 200, description = "The group is linked.", body = GroupTicket), Failures),
    security(("key" = ["groups:write"])))]
pub async fn link_ticket(
    State(storage): State<Arc<Storage>>,
    Extension(tickets): TicketsExtension,
    access: Access<GroupsWrite>,
    Path(id): Path<GroupRef>,
    JsonBody(new): JsonBody<LinkedTicket>,
) -> Result<Json<GroupTicket>, Problem> {
    if !is_text(&new.ticket, 2_000) {
        return Err(Problem::new(Kind::InvalidBody, "ticket: 1 to 2000 bytes, no control characters"));
    }
    let mut tx = storage.tenant(access.tenant()).await?;
    let group = find_named_group(&mut tx, &id, access.only_app()).await?;
    let trackers = store::list_trackers(&mut tx).await?;
    let tracker = choose_tracker(trackers, new.tracker.as_deref(), &group.app)
        .map_err(|error| Problem::new(Kind::InvalidBody, error.to_string()))?;
    let account = tickets.open_account(access.tenant(), &tracker);
    let account = account.map_err(|error| Problem::new(Kind::InvalidBody, error))?;
    let named = tracker.kind.protocol().parse_named(&account, &new.ticket);
    let Some(named) = named.filter(|named| is_ticket_url(&named.url)) else {
        let (label, project) = (tracker.kind.protocol().label(), &tracker.project);
        let detail = format!("ticket: {:?} names no ticket of {label} in {project}", new.ticket);
        return Err(Problem::new(Kind::InvalidBody, detail));
    };
    let asked_by = access.principal.key_id.to_string();
    let actor = GroupActor { actor: &asked_by, name: None };
    let update = GroupUpdate { ticket_url: Some(named.url.clone()), ..GroupUpdate::default() };
    if let UpdateOutcome::Merged(into) = update_group(&mut tx, group.id, None, actor, &update).await? {
        return Err(Problem::new(Kind::GroupMerged, format!("the group is merged into {into}")));
    }
    let conflict = |detail: &str| Problem::new(Kind::Conflict, detail);
    if store::keep_tracker(&mut tx, &tracker.name).await? != Some(tracker.changed_at) {
        return Err(conflict("the tracker was set or removed at this moment: try again"));
    }
    let row = NewTicketRow { group: group.id, tracker: &tracker.name, asked_by: &asked_by };
    if !store::link_ticket(&mut tx, row, &named).await? {
        return Err(conflict("a ticket of the group is being made: wait until it is there"));
    }
    let ticket = store::get_ticket(&mut tx, group.id).await?;
    tx.commit().await?;
    Ok(Json(GroupTicket { group: group.id, ticket: ticket.map(Into::into) }))
}

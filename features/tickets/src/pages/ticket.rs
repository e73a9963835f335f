//! `/console/groups/{id}/ticket`: makes the ticket of a group, or links it to one.

use crate::TicketsExtension;
use crate::operations::ShownTicket;
use crate::operations::create::{NewTicket, create_ticket};
use crate::operations::link::{LinkedTicket, link_ticket};
use crate::store;
use crate::ticket::TicketState;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{JsonBody, Path, Problem};
use unslide_api::feature::site::{GroupsWrite, find_named_group};
use unslide_model::GroupRef;
use unslide_site::{SentForm, Shell, SignedIn, Template, escaping, filters, render_html};
use unslide_store::queries::groups::ListedGroup;

#[derive(Template)]
#[template(path = "tickets/ticket.html", askama = escaping)]
struct TicketPage {
    shell: Shell,
    group: ListedGroup,
    ticket: Option<ShownTicket>,
    /// True if the group has no ticket, and may have one made.
    can_make: bool,
    /// The names of the trackers, with their products and projects.
    trackers: Vec<(String, &'static str, String)>,
}

/// Returns a state in words.
pub fn state_words(state: TicketState) -> &'static str {
    match state {
        TicketState::Creating => "being made",
        TicketState::Failed => "refused",
        TicketState::Open => "open",
        TicketState::Done => "closed as fixed",
        TicketState::Dropped => "closed without a fix",
        TicketState::Lost => "not found",
    }
}

/// `GET`: the ticket, and the trackers in which one can be made.
pub async fn show_ticket(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<GroupsWrite>,
    Path(id): Path<GroupRef>,
) -> Result<Response, Problem> {
    let mut tx = storage.tenant(signed.access.tenant()).await?;
    let group = find_named_group(&mut tx, &id, signed.access.only_app()).await?;
    let ticket = store::get_ticket(&mut tx, group.id).await?.map(ShownTicket::from);
    let rows = store::list_trackers(&mut tx).await?;
    tx.rollback();
    let trackers = rows.into_iter().map(|row| (row.name, row.kind.protocol().label(), row.project)).collect();
    let shell = Shell::for_viewer(signed.viewer, "groups", "Ticket of a group");
    let can_make = group.ticket_url.is_none() && ticket.as_ref().is_none_or(|ticket| ticket.url.is_none());
    render_html(&TicketPage { shell, group, ticket, can_make, trackers })
}

/// `POST`: makes a ticket, or links one.
pub async fn change_ticket(
    storage: State<Arc<Storage>>,
    tickets: TicketsExtension,
    signed: SignedIn<GroupsWrite>,
    Path(id): Path<GroupRef>,
    form: SentForm,
) -> Result<Response, Problem> {
    let tracker = form.get("tracker").map(str::to_owned);
    let to = format!("/console/groups/{id}/ticket");
    match form.get("ticket") {
        Some(ticket) => {
            let body = LinkedTicket { tracker, ticket: ticket.to_owned() };
            drop(link_ticket(storage, tickets, signed.access, Path(id), JsonBody(body)).await?);
        }
        None => drop(create_ticket(storage, signed.access, Path(id), JsonBody(NewTicket { tracker })).await?),
    }
    Ok(Redirect::to(&to).into_response())
}

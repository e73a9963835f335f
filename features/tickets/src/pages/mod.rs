//! The pages of the console.

mod ticket;
mod trackers;

pub use trackers::TRACKERS_PAGE;

use crate::store;
use axum::Router;
use axum::routing::get;
use unslide_api::feature::Api;
use unslide_api::feature::panels::{PanelFigure, PanelLink, PanelSection, PanelSlot};
use unslide_store::{HookFuture, TenantTx};

/// Returns the routes of the pages.
pub fn routes() -> Router<Api> {
    Router::new()
        .route(TRACKERS_PAGE, get(trackers::show_trackers).post(trackers::change_tracker))
        .route("/console/groups/{id}/ticket", get(ticket::show_ticket).post(ticket::change_ticket))
}

/// Shows the ticket of a group, and the link to the page that makes one.
pub fn show_panel<'t>(tx: &'t mut TenantTx, slot: PanelSlot<'t>) -> HookFuture<'t, Vec<PanelSection>> {
    Box::pin(async move {
        let PanelSlot::Group(group) = slot else { return Ok(Vec::new()) };
        let ticket = store::get_ticket(tx, group.id).await?;
        let text = if ticket.is_some() { "Ticket…" } else { "Make or link a ticket" };
        let link = PanelLink {
            path: format!("/console/groups/{}/ticket", group.id),
            text: text.to_owned(),
            ..PanelLink::default()
        };
        let mut sections = vec![PanelSection { links: vec![link], ..PanelSection::default() }];
        if let Some(ticket) = ticket {
            let figure = PanelFigure {
                label: "State",
                value: ticket::state_words(ticket.state).to_owned(),
                title: "The state of the ticket as it was read last",
                note: ticket.ticket_key.unwrap_or_default(),
            };
            sections.push(PanelSection {
                heading: "Ticket",
                figures: vec![figure],
                ..PanelSection::default()
            });
        }
        Ok(sections)
    })
}

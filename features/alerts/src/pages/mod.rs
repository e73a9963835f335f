//! The pages of the console.

mod acknowledge;
mod alerts;
mod figure_form;
mod mail;
mod mute;
mod send_group;

pub use alerts::ALERTS_PAGE as ALERTS_PATH;

use axum::Router;
use axum::routing::{get, post};
use unslide_api::feature::Api;
use unslide_api::feature::panels::{PanelLink, PanelSection, PanelSlot};
use unslide_store::{HookFuture, TenantTx};

/// Returns the link from the page of a group to the page that sends it to a receiver.
pub fn show_panel<'t>(_: &'t mut TenantTx, slot: PanelSlot<'t>) -> HookFuture<'t, Vec<PanelSection>> {
    let PanelSlot::Group(group) = slot else { return Box::pin(async { Ok(Vec::new()) }) };
    let path = format!("/console/groups/{}/send", group.id);
    let link = PanelLink { path, text: "Send it to a receiver".to_owned(), ..PanelLink::default() };
    Box::pin(async { Ok(vec![PanelSection { links: vec![link], ..PanelSection::default() }]) })
}

/// Returns the routes of the pages.
pub fn page_routes() -> Router<Api> {
    Router::new()
        .route("/console/mail/{token}", get(mail::render_page))
        .route("/console/mail/{token}/{action}", post(mail::answer_link))
        .route(ALERTS_PATH, get(alerts::render_page).post(alerts::create_from_form))
        .route("/console/alerts/{id}/{action}", post(alerts::act_on_rule))
        .route("/console/alerts/{id}/receiver", post(alerts::change_receiver))
        .route("/console/alerts/{id}/hook", post(alerts::change_hook))
        .route("/console/alerts/{id}/rule", post(alerts::change_rule))
        .route(
            "/console/acknowledge/{token}",
            get(acknowledge::render_page).post(acknowledge::acknowledge_by_link),
        )
        .route("/console/mute/{token}", get(mute::render_page).post(mute::act_on_link))
        .route("/console/alert-firings/{id}/acknowledge", post(alerts::acknowledge_from_form))
        .route("/console/groups/{id}/send", get(send_group::render_page).post(send_group::send_from_form))
        .route("/console/alert-messages/{id}/send", post(alerts::send_from_form))
}

//! The pages of the console.

mod assistants;
mod consent;

use crate::oauth::service_url::AUTHORIZE_PATH;
use axum::Router;
use axum::routing::{get, post};
use unslide_api::feature::Api;
use unslide_site::Viewer;
use unslide_store::keys::Principal;

/// The path of the page with the access that a person gave.
pub const ASSISTANTS_PATH: &str = "/console/assistants";

/// Returns the routes of the pages.
pub fn routes() -> Router<Api> {
    Router::new()
        .route(AUTHORIZE_PATH, get(consent::ask_person).post(consent::take_decision))
        .route(ASSISTANTS_PATH, get(assistants::show_assistants))
        .route("/console/assistants/{id}/end", post(assistants::end_assistant))
}

/// Returns the name as which a person acts.
fn account_name(viewer: &Viewer, principal: &Principal) -> String {
    viewer.name.clone().unwrap_or_else(|| principal.key_id.to_string())
}

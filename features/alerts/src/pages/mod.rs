//! The pages of the console.

mod alerts;
mod mail;

pub use alerts::PATH as ALERTS_PATH;

use axum::Router;
use axum::routing::{get, post};
use unslide_api::feature::Api;

/// Returns the routes of the pages.
pub fn routes() -> Router<Api> {
    Router::new()
        .route("/console/mail/{token}", get(mail::page))
        .route("/console/mail/{token}/{action}", post(mail::act))
        .route(ALERTS_PATH, get(alerts::page).post(alerts::create))
        .route("/console/alerts/{id}/{action}", post(alerts::act))
        .route("/console/alerts/{id}/receiver", post(alerts::change_receiver))
        .route("/console/alert-messages/{id}/send", post(alerts::send))
}

//! The pages of the console.

mod link;
mod slack;

pub use link::link_path;
pub use slack::SLACK_PAGE;

use axum::Router;
use axum::routing::get;
use unslide_api::feature::Api;

/// Returns the routes of the pages.
pub fn routes() -> Router<Api> {
    Router::new()
        .route(SLACK_PAGE, get(slack::show_slack).post(slack::change_slack))
        .route("/console/chat/link/{token}", get(link::show_link).post(link::use_link))
}

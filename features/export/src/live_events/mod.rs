//! Live events: what happens to a tenant's reports, groups and symbols, as it happens.

mod follow;
mod store;

pub use store::{
    EVENT_HOOK, EventNumber, LiveEvent, LiveEvents, NewLiveEvent, append_events, events_after, latest_number,
};

use unslide_api::feature::Api;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Returns the routes of this folder.
pub(crate) fn event_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(follow::follow_events))
}

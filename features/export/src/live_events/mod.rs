//! Live events: what happens to a tenant's reports, groups and symbols, as it happens.

mod follow;
mod store;

pub use store::{
    EVENT_HOOK, EventNumber, LiveEvent, LiveEvents, NewLiveEvent, append_events, events_after, latest_number,
};

use unslide_api::feature::OperationRouter;
use unslide_api::routes;

/// Returns the routes of this folder.
pub(crate) fn event_routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(follow::follow_events))
}

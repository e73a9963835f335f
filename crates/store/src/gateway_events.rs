//! Outcomes of the events that gateways send, of every kind. Features store them.

use time::{Date, OffsetDateTime};
use unslide_proto::event::{GatewayEvent, is_late};

unslide_model::words! {
    /// The outcome of storing an event.
    pub enum EventOutcome {
        /// It is the first one with its id.
        New = "new",
        /// It states how or when a known session ended, or what a known payload lacks.
        Completed = "completed",
        /// It states nothing new: nothing was done.
        Duplicate = "duplicate",
        /// The tenant was deleted: nothing was done.
        Deleted = "deleted",
        /// It is of a day before the kept days, or arrived too long after it: nothing was done.
        Expired = "expired",
        /// The app's events of this kind are switched off: nothing was done.
        SwitchedOff = "switched_off",
    }
}

/// Returns true if an event is too old to count: it is of a day before `keep_from`, or too long before it
/// arrived.
#[must_use]
pub fn is_too_old<E: GatewayEvent>(event: &E, received_at: OffsetDateTime, keep_from: Date) -> bool {
    event.event_day() < keep_from || is_late(event, received_at)
}

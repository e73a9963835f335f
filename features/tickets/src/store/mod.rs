//! The statements about trackers, tickets, the work on them, and hooks.

mod deliveries;
mod requests;
mod rules;
mod tickets;
mod tracker_rows;

pub use deliveries::{add_delivery, add_fixes, find_known_fixes, is_known_delivery};
pub use requests::{
    ClaimedRequest, TicketAction, claim_request, complete_request, drop_request, list_due, postpone_request,
    request_read, request_reopen,
};
pub use rules::add_tickets_by_rule;
pub use tickets::{
    NewTicketRow, StoredTicket, add_ticket, awaits_reopening, fail_ticket, find_counting_groups, get_ticket,
    link_ticket, lock_ticket, mark_sent, mark_told, record_lost, record_refused, record_ticket, restore_told,
};
pub use tracker_rows::{
    NewTrackerRow, TrackerRow, find_by_id, get_tracker, has_tickets, hold_tracker, keep_tracker,
    list_trackers, lock_tracker, release_tracker, remove_tracker, set_tracker,
};

use time::Duration;
use unslide_store::tables::OwnedTable;
use unslide_store::{Result, StoreEvent, StoreHook};

/// How long deliveries are remembered: longer than any tracker repeats one.
const DELIVERIES_KEPT_FOR: Duration = Duration::days(30);
/// How long commits are remembered that have resolved groups.
const FIXES_KEPT_FOR: Duration = Duration::days(400);

/// The tables of the feature.
pub const TICKETS_HOOK: StoreHook = StoreHook::with_tables(crate::NAME, OWNED_TABLES);

/// In the order of locks: a transaction locks groups first, in the order of their ids, then a tracker, then tickets before the requests
/// about them, then deliveries and fixes.
const OWNED_TABLES: &[OwnedTable] = &[
    OwnedTable::new("trackers"),
    OwnedTable::new("tickets"),
    OwnedTable::new("ticket_requests"),
    OwnedTable::kept_for("tracker_deliveries", DELIVERIES_KEPT_FOR),
    OwnedTable::kept_for("ticket_fixes", FIXES_KEPT_FOR),
];

/// Reopens the tickets of groups that come back, and hands over those of groups that are deleted.
pub async fn write_for_event(event: &mut StoreEvent<'_>) -> Result<()> {
    match event {
        StoreEvent::GroupsChanged(tx, changed) => request_reopen(tx, changed).await,
        StoreEvent::GroupsDeleted(tx, ids) => tickets::hand_over(tx, ids).await,
        _ => Ok(()),
    }
}

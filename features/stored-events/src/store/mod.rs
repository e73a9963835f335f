//! The statements about events that wait, and about the turns in which they are sent.

mod events;
mod turns;

pub use events::{EventReportId, WaitingEvent, delete_sent, list_waiting};
pub use turns::{ClaimedTurn, TurnEnd, claim_turn, find_oldest, finish_turn, list_due};

use unslide_store::tables::{OutlivingRows, OwnedTable};
use unslide_store::{Result, StoreEvent, StoreHook};

/// The tables of the feature, without events: for an installation that has not turned them on.
pub const SILENT_HOOK: StoreHook = StoreHook::with_tables(
    crate::NAME,
    &[
        OwnedTable::new("stored_event_turns"),
        OwnedTable {
            outlives: Some(OutlivingRows {
                condition: Some("report_id IS NULL"),
                reason: "it tells readers of the topic that the tenant is deleted, and goes when they have it",
            }),
            ..OwnedTable::new("stored_events")
        },
    ],
);

/// The same with an event for each change of a report.
pub const WRITING_HOOK: StoreHook =
    StoreHook { on_event: Some(|event| Box::pin(queue_for_event(event))), ..SILENT_HOOK };

async fn queue_for_event(event: &mut StoreEvent<'_>) -> Result<()> {
    match event {
        StoreEvent::ReportsStored(tx, stored) => {
            let places: Vec<_> = stored.reports.iter().map(unslide_store::StoredReport::to_place).collect();
            events::queue_reports(tx, &places).await
        }
        StoreEvent::ReportsMoved(tx, moved) => events::queue_reports(tx, moved).await,
        StoreEvent::ReportDeleted(tx, report) => events::queue_deletion(tx, report).await,
        StoreEvent::TenantDeleted(tx) => events::queue_tenant_deletion(tx).await,
        _ => Ok(()),
    }
}

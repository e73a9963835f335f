//! The statements about the settings of tenants and the outbox of reports.

mod outbox;
mod tenant_settings;

pub use outbox::{OutboxEntry, count_entries, delete_entries, list_batch};
pub use tenant_settings::{
    DroppedReports, ExportTarget, NewOtlpSettings, OtlpSettings, SendEnd, claim_turn, find_settings,
    finish_turn, guard_turn, is_current_turn, list_due, lock_settings, remove_settings, set_settings,
};

use time::Duration;
use unslide_store::tables::{KeyColumn, OwnedTable, RowAge};
use unslide_store::{Result, StoreEvent, StoreHook};

/// How long reports wait for a collector that does not answer.
const OUTBOX_PERIOD: Duration = Duration::days(7);

/// The tables of the feature, and what it does when reports are stored.
pub const OTLP_HOOK: StoreHook = StoreHook {
    tables: &[
        OwnedTable::new("otlp_settings"),
        OwnedTable {
            key: &[KeyColumn::Value("report_id"), KeyColumn::Value("variant")],
            report: Some("report_id"),
            report_variant: Some("variant"),
            age: RowAge::KeptFor(OUTBOX_PERIOD),
            ..OwnedTable::new("otlp_outbox")
        },
    ],
    on_event: Some(|event| Box::pin(queue_for_event(event))),
    ..StoreHook::new(crate::NAME)
};

async fn queue_for_event(event: &mut StoreEvent<'_>) -> Result<()> {
    match event {
        StoreEvent::ReportsStored(tx, stored) => outbox::queue_reports(tx, &stored.reports).await,
        _ => Ok(()),
    }
}

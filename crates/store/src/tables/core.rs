//! The tables of the core.

use super::{KeyColumn, OutlivingRows, OwnedTable};
use crate::app_slots;
use crate::reports::HOUR_COUNTS_RETENTION;
use crate::resource_uses::USES_KEPT_FOR;

/// The tables of the core with rows of tenants, by their subject as in `docs/data-model.md`.
pub const CORE_TABLES: &[OwnedTable] = &[
    OwnedTable::purged("keys"),
    OwnedTable {
        outlives: Some(OutlivingRows {
            condition: None,
            reason: "it says who did what, and who deleted the tenant",
        }),
        ..OwnedTable::new("audit_log")
    },
    OwnedTable::kept_for("resource_uses", USES_KEPT_FOR),
    OwnedTable::new("app_settings"),
    OwnedTable::kept_for("app_slots", app_slots::SINGLE_SLOT_KEPT_FOR),
    OwnedTable::new("signal_drops"),
    OwnedTable {
        outlives: Some(OutlivingRows { condition: None, reason: "it proves that nothing else is left" }),
        ..OwnedTable::new("tenant_erasures")
    },
    OwnedTable::new("erased_persons"),
    OwnedTable::new("person_secrets"),
    OwnedTable::new("key_erasures"),
    OwnedTable::new("uploads"),
    OwnedTable::new("partial_uploads"),
    OwnedTable::new("upload_parts"),
    OwnedTable { counted_bytes: Some("size"), ..OwnedTable::new("objects") },
    OwnedTable::new("upload_objects"),
    OwnedTable::new("symbol_slots"),
    OwnedTable {
        outlives: Some(OutlivingRows {
            condition: Some("kind = 'erase'"),
            reason: "it is the job that erases the tenant",
        }),
        in_use: Some("status = 'running' AND lease_until > $2"),
        ..OwnedTable::purged("jobs")
    },
    OwnedTable {
        outlives: Some(OutlivingRows {
            condition: Some("kind = 'tenant_config'"),
            reason: "it tells the workers that the tenant is deleted",
        }),
        ..OwnedTable::purged("outbox")
    },
    OwnedTable::new("reprocesses"),
    OwnedTable {
        key: &[KeyColumn::Value("report_id"), KeyColumn::Value("variant"), KeyColumn::Value("stored_month")],
        ..OwnedTable::dropped("report_keys")
    },
    OwnedTable { user: Some("user_hash"), is_part_of_report: true, ..OwnedTable::new("report_users") },
    OwnedTable::purged("report_duplicates"),
    REPORTS,
    OwnedTable { key: REPORT_KEY, ..OwnedTable::dropped("report_bodies") },
    OwnedTable { key: REPORT_KEY, ..OwnedTable::dropped("report_frames") },
    OwnedTable::new("segments"),
    OwnedTable::new("condemned_objects"),
    OwnedTable::new("history_moves"),
    OwnedTable::new("history_deletions"),
    OwnedTable::new("history_tenants"),
    OwnedTable {
        key: &[
            KeyColumn::Value("debug_id"),
            KeyColumn::Value("received_at"),
            KeyColumn::Value("report_id"),
            KeyColumn::Value("variant"),
        ],
        ..OwnedTable::dropped("waits")
    },
    OwnedTable::new("system_waits"),
    OwnedTable::new("wanted_images"),
    OwnedTable::new("app_days"),
    OwnedTable::new("app_hours"),
    OwnedTable { installation: Some("device"), is_part_of_report: true, ..OwnedTable::new("app_devices") },
    OwnedTable::new("groups"),
    OwnedTable::new("group_activity"),
    OwnedTable { installation: Some("device"), is_part_of_report: true, ..OwnedTable::new("group_deltas") },
    OwnedTable::new("group_days"),
    OwnedTable::kept_for("group_hours", HOUR_COUNTS_RETENTION),
    OwnedTable::new("group_breakdowns"),
    OwnedTable { installation: Some("device"), is_part_of_report: true, ..OwnedTable::new("group_devices") },
    OwnedTable::new("group_terms"),
    OwnedTable::new("group_moves"),
    OwnedTable::new("group_redirects"),
    OwnedTable::new("group_short_ids"),
    OwnedTable::new("group_labels"),
    OwnedTable::new("group_views"),
    OwnedTable::new("grouping_rules"),
    OwnedTable::new("deferred_ranges"),
    OwnedTable::purged("dead_letters"),
];

const REPORT_KEY: &[KeyColumn] =
    &[KeyColumn::Value("received_at"), KeyColumn::Value("report_id"), KeyColumn::Value("variant")];

/// The reports: deleted with all dependent rows by [`delete_report`](crate::reports::delete_report).
pub(crate) const REPORTS: OwnedTable = OwnedTable {
    key: REPORT_KEY,
    app: Some("app"),
    version: Some("version"),
    received_at: Some("received_at"),
    session: Some("run_id"),
    installation: Some("device"),
    sender_key: Some("sender_key"),
    is_part_of_report: true,
    ..OwnedTable::dropped("reports")
};

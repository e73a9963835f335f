//! The statements about exports, their days and files, and the rows that are written.

mod changes;
mod days;
mod exports;
mod files;
mod rows;

pub use changes::{collect_changes, drop_changes, queue_changes};
pub use days::{DueDay, WrittenDay, count_waiting, find_due_change, find_generation, finish_day};
pub use exports::{
    ExportRow, NewExportRow, get_export, is_current, lock_export, oldest_due, record_failure, record_success,
    remove_export, set_export, skip_days,
};
pub use files::{EndedFile, add_file, forget_file, list_ended};
pub use rows::{ExportedReport, RowPosition, RowReportId, find_next_app, list_rows};

use std::collections::BTreeMap;
use std::future::ready;
use time::{Date, OffsetDateTime, UtcOffset};
use unslide_store::tables::OwnedTable;
use unslide_store::{HookFuture, StoreEvent, StoreHook};

/// The tables of the feature, and its part in transactions that change reports.
pub const PARQUET_EXPORT_HOOK: StoreHook =
    StoreHook { on_event: Some(act_on_event), ..StoreHook::with_tables(crate::NAME, OWNED_TABLES) };

/// In the order of locks.
const OWNED_TABLES: &[OwnedTable] = &[
    OwnedTable::new("parquet_exports"),
    OwnedTable::new("parquet_day_changes"),
    OwnedTable::new("parquet_days"),
    OwnedTable::new("parquet_files"),
];

/// Days that a transaction changes, and whether it deletes a report of the day.
pub type ChangedDays = BTreeMap<Date, bool>;

/// Notes the days of reports that are stored again, moved or deleted. A day that is not over is written anyway.
fn act_on_event<'e>(event: &'e mut StoreEvent<'_>) -> HookFuture<'e> {
    let (tx, days) = match event {
        StoreEvent::ReportsStored(tx, stored) => {
            let days = ended_days(stored.reports.iter().map(|report| report.received_at), tx.now(), false);
            (tx, days)
        }
        StoreEvent::ReportsMoved(tx, moved) => {
            let days = ended_days(moved.iter().map(|report| report.received_at), tx.now(), false);
            (tx, days)
        }
        StoreEvent::ReportDeleted(tx, report) => {
            let days = ended_days([report.place.received_at], tx.now(), true);
            (tx, days)
        }
        _ => return Box::pin(ready(Ok(()))),
    };
    if days.is_empty() {
        return Box::pin(ready(Ok(())));
    }
    Box::pin(async move { queue_changes(tx, &days).await })
}

/// Returns the days of these times that are over.
fn ended_days(
    times: impl IntoIterator<Item = OffsetDateTime>,
    now: OffsetDateTime,
    erases: bool,
) -> ChangedDays {
    let today = now.to_offset(UtcOffset::UTC).date();
    let days = times.into_iter().map(|at| at.to_offset(UtcOffset::UTC).date());
    days.filter(|day| *day < today).map(|day| (day, erases)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::{date, datetime};

    #[test]
    fn only_days_that_are_over_in_utc_change() {
        let now = datetime!(2026-11-30 00:30 UTC);
        let times = [
            datetime!(2026-11-29 23:59 UTC),
            datetime!(2026-11-30 00:10 UTC),
            datetime!(2026-11-30 01:30 +2),
            datetime!(2026-11-27 12:00 UTC),
        ];
        let days = ended_days(times, now, false);
        assert_eq!(days.into_keys().collect::<Vec<_>>(), [date!(2026 - 11 - 27), date!(2026 - 11 - 29)]);
        assert_eq!(ended_days([times[1]], now, true), ChangedDays::new());
    }
}

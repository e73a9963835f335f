//! Rows of reports as ClickHouse has them, and their places.

use crate::{HistoryError, HistoryResult};
use serde::Deserialize;
use time::OffsetDateTime;
use unslide_model::{ReportId, timestamp};

/// The row of a moved report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRow {
    /// When the report arrived. It never changes.
    pub received_at: OffsetDateTime,
    /// The report.
    pub report_id: ReportId,
    /// 0, or its index among reports with the same id and other bytes.
    pub variant: u32,
    /// The number of this move among those of the report, from 1: a later move has a higher one.
    pub version: u32,
    /// The whole row of PostgreSQL's `reports`, as JSON.
    pub row: String,
}

impl HistoryRow {
    /// Returns the place of the row.
    #[must_use]
    pub fn place(&self) -> HistoryPlace {
        HistoryPlace { received_at: self.received_at, report_id: self.report_id, variant: self.variant }
    }
}

/// The key of a report's row. Lists are in the order of its fields, as in PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistoryPlace {
    /// When the report arrived.
    pub received_at: OffsetDateTime,
    /// The report.
    pub report_id: ReportId,
    /// 0, or its index among reports with the same id and other bytes.
    pub variant: u32,
}

/// One move of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistoryVersion {
    /// The report's row.
    pub place: HistoryPlace,
    /// The number of the move.
    pub version: u32,
}

/// The order of a list, by the fields of [`HistoryPlace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryOrder {
    /// The newest report comes first.
    NewestFirst,
    /// The oldest report comes first.
    OldestFirst,
}

/// The columns of a [`FoundRow`].
pub(crate) const ROW_COLUMNS: &str =
    "SELECT toUnixTimestamp64Micro(received_at), report_id, variant, version, row FROM reports WHERE ";
/// The columns of a [`FoundVersion`].
pub(crate) const VERSION_COLUMNS: &str =
    "SELECT toUnixTimestamp64Micro(received_at), report_id, variant, version FROM reports WHERE ";

/// A row in an answer: microseconds of its arrival, id, variant, version and document.
#[derive(Deserialize)]
pub(crate) struct FoundRow(i64, ReportId, u32, u32, String);

/// A move in an answer: microseconds of its arrival, id, variant and version.
#[derive(Deserialize)]
pub(crate) struct FoundVersion(i64, ReportId, u32, u32);

impl FoundRow {
    pub(crate) fn into_row(self) -> HistoryResult<HistoryRow> {
        let FoundRow(micros, report_id, variant, version, row) = self;
        let received_at = read_time(micros)?;
        Ok(HistoryRow { received_at, report_id, variant, version, row })
    }
}

impl FoundVersion {
    pub(crate) fn into_version(self) -> HistoryResult<HistoryVersion> {
        let FoundVersion(micros, report_id, variant, version) = self;
        let received_at = read_time(micros)?;
        let place = HistoryPlace { received_at, report_id, variant };
        Ok(HistoryVersion { place, version })
    }
}

fn read_time(micros: i64) -> HistoryResult<OffsetDateTime> {
    timestamp::from_micros(micros).ok_or_else(|| HistoryError::unreadable("a time"))
}

//! The end of a page of reports, as a text that a later query continues from.

use crate::Uuid;
use crate::number::{from_row32, to_row32};
use crate::outbox;
use std::fmt;
use std::str::FromStr;
use time::OffsetDateTime;
use unslide_history::HistoryPlace;
use unslide_model::{ReportId, timestamp};

/// A text that is no cursor of reports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of reports: take it from the page before, unchanged")]
pub struct CursorError;

/// The last report of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportCursor {
    pub(crate) at: OffsetDateTime,
    pub(crate) report_id: Uuid,
    pub(crate) variant: i32,
}

impl ReportCursor {
    /// Makes the position behind a report in the order of a list.
    #[must_use]
    pub fn after_report(at: OffsetDateTime, report_id: ReportId, variant: u32) -> ReportCursor {
        ReportCursor { at, report_id: report_id.uuid(), variant: to_row32(variant) }
    }

    /// Returns the place of the report in ClickHouse.
    pub(crate) fn to_history_place(self) -> HistoryPlace {
        HistoryPlace {
            received_at: self.at,
            report_id: ReportId::from_uuid(self.report_id),
            variant: from_row32(self.variant),
        }
    }

    /// Goes on with what arrived before this time.
    pub(crate) fn before_time(at: OffsetDateTime) -> ReportCursor {
        ReportCursor { at, report_id: Uuid::nil(), variant: 0 }
    }
}

/// `<microseconds since the Unix epoch>.<id>.<variant>`.
impl fmt::Display for ReportCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", outbox::to_micros(self.at), self.report_id, self.variant)
    }
}

impl FromStr for ReportCursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<ReportCursor, CursorError> {
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [at, report_id, variant] = parts[..] else { return Err(CursorError) };
        Ok(ReportCursor {
            at: at.parse().ok().and_then(timestamp::from_micros).ok_or(CursorError)?,
            report_id: report_id.parse().map_err(|_| CursorError)?,
            variant: variant.parse().map_err(|_| CursorError)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients and rows keep cursors over an update.
    #[test]
    fn a_cursor_is_the_time_the_report_and_the_variant() {
        let at = OffsetDateTime::from_unix_timestamp(1_763_600_000).unwrap();
        let cursor = ReportCursor::after_report(at, ReportId([0xAB; 16]), 2);
        let text = cursor.to_string();
        assert_eq!(text, "1763600000000000.abababab-abab-abab-abab-abababababab.2");
        assert_eq!(text.parse(), Ok(cursor));
        let far = text.replacen("1763600000000000", "9223372036854775807", 1);
        let before_4713_bc = text.replacen("1763600000000000", "-300000000000000000", 1);
        for bad in ["", "..", "1763600000000000", &format!("{text}.0"), &far, &before_4713_bc, "é"] {
            assert_eq!(bad.parse::<ReportCursor>(), Err(CursorError), "{bad}");
        }
    }
}

//! The position from which a wake of one debug id continues.

use serde::{Deserialize, Serialize};
use time::{Date, OffsetDateTime};
use unslide_model::ReportId;

/// The last report of a page.
pub(crate) type Last = (OffsetDateTime, ReportId, u32);

/// The position from which a wake continues. It is kept in the job, so that a builder that dies costs one
/// page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeCursor {
    /// None while the waits of single reports are gone through; then the day, of those that wait
    /// for an image of the operating system.
    pub(super) day: Option<Date>,
    pub(super) last: Option<Last>,
}

impl WakeCursor {
    pub(super) fn at_day(day: Date) -> WakeCursor {
        WakeCursor { day: Some(day), last: None }
    }
}

//! The period of figures, in days.

use crate::operations::prelude::*;
use unslide_store::queries::health::MOST_DAYS;

/// Default period.
const DAYS: u32 = 14;

time::serde::format_description!(pub(super) day, Date, "[year]-[month]-[day]");

/// Checks the days of a period.
pub(super) fn days(asked: Option<u32>) -> Result<u32, Problem> {
    let days = asked.unwrap_or(DAYS);
    if (1..=MOST_DAYS).contains(&days) {
        return Ok(days);
    }
    let detail = format!("days: must be between 1 and {MOST_DAYS}");
    Err(Problem::new(Kind::InvalidParameter, detail))
}

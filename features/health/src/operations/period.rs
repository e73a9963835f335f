//! The period of figures, in days.

use super::prelude::*;
use crate::store::figures::MOST_DAYS;

const DEFAULT_DAYS: u32 = 14;

/// Checks the days of a period.
pub(super) fn check_days(asked: Option<u32>) -> Result<u32, Problem> {
    let days = asked.unwrap_or(DEFAULT_DAYS);
    if (1..=MOST_DAYS).contains(&days) {
        return Ok(days);
    }
    let detail = format!("days: must be between 1 and {MOST_DAYS}");
    Err(Problem::new(Kind::InvalidParameter, detail))
}

//! What was sampled of stored reports.

use crate::http::problem::{Kind, Problem};
use crate::limits::permits::Reservation;
use unslide_report::{Report, ReportProfile};
use unslide_signals::profile::report_tree_bytes;

/// Bytes of the nodes of a profile: for each byte of its report, and at most.
const PROFILE_BYTES: u64 = 32;
const MOST_PROFILE_BYTES: u64 = 16 << 20;

/// The profile of a report. Bytes are reserved for it and for its tree.
///
/// # Errors
/// Where no bytes are left.
pub fn profile<'r, 'a>(
    report: &'r Report<'a>,
    reservation: &mut Reservation,
) -> Result<Option<ReportProfile<'r, 'a>>, Problem> {
    let bytes = (report.input.len() as u64).saturating_mul(PROFILE_BYTES);
    reservation.grow(bytes.min(MOST_PROFILE_BYTES))?;
    let Some(profile) = report.profile_or_hang() else { return Ok(None) };
    reservation.grow(report_tree_bytes(report, &profile))?;
    Ok(Some(profile))
}

/// The report, or the group, has no profile.
pub fn no_profile() -> Problem {
    Problem::new(Kind::NotFound, "nothing was sampled: there is neither a profile nor the stack of a hang")
}

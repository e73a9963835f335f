//! Profiles of stored reports.

use crate::limits::permits::Reservation;
use crate::problem::{Kind, Problem};
use unslide_calltree::report_tree_bytes;
use unslide_report::{Report, ReportProfile};

/// Memory for the nodes of a profile in bytes: for each byte of its report, and at most.
const PROFILE_BYTES: u64 = 32;
const MOST_PROFILE_BYTES: u64 = 16 << 20;

/// Returns the profile of a report. Reserves bytes for it and for its tree.
///
/// # Errors
/// No bytes are left.
pub fn load_profile<'r, 'a>(
    report: &'r Report<'a>,
    reservation: &mut Reservation,
) -> Result<Option<ReportProfile<'r, 'a>>, Problem> {
    let bytes = (report.input.len() as u64).saturating_mul(PROFILE_BYTES);
    reservation.reserve_more(bytes.min(MOST_PROFILE_BYTES))?;
    let Some(profile) = report.profile_or_hang() else { return Ok(None) };
    reservation.reserve_more(report_tree_bytes(report, &profile))?;
    Ok(Some(profile))
}

/// Returns the problem for a report or group without a profile.
pub fn no_profile() -> Problem {
    Problem::new(Kind::NotFound, "nothing was sampled: there is neither a profile nor the stack of a hang")
}

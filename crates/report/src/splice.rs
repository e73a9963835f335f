//! Inserts our members into a report and removes them again.
//!
//! Insertions follow this grammar over bytes, always just before the closing brace of an object:
//!
//! ```text
//! insertion = [ "," ] "\"symbolication\":" object
//! ```
//!
//! The comma is there only if the object has other members. There is no white space outside of
//! `object`, and the rest of the input is unchanged. An enriched report has one insertion in each
//! frame of [`Report::backtraces`] and one in the report object itself.
//!
//! Removal applies if the last member of the report object is our own: an object named
//! `symbolication` with a numeric `version` and an `engine` that begins with
//! [`ENGINE_PREFIX`](crate::ENGINE_PREFIX). It removes that member, and the last member of each frame
//! if it is an object of that name. Each is removed from its comma (from its key, if it is the only
//! member) to the end of its value. If the report object's last member is not ours, nothing is
//! removed: a key of that name from another program stays, in the report and in its frames.

use crate::{ReadError, ReadLimits, Report};
use std::borrow::Cow;

/// Returns the bytes before the value of our member. The comma depends on whether the object has other members.
#[must_use]
pub fn member_key(has_members: bool) -> &'static [u8] {
    if has_members { b",\"symbolication\":" } else { b"\"symbolication\":" }
}

/// Returns the report without our additions, with exactly its original bytes.
///
/// # Errors
/// Returns [`ReadError`] if the input is not a report.
pub fn strip_additions<'a>(input: &'a [u8], limits: &ReadLimits) -> Result<Cow<'a, [u8]>, ReadError> {
    Ok(Report::read(input, limits)?.strip_additions())
}

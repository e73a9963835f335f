//! Putting our members into a report and taking them out again.
//!
//! What is inserted, as a grammar over bytes, always just before the closing brace of an object:
//!
//! ```text
//! insertion = [ "," ] "\"symbolication\":" object
//! ```
//!
//! with the comma where the object has members and without it where it has none, no white space
//! outside of `object`, and nothing else of the input touched. An enriched report has one
//! insertion in each frame of [`Report::backtraces`] and one in the report object itself.
//!
//! What is taken out: where the last member of the report object is named `symbolication` and is
//! an object with a `version` that is a number and an `engine` that begins with
//! [`ENGINE_PREFIX`](crate::ENGINE_PREFIX), that member and the last member of each frame where it
//! is an object of that name; each from its comma (its key, where it is the only member) to the end
//! of its value. Where the report object's last member is another's, nothing is taken out, so
//! a key of that name that was there before us stays, in the report as in its frames.

use crate::{ReadError, ReadLimits, Report};
use std::borrow::Cow;
use std::ops::Range;

/// What goes before the value of our member, by whether the object has members already.
#[must_use]
pub fn key(has_members: bool) -> &'static [u8] {
    if has_members { b",\"symbolication\":" } else { b"\"symbolication\":" }
}

/// The report without what we added, byte for byte what it was before.
///
/// # Errors
/// [`ReadError`] where the input is no report.
pub fn strip<'a>(input: &'a [u8], limits: &ReadLimits) -> Result<Cow<'a, [u8]>, ReadError> {
    Ok(Report::read(input, limits)?.stripped())
}

/// `input` without the given spans, which ascend and do not overlap.
pub(crate) fn without(input: &[u8], spans: Vec<Range<usize>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len());
    let mut done = 0;
    for span in spans {
        out.extend_from_slice(&input[done..span.start]);
        done = span.end;
    }
    out.extend_from_slice(&input[done..]);
    out
}

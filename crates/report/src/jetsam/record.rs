//! The event in a log that consists of two JSON texts.

use super::is_jetsam;
use crate::ReadLimits;
use crate::json::{JsonScanner, Value};

/// The maximum size of a header. Real ones have a quarter of a KiB.
const MOST_HEADER: usize = 16 << 10;

/// Returns the event after the header of a Jetsam log, or `None` for other bytes. The event repeats everything that the
/// header says.
pub(crate) fn event_of_record(record: &[u8]) -> Option<&[u8]> {
    let start = record.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(record).trim_ascii_start();
    let end = memchr::memchr(b'\n', start.get(..MOST_HEADER).unwrap_or(start))?;
    let (header, event) = start.split_at_checked(end)?;
    memchr::memmem::find(header, b"\"bug_type\"")?;
    let mut s = JsonScanner::new(header, &ReadLimits::default()).ok()?;
    s.skip_preamble().ok()?;
    let at = s.pos();
    s.skip_value().ok()?;
    s.expect_end().ok()?;
    let bug_type = Value::from_offset(header, at).get("bug_type")?;
    let event = event.trim_ascii();
    (is_jetsam(bug_type) && event.starts_with(b"{")).then_some(event)
}

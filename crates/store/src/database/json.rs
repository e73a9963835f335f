//! Values of rows that a statement takes as JSON, for `jsonb_populate_recordset`.

use std::fmt::Write;
use time::{Duration, OffsetDateTime, UtcOffset};

/// Returns a `timestamptz` as text, cut to microseconds as an argument of that type is: PostgreSQL rounds a
/// text. It is in UTC, because PostgreSQL reads no offset of 16 hours or more in a text, and clients may send
/// one.
pub fn format_time(at: OffsetDateTime) -> String {
    let at = at.checked_to_offset(UtcOffset::UTC).unwrap_or(at);
    (at - Duration::nanoseconds((at.nanosecond() % 1_000).into())).to_string()
}

/// Returns a `bytea` as text.
pub fn format_bytes(bytes: &[u8]) -> String {
    bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn a_time_is_cut_to_microseconds_and_bytes_are_hex() {
        assert_eq!(
            format_time(datetime!(2026-11-20 23:59:59.999_999_9 +1)),
            "2026-11-20 22:59:59.999999 +00:00:00"
        );
        assert_eq!(format_time(datetime!(2026-11-20 9:00 UTC)), "2026-11-20 9:00:00.0 +00:00:00");
        assert_eq!(format_bytes(&[0, 0xff]), "\\x00ff");
    }
}

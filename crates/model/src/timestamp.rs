//! Times from clients, devices and producers. PostgreSQL accepts fewer times than `OffsetDateTime` holds: none before
//! 4713 BC, and as text none before the year 1. A time with an offset that leads beyond the year 9999 has no
//! value in UTC.

use serde::{Deserializer, de::Error};
use time::{OffsetDateTime, UtcOffset};

/// Returns the time in UTC if it lies in the years 1 to 9999.
#[must_use]
pub fn to_storable(at: OffsetDateTime) -> Option<OffsetDateTime> {
    at.checked_to_offset(UtcOffset::UTC).filter(|at| (1..=9_999).contains(&at.year()))
}

/// Returns the beginning of the hour (UTC) of a time.
#[must_use]
pub fn begin_of_hour(at: OffsetDateTime) -> OffsetDateTime {
    at.checked_to_offset(UtcOffset::UTC).unwrap_or(at).truncate_to_hour()
}

/// Reads an optional time (RFC 3339) from a client's JSON.
///
/// # Errors
/// Returns an error if the value is not a time, or if the time cannot be stored.
pub fn deserialize<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<OffsetDateTime>, D::Error> {
    let at = time::serde::rfc3339::option::deserialize(reader)?;
    let stored = |at| to_storable(at).ok_or_else(|| D::Error::custom("a time of the years 1 to 9999 (UTC)"));
    at.map(stored).transpose()
}

/// Returns the time for microseconds since the Unix epoch, if it can be stored.
#[must_use]
pub fn from_micros(micros: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000).ok().and_then(to_storable)
}

/// Returns the time for milliseconds since the Unix epoch, as Kafka counts them, if it can be stored.
#[must_use]
pub fn from_millis(millis: i64) -> Option<OffsetDateTime> {
    millis.checked_mul(1_000).and_then(from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn an_hour_begins_in_utc() {
        let at = datetime!(2026-11-20 12:29:59.9 +02:00);
        assert_eq!(begin_of_hour(at), datetime!(2026-11-20 10:00 UTC));
        assert_eq!(begin_of_hour(datetime!(-9999-01-01 0:30 +05:00)).minute(), 0);
    }

    #[test]
    fn only_times_that_postgres_holds_are_taken() {
        let last = datetime!(9999-12-31 23:59 UTC);
        assert_eq!(to_storable(last), Some(last));
        assert_eq!(to_storable(datetime!(9999-12-31 23:59 -1)), None);
        assert_eq!(to_storable(datetime!(0000-12-31 23:59 UTC)), None);
        assert_eq!(to_storable(datetime!(0001-01-01 00:30 +1)), None);
        let at = datetime!(2026-11-20 09:00 +1);
        assert_eq!(to_storable(at).map(OffsetDateTime::offset), Some(UtcOffset::UTC));
        assert_eq!(from_millis(1_763_600_000_000), from_micros(1_763_600_000_000_000));
        for micros in [i64::MIN, i64::MAX, -300_000_000_000_000_000] {
            assert_eq!(from_micros(micros), None, "{micros}");
            assert_eq!(from_millis(micros), None, "{micros}");
        }
    }
}

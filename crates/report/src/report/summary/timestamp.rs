//! The device's time of the crash, in all its formats.

use crate::device_clock::read_time;
use crate::json::Value;
use time::OffsetDateTime;

/// Reads `report.timestamp`: RFC 3339 text, or an integer since the Unix epoch in microseconds (from
/// version 3.3.0 on) or seconds. Forks combine old version numbers with new units and new ones with
/// old units, so the magnitude decides: microseconds from 10¹⁴ on, milliseconds from 10¹¹ on, and
/// seconds otherwise. Returns `None` for anything else, such as the empty text that some libraries
/// write for a time in the future.
pub(crate) fn device_time(value: Value<'_>) -> Option<OffsetDateTime> {
    if let Some(text) = value.decode_string() {
        return read_time(&text);
    }
    let number = value.as_unsigned()?;
    let nanoseconds = match number {
        100_000_000_000_000.. => 1_000,
        100_000_000_000.. => 1_000_000,
        _ => 1_000_000_000,
    };
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(number) * nanoseconds).ok()
}

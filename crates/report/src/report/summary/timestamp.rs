//! The device's claim of when it crashed, in all its spellings.

use crate::json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The moment that `report.timestamp` names: RFC 3339 text, or an integer since the Unix epoch in
/// microseconds (from version 3.3.0 on) or seconds. Forks keep old version numbers with new units
/// and the other way round, so the magnitude decides: from 10¹⁴ on microseconds, from 10¹¹ on
/// milliseconds, else seconds. `None` for anything else, such as the empty text that some
/// libraries write for a time in the future.
pub(crate) fn device_time(value: Value<'_>) -> Option<OffsetDateTime> {
    if let Some(text) = value.string() {
        return OffsetDateTime::parse(&text, &Rfc3339).ok();
    }
    let number = value.unsigned()?;
    let nanoseconds = match number {
        100_000_000_000_000.. => 1_000,
        100_000_000_000.. => 1_000_000,
        _ => 1_000_000_000,
    };
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(number) * nanoseconds).ok()
}

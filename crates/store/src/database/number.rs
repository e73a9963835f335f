//! Numbers between rows, which are signed, and code, where they cannot be negative.

/// Into a `bigint`; what does not fit is cut.
pub(crate) fn to_row(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// From a `bigint` that is never negative.
pub(crate) fn from_row(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Into an `integer`; what does not fit is cut.
pub(crate) fn to_row32(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// From an `integer` that is never negative.
pub(crate) fn from_row32(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

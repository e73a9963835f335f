//! Converts numbers between rows, which are signed, and code, which uses unsigned types for numbers that
//! cannot be negative.

/// Converts into a `bigint`; what does not fit is cut.
#[must_use]
pub fn to_row(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts from a `bigint` that is never negative.
#[must_use]
pub fn from_row(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Converts into an `integer`; what does not fit is cut.
#[must_use]
pub fn to_row32(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Converts from an `integer` that is never negative.
#[must_use]
pub fn from_row32(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

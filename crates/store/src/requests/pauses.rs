//! The pauses before reports are requested again after their symbols could not be fetched.

use time::Duration;

/// The pauses before each try.
pub const RETRY_BACKOFFS: [Duration; 8] = [
    Duration::minutes(1),
    Duration::minutes(2),
    Duration::minutes(5),
    Duration::minutes(12),
    Duration::minutes(30),
    Duration::minutes(70),
    Duration::minutes(160),
    Duration::hours(6),
];

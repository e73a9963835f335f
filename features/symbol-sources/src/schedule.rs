//! The times at which a source is asked again.

use time::Duration;

/// How long after its last report an image is asked for.
pub const WAIT_PERIOD: Duration = Duration::days(14);
/// The first pauses after answers; the last one is repeated.
const PAUSES: [Duration; 3] = [Duration::hours(1), Duration::hours(6), Duration::days(1)];

/// Returns the pause after this many answers.
#[must_use]
pub fn pause_after(attempts: i32) -> Duration {
    let at = usize::try_from(attempts.saturating_sub(1)).unwrap_or_default();
    PAUSES.get(at).copied().unwrap_or(Duration::DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_day() {
        let hours = [0, 1, 2, 3, 4, i32::MAX].map(|attempts| pause_after(attempts).whole_hours());
        assert_eq!(hours, [1, 1, 6, 24, 24, 24]);
    }
}

//! The times at which a source is asked again.

use time::Duration;

/// How long after its last report an image is asked for.
pub const WAIT_PERIOD: Duration = Duration::days(14);
/// The first pauses after answers; the last one is repeated.
const PAUSES: [Duration; 3] = [Duration::hours(1), Duration::hours(6), Duration::days(1)];
/// The longest pause of a source after failures, and the longest that it may ask for.
const FAILURE_PAUSE_MAX: Duration = Duration::hours(1);

/// Returns the pause after this many answers.
#[must_use]
pub fn pause_after(attempts: i32) -> Duration {
    let at = usize::try_from(attempts.saturating_sub(1)).unwrap_or_default();
    PAUSES.get(at).copied().unwrap_or(Duration::DAY)
}

/// Returns the pause of a source after a failure that follows a number of others. It may ask for a longer one.
#[must_use]
pub fn pause_after_failure(failures: i32, wanted: Option<Duration>) -> Duration {
    let usual =
        unslide_api::feature::tenant_turns::retry_pause(failures.saturating_add(1)).min(FAILURE_PAUSE_MAX);
    wanted.map_or(usual, |wanted| wanted.clamp(usual, FAILURE_PAUSE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_day_and_those_of_failures_to_an_hour() {
        let hours = [0, 1, 2, 3, 4, i32::MAX].map(|attempts| pause_after(attempts).whole_hours());
        assert_eq!(hours, [1, 1, 6, 24, 24, 24]);
        let seconds = [0, 1, 2, i32::MAX].map(|failures| pause_after_failure(failures, None).whole_seconds());
        assert_eq!(seconds, [10, 30, 90, 3_600]);
        let wanted = [1, 60, 100_000].map(|wanted| pause_after_failure(0, Some(Duration::seconds(wanted))));
        assert_eq!(wanted.map(Duration::whole_seconds), [10, 60, 3_600]);
    }
}

//! Counts by hour, which are kept for 48 hours beside those of days: rules watch them, and the console shows them.

use time::{Duration, OffsetDateTime};
use unslide_model::timestamp::begin_of_hour;

/// How long hours count.
pub const HOURS_RETENTION: Duration = Duration::hours(48);
/// Time after which rows are deleted: no hour that counts loses some of its rows.
pub(super) const ROWS_RETENTION: Duration = Duration::hours(50);

/// Returns the hour that an event of this time counts for; `None` if the hour is not kept any more, or too far ahead.
pub(super) fn counted_hour(at: OffsetDateTime, now: OffsetDateTime) -> Option<OffsetDateTime> {
    let age = now - at;
    (-Duration::HOUR..HOURS_RETENTION).contains(&age).then(|| begin_of_hour(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn an_event_counts_in_its_hour_for_two_days() {
        let now = datetime!(2026-11-20 10:30 UTC);
        for (at, hour) in [
            (datetime!(2026-11-20 10:30 UTC), Some(datetime!(2026-11-20 10:00 UTC))),
            (datetime!(2026-11-20 12:29:59.9 +02:00), Some(datetime!(2026-11-20 10:00 UTC))),
            (datetime!(2026-11-18 10:30:01 UTC), Some(datetime!(2026-11-18 10:00 UTC))),
            (datetime!(2026-11-18 10:30 UTC), None),
            (datetime!(2026-11-20 11:30 UTC), Some(datetime!(2026-11-20 11:00 UTC))),
            (datetime!(2026-11-20 11:30:01 UTC), None),
        ] {
            assert_eq!(counted_hour(at, now), hour, "{at}");
        }
    }
}

//! The hours and the days at which the summaries of rules are sent, and the hours in which nothing is.

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, Time};
use utoipa::ToSchema;

/// When a rule with the condition `summary` sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SummarySchedule {
    /// The hour of the receiver's day, 0 to 23.
    #[schema(maximum = 23, example = 9)]
    pub hour: u8,
    /// The receiver's time zone, by its name in IANA's database; `UTC` if absent.
    #[schema(max_length = 64, example = "Europe/Oslo")]
    #[serde(default = "usual_time_zone")]
    pub time_zone: String,
    /// True: on Mondays, about seven days. False: each day, about the day before.
    #[serde(default)]
    pub weekly: bool,
}

fn usual_time_zone() -> String {
    "UTC".to_owned()
}

impl Default for SummarySchedule {
    fn default() -> SummarySchedule {
        SummarySchedule { hour: 9, time_zone: usual_time_zone(), weekly: false }
    }
}

/// Returns the schedule of a row.
pub(super) fn read_schedule(
    hour: Option<i32>,
    zone: Option<String>,
    weekly: Option<bool>,
) -> Option<SummarySchedule> {
    let hour = u8::try_from(hour?).ok()?;
    Some(SummarySchedule { hour, time_zone: zone?, weekly: weekly? })
}

time::serde::format_description!(clock_time, Time, "[hour]:[minute]");

/// Hours of each day (UTC) in which nothing is sent. One message after them has all events of these hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuietHours {
    /// Begin of the quiet hours, `HH:MM` (UTC).
    #[serde(with = "clock_time")]
    #[schema(value_type = String, pattern = "^[0-9]{2}:[0-9]{2}$", example = "22:00")]
    pub from: Time,
    /// End of the quiet hours, `HH:MM` (UTC); on the next day if it is before the begin. Equal to the begin:
    /// no quiet hours.
    #[serde(with = "clock_time")]
    #[schema(value_type = String, pattern = "^[0-9]{2}:[0-9]{2}$", example = "07:00")]
    pub to: Time,
}

impl QuietHours {
    /// Returns when it is over, if it includes `at`.
    #[must_use]
    pub fn end_after(self, at: OffsetDateTime) -> Option<OffsetDateTime> {
        let (from, to, now) = (self.from, self.to, at.time());
        let inside = if from <= to { from <= now && now < to } else { now >= from || now < to };
        let end = at.replace_time(to);
        inside.then(|| if end > at { end } else { end + time::Duration::DAY })
    }
}

/// Returns the quiet hours of a row.
pub(super) fn quiet_hours(from: Option<Time>, to: Option<Time>) -> Option<QuietHours> {
    let (from, to) = from.zip(to)?;
    (from != to).then_some(QuietHours { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::{datetime, time};

    #[test]
    fn quiet_hours_may_go_over_midnight() {
        let night = QuietHours { from: time!(22:00), to: time!(7:00) };
        assert_eq!(night.end_after(datetime!(2026-11-20 21:59 UTC)), None);
        assert_eq!(night.end_after(datetime!(2026-11-20 22:00 UTC)), Some(datetime!(2026-11-21 7:00 UTC)));
        assert_eq!(night.end_after(datetime!(2026-11-21 6:59 UTC)), Some(datetime!(2026-11-21 7:00 UTC)));
        assert_eq!(night.end_after(datetime!(2026-11-21 7:00 UTC)), None);
        let noon = QuietHours { from: time!(12:00), to: time!(13:00) };
        assert_eq!(noon.end_after(datetime!(2026-11-20 12:30 UTC)), Some(datetime!(2026-11-20 13:00 UTC)));
        assert_eq!(noon.end_after(datetime!(2026-11-20 13:00 UTC)), None);
    }
}

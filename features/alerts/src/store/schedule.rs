//! The hours and the days at which the summaries of rules are sent.

use serde::{Deserialize, Serialize};
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

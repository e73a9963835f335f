//! A moment, as people name it.

use std::str::FromStr;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime, PrimitiveDateTime};

const DAY_MILLIS: i64 = 86_400_000;

/// A moment: a time, the beginning of a day in UTC, or a duration from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Milliseconds since the Unix epoch.
    At(i64),
    /// A number of milliseconds from now, into the past unless the option says otherwise.
    For(i64),
    /// The beginning of the day (UTC) this many days before today.
    DaysAgo(i64),
}

impl Moment {
    /// Returns milliseconds since the Unix epoch, relative to `now`.
    #[must_use]
    pub fn to_millis(self, now: i64) -> i64 {
        match self {
            Moment::At(millis) => millis,
            Moment::For(millis) => now - millis,
            Moment::DaysAgo(days) => now - now.rem_euclid(DAY_MILLIS) - days * DAY_MILLIS,
        }
    }

    /// Returns it in the form of the API.
    #[must_use]
    pub fn as_text(self, now: i64) -> String {
        format_time(self.to_millis(now))
    }

    /// Returns its day (UTC) in the form of the API.
    #[must_use]
    pub fn as_day(self, now: i64) -> String {
        let time = self.as_text(now);
        time.split_once('T').map_or(time.clone(), |(day, _)| day.to_owned())
    }
}

/// A time in UTC, with or without its seconds, after a space or a `T`.
const TIMES: [&[BorrowedFormatItem<'_>]; 4] = [
    format_description!("[year]-[month]-[day] [hour]:[minute]"),
    format_description!("[year]-[month]-[day]T[hour]:[minute]"),
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second]"),
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]"),
];

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Moment, String> {
        let text = text.trim();
        let named = match text.to_ascii_lowercase().as_str() {
            "now" => Some(Moment::For(0)),
            "today" => Some(Moment::DaysAgo(0)),
            "yesterday" => Some(Moment::DaysAgo(1)),
            _ => None,
        };
        named.or_else(|| parse_time(text)).or_else(|| parse_duration(text)).ok_or_else(|| {
            "not a time: use a day such as 2026-11-20 or yesterday, a time such as \"2026-11-20 10:00\" (UTC) or \
             2026-11-20T10:00:00+02:00, or a duration such as 90m, 12h, 7d or 1w"
                .to_owned()
        })
    }
}

fn parse_time(text: &str) -> Option<Moment> {
    let day = || Date::parse(text, format_description!("[year]-[month]-[day]")).ok().map(Date::midnight);
    let time = || TIMES.iter().find_map(|form| PrimitiveDateTime::parse(text, form).ok());
    let at = OffsetDateTime::parse(text, &Rfc3339).ok();
    let at = at.or_else(|| day().or_else(time).map(PrimitiveDateTime::assume_utc))?;
    Some(Moment::At(at.unix_timestamp() * 1_000 + i64::from(at.millisecond())))
}

fn parse_duration(text: &str) -> Option<Moment> {
    let unit = match text.chars().last()? {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => DAY_MILLIS,
        'w' => 7 * DAY_MILLIS,
        _ => return None,
    };
    let number = text.get(..text.len() - 1)?.parse::<u32>().ok()?;
    Some(Moment::For(i64::from(number) * unit))
}

/// Returns a moment as text.
#[must_use]
pub fn format_time(millis: i64) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000)
        .ok()
        .and_then(|at| at.format(&Rfc3339).ok())
        .unwrap_or_else(|| format!("{millis} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-28T09:00:00Z.
    const NOW: i64 = 1_795_856_400_000;

    #[test]
    fn a_moment_is_a_time_a_day_or_a_while_ago() {
        for (text, at) in [
            ("1970-01-01T00:00:01.5Z", "1970-01-01T00:00:01.5Z"),
            ("2026-11-20T10:00:00+02:00", "2026-11-20T08:00:00Z"),
            ("2026-11-20", "2026-11-20T00:00:00Z"),
            ("2026-11-20 10:00", "2026-11-20T10:00:00Z"),
            ("2026-11-20T10:00", "2026-11-20T10:00:00Z"),
            ("2026-11-20 10:00:05", "2026-11-20T10:00:05Z"),
            ("now", "2026-11-28T09:00:00Z"),
            ("today", "2026-11-28T00:00:00Z"),
            ("Yesterday", "2026-11-27T00:00:00Z"),
            ("90m", "2026-11-28T07:30:00Z"),
            ("1w", "2026-11-21T09:00:00Z"),
        ] {
            assert_eq!(text.parse::<Moment>().map(|moment| moment.as_text(NOW)).as_deref(), Ok(at), "{text}");
        }
        assert_eq!("1w".parse::<Moment>().unwrap().as_day(NOW), "2026-11-21");
        for wrong in ["", "h", "5", "5y", "-5h", "tomorrow", "5\u{b5}", "2026-13-01", "20.11.2026"] {
            assert!(wrong.parse::<Moment>().is_err(), "{wrong}");
        }
        assert_eq!(format_time(1_500), "1970-01-01T00:00:01.5Z");
    }
}

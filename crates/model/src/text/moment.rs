//! A moment on the command line.

use std::str::FromStr;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment, as a time or as a duration from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Milliseconds since the Unix epoch.
    At(i64),
    /// A number of milliseconds from now, into the past unless the option says otherwise.
    For(i64),
}

impl Moment {
    /// Returns milliseconds since the Unix epoch, relative to `now`.
    pub fn to_millis(self, now: i64) -> i64 {
        match self {
            Moment::At(millis) => millis,
            Moment::For(millis) => now - millis,
        }
    }

    /// Returns it in the form of the API.
    pub fn as_text(self, now: i64) -> String {
        format_time(self.to_millis(now))
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Moment, String> {
        if let Ok(at) = OffsetDateTime::parse(text, &Rfc3339) {
            return Ok(Moment::At(at.unix_timestamp() * 1_000 + i64::from(at.millisecond())));
        }
        let unit = match text.chars().last() {
            Some('s') => 1_000,
            Some('m') => 60_000,
            Some('h') => 3_600_000,
            Some('d') => 86_400_000,
            _ => 0,
        };
        let number = text.get(..text.len().saturating_sub(1)).and_then(|number| number.parse::<u32>().ok());
        match number.map(|number| i64::from(number) * unit) {
            Some(millis) if unit > 0 => Ok(Moment::For(millis)),
            _ => Err("neither a time such as 2026-11-20T10:00:00Z nor a duration such as 90m".to_owned()),
        }
    }
}

/// Returns a moment as text.
pub fn format_time(millis: i64) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000)
        .ok()
        .and_then(|at| at.format(&Rfc3339).ok())
        .unwrap_or_else(|| format!("{millis} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_or_a_while_ago() {
        assert_eq!("1970-01-01T00:00:01.5Z".parse(), Ok(Moment::At(1_500)));
        assert_eq!("90m".parse::<Moment>().map(|m| m.to_millis(10_000_000)), Ok(10_000_000 - 5_400_000));
        for wrong in ["", "h", "5", "5w", "-5h", "yesterday", "5\u{b5}"] {
            assert!(wrong.parse::<Moment>().is_err(), "{wrong}");
        }
        assert_eq!(format_time(1_500), "1970-01-01T00:00:01.5Z");
    }
}

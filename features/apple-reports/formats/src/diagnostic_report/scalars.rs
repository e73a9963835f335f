//! Dates, intervals and measurements.

use super::members::{find, get, text};
use super::notes::{Form, Notes};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_report::{JsonValue, device_clock_time};

/// The seconds from 1970 to 2001, where Swift's dates begin.
const SWIFT_EPOCH: f64 = 978_307_200.0;
/// Numbers from which a date counts seconds or milliseconds since 1970. In seconds since 2001 the first is the year 2039.
const FIRST_UNIX_SECONDS: f64 = 1.2e9;
const FIRST_UNIX_MILLISECONDS: f64 = 1e11;
/// The last date that is read, in seconds since 1970: the year 2286.
const LAST_SECONDS: f64 = 1e10;

/// Reads a date: a number as Swift writes it, or one of the forms that other encoders write.
fn read_date(value: JsonValue<'_>, notes: &mut Notes) -> Option<OffsetDateTime> {
    if let Some(text) = text(Some(value)) {
        notes.record_form(Form::Dates);
        let parse = |text: &str| OffsetDateTime::parse(text, &Rfc3339).ok();
        return parse(&text).or_else(|| parse(&device_clock_time(&text)?));
    }
    let number = value.as_decimal()?;
    let seconds = if number >= FIRST_UNIX_MILLISECONDS {
        notes.record_form(Form::Dates);
        number / 1e3
    } else if number >= FIRST_UNIX_SECONDS {
        notes.record_form(Form::Dates);
        number
    } else {
        number + SWIFT_EPOCH
    };
    #[expect(clippy::cast_possible_truncation, reason = "checked")]
    let micros = (seconds.abs() < LAST_SECONDS).then_some((seconds * 1e6).round() as i128)?;
    OffsetDateTime::from_unix_timestamp_nanos(micros * 1_000).ok()
}

/// The period that a report covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    pub begin: Option<OffsetDateTime>,
    pub end: Option<OffsetDateTime>,
}

impl TimeRange {
    /// Reads `timeRange`: `{begin, end}`, or one of the forms that other encoders write.
    ///
    /// # Errors
    /// Returns the problem if the value has no readable date, or ends before it begins.
    pub fn read(value: JsonValue<'_>, notes: &mut Notes) -> Result<TimeRange, String> {
        let range = TimeRange::parse(value, notes);
        if range.begin.is_none() && range.end.is_none() {
            return Err("has no date: it is {begin, end} in seconds since 2001".to_owned());
        }
        if let (Some(begin), Some(end)) = (range.begin, range.end)
            && begin > end
        {
            return Err("ends before it begins".to_owned());
        }
        Ok(range)
    }

    fn parse(value: JsonValue<'_>, notes: &mut Notes) -> TimeRange {
        if let Some(text) = text(Some(value)) {
            notes.record_form(Form::TimeRange);
            let parse = |text: &str| OffsetDateTime::parse(text.trim(), &Rfc3339).ok();
            let (begin, end) = text.split_once('/').unwrap_or((&text, &text));
            return TimeRange { begin: parse(begin), end: parse(end) };
        }
        let [begin, end, start, duration] = find(value, ["begin", "end", "start", "duration"]);
        if begin.is_none() && (start.is_some() || duration.is_some()) {
            notes.record_form(Form::TimeRange);
        }
        let begin = begin.or(start).and_then(|date| read_date(date, notes));
        let lasts = duration.and_then(JsonValue::as_decimal).filter(|seconds| seconds.abs() < LAST_SECONDS);
        let end = end
            .and_then(|date| read_date(date, notes))
            .or_else(|| begin?.checked_add(time::Duration::seconds_f64(lasts?)));
        TimeRange { begin, end }
    }

    /// Returns the end, or else the begin, in the form of RFC 3339.
    pub fn format_end(&self) -> Option<String> {
        self.end.or(self.begin)?.format(&Rfc3339).ok()
    }

    /// Returns the begin if it is another moment than the end.
    pub fn format_begin(&self) -> Option<String> {
        self.begin.filter(|begin| self.end.is_some_and(|end| end != *begin))?.format(&Rfc3339).ok()
    }
}

/// A number with its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub number: f64,
    pub unit: String,
}

impl Measurement {
    /// Reads `{value, unit}`, or one of the forms that other encoders write. `unit` is that of a bare number.
    pub fn read(value: JsonValue<'_>, unit: &str, notes: &mut Notes) -> Option<Measurement> {
        if let Some(number) = value.as_number().and_then(|_| value.as_decimal()) {
            notes.record_form(Form::Measurements);
            return Some(Measurement { number, unit: unit.to_owned() });
        }
        let [number, symbol] = find(value, ["value", "unit"]);
        let symbol = symbol.and_then(|symbol| {
            if !symbol.is_object() {
                return text(Some(symbol));
            }
            notes.record_form(Form::Measurements);
            text(get(symbol, "symbol"))
        });
        Some(Measurement { number: number?.as_decimal()?, unit: symbol? })
    }
}

impl std::fmt::Display for Measurement {
    /// `2750 ms`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.number, self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_report::ReadLimits;

    fn read(json: &str) -> JsonValue<'_> {
        JsonValue::read(json.as_bytes(), 0, &ReadLimits::default()).unwrap().0
    }

    #[test]
    fn dates_of_all_forms_are_one_moment() {
        for (json, is_apples) in [
            (r#"{"begin":799113600.25,"end":799113600.25}"#, true),
            (r#"{"start":799113600.25,"duration":0}"#, false),
            (r#"{"begin":"2026-04-29T00:00:00.25Z","end":"2026-04-29T00:00:00.25Z"}"#, false),
            (r#"{"begin":1777420800.25,"end":1777420800250}"#, false),
            (r#""2026-04-29T00:00:00.25Z/2026-04-29T00:00:00.25Z""#, false),
        ] {
            let mut notes = Notes::default();
            let range = TimeRange::read(read(json), &mut notes).unwrap();
            assert_eq!(range.format_end().as_deref(), Some("2026-04-29T00:00:00.25Z"), "{json}");
            assert_eq!(range.format_begin(), None, "an instant: {json}");
            assert_eq!(notes.describe_forms().is_empty(), is_apples, "{json}");
        }
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_refused() {
        let read = |json| TimeRange::read(read(json), &mut Notes::default());
        assert!(read(r#"{"begin":8,"end":7}"#).unwrap_err().contains("ends before"));
        for odd in ["7", "{}", r#"{"begin":1e300}"#, r#"{"begin":[]}"#] {
            assert!(read(odd).is_err(), "{odd}");
        }
        let span = read(r#"{"begin":799113600,"end":799200000}"#).unwrap();
        assert_eq!(span.format_begin().as_deref(), Some("2026-04-29T00:00:00Z"));
    }

    #[test]
    fn measurements_keep_units_that_are_not_known() {
        for (json, expected) in [
            (r#"{"value":2750,"unit":"ms"}"#, Some("2750 ms")),
            (
                r#"{"value":2.5,"unit":{"symbol":"s","converter":{"coefficient":1,"constant":0}}}"#,
                Some("2.5 s"),
            ),
            (r#"{"value":3,"unit":"fortnights"}"#, Some("3 fortnights")),
            ("12.5", Some("12.5 ms")),
            ("[]", None),
            (r#"{"value":3}"#, None),
        ] {
            let found = Measurement::read(read(json), "ms", &mut Notes::default());
            assert_eq!(found.map(|found| found.to_string()).as_deref(), expected, "{json}");
        }
    }
}

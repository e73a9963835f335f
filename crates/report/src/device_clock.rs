//! Times as devices write them: with a 12-hour clock, other digits than ASCII, or years of another calendar, if a writer
//! used the language and the settings of the device.

use std::borrow::Cow;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Words for the first half of a day, in lower case.
const MORNING: [&str; 7] = ["am", "a.m.", "a.m", "ص", "上午", "午前", "오전"];
/// Words for the second half of a day, in lower case.
const AFTERNOON: [&str; 7] = ["pm", "p.m.", "p.m", "م", "下午", "午後", "오후"];
/// The zeros of the decimal digits of other scripts; the other nine digits follow each.
const ZEROS: [char; 11] = [
    '\u{660}', '\u{6F0}', '\u{966}', '\u{9E6}', '\u{E50}', '\u{ED0}', '\u{F20}', '\u{1040}', '\u{17E0}',
    '\u{1810}', '\u{FF10}',
];
/// Years that are of the Buddhist calendar, which is ahead of ours.
const BUDDHIST_YEARS: std::ops::Range<u32> = 2_500..2_700;
const BUDDHIST_YEARS_AHEAD: u32 = 543;
/// The maximum size of a text with a time, in bytes.
const TIME_BYTES_LIMIT: usize = 100;

/// Reads a time such as `2022-03-16 11:45:14.2121 +0800`, `2026-10-02 8:51:02.00 PM +0200` or `٢٠٢٦-١٠-٠٢ ١٠:٤١:٠٦ +0200`.
/// Returns it in the form of RFC 3339, in UTC if it names no zone. Returns `None` for another form.
#[must_use]
pub fn device_clock_time(text: &str) -> Option<String> {
    if text.len() > TIME_BYTES_LIMIT {
        return None;
    }
    let plain = with_ascii(text);
    let (date, rest) = plain.trim().split_once([' ', 'T'])?;
    let (mut clock, mut zone, mut half) = (None, "+0000", None);
    for word in rest.split_whitespace() {
        match half_of_day(word) {
            Some(found) => half = Some(found),
            None if clock.is_none() => clock = Some(word),
            None => zone = word,
        }
    }
    let (clock, attached) = split_half(clock?);
    let clock = read_clock(clock, half.or(attached))?;
    let time = format!("{}T{clock}{}", read_date(date)?, read_zone(zone)?);
    OffsetDateTime::parse(&time, &Rfc3339).is_ok().then_some(time)
}

/// Reads a time of RFC 3339, or as [`device_clock_time`] does.
pub(crate) fn read_time(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok().or_else(|| {
        let plain = with_ascii(text);
        OffsetDateTime::parse(&plain, &Rfc3339)
            .ok()
            .filter(|_| plain != text)
            .or_else(|| OffsetDateTime::parse(&device_clock_time(text)?, &Rfc3339).ok())
    })
}

/// Replaces the digits of other scripts, and removes marks of the direction of writing.
fn with_ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let digit = |c: char| {
        let zero = ZEROS.into_iter().find(|zero| (*zero..=offset_char(*zero, 9)).contains(&c))?;
        char::from_digit(c as u32 - zero as u32, 10)
    };
    let is_mark =
        |c: &char| matches!(c, '\u{200E}' | '\u{200F}' | '\u{61C}' | '\u{FEFF}' | '\u{2066}'..='\u{2069}');
    let plain = |c: char| if c.is_whitespace() { ' ' } else { digit(c).unwrap_or(c) };
    Cow::Owned(text.chars().filter(|c| !is_mark(c)).map(plain).collect())
}

fn offset_char(zero: char, distance: u32) -> char {
    char::from_u32(zero as u32 + distance).unwrap_or(zero)
}

/// A half of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DayHalf {
    Morning,
    Afternoon,
}

fn half_of_day(word: &str) -> Option<DayHalf> {
    let word = word.to_lowercase();
    let is_one_of = |known: &[&str]| known.contains(&word.as_str());
    match () {
        () if is_one_of(&MORNING) => Some(DayHalf::Morning),
        () if is_one_of(&AFTERNOON) => Some(DayHalf::Afternoon),
        () => None,
    }
}

/// Splits the half of the day from a clock without a blank between them, such as `8:51:02PM` or `下午8:51:02`.
fn split_half(word: &str) -> (&str, Option<DayHalf>) {
    let is_of_clock = |c: char| c.is_ascii_digit() || matches!(c, ':' | '.' | ',');
    let begin = word.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
    let (before, clock) = word.split_at_checked(begin).unwrap_or(("", word));
    let end = clock.find(|c| !is_of_clock(c)).unwrap_or(clock.len());
    let (clock, after) = clock.split_at_checked(end).unwrap_or((clock, ""));
    match half_of_day(before).or_else(|| half_of_day(after)) {
        Some(half) => (clock, Some(half)),
        None => (word, None),
    }
}

fn number_of(digits: &str, lengths: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let is_number = lengths.contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

fn read_date(date: &str) -> Option<String> {
    let mut parts = date.split(['-', '/']);
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let (year, month, day) = (number_of(year, 4..=4)?, number_of(month, 1..=2)?, number_of(day, 1..=2)?);
    let year = if BUDDHIST_YEARS.contains(&year) { year - BUDDHIST_YEARS_AHEAD } else { year };
    parts.next().is_none().then(|| format!("{year:04}-{month:02}-{day:02}"))
}

fn read_clock(clock: &str, half: Option<DayHalf>) -> Option<String> {
    let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, ""));
    let mut parts = clock.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let hour = number_of(hour, if half.is_some() { 1..=2 } else { 2..=2 })?;
    let hour = match half {
        None => hour,
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some(DayHalf::Morning) => hour % 12,
        Some(DayHalf::Afternoon) => hour % 12 + 12,
    };
    let is_fraction = |digits: &str| digits.len() <= 9 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let (minute, second) = (number_of(minute, 2..=2)?, number_of(second, 2..=2)?);
    if parts.next().is_some() || !is_fraction(fraction) {
        return None;
    }
    let dot = if fraction.is_empty() { "" } else { "." };
    Some(format!("{hour:02}:{minute:02}:{second:02}{dot}{fraction}"))
}

/// Reads `+0800`, `+08:00` or `Z`.
fn read_zone(zone: &str) -> Option<String> {
    if matches!(zone, "Z" | "UTC" | "GMT") {
        return Some("+00:00".to_owned());
    }
    let (sign, digits) = zone.split_at_checked(1).filter(|(sign, _)| matches!(*sign, "+" | "-"))?;
    let digits = digits.replace(':', "");
    let (hours, minutes) = digits.split_at_checked(2)?;
    let (hours, minutes) = (number_of(hours, 2..=2)?, number_of(minutes, 2..=2)?);
    Some(format!("{sign}{hours:02}:{minutes:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_up_to_nine_digits_of_a_second_and_a_zone() {
        for (text, expected) in [
            ("2022-03-16 11:45:14.2121 +0800", Some("2022-03-16T11:45:14.2121+08:00")),
            ("2026-03-02 10:11:12 -0730", Some("2026-03-02T10:11:12-07:30")),
            ("2026-03-02 10:11:12.00", Some("2026-03-02T10:11:12.00+00:00")),
            ("2026-03-02 8:04:38", None),
            ("2026-03-02 25:04:38", None),
            ("2026-13-02 10:11:12", None),
            ("2026-03-02", None),
            ("", None),
        ] {
            assert_eq!(device_clock_time(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_12_hour_clock_and_other_digits_and_calendars_are_read() {
        for (text, expected) in [
            ("2026-10-02 10:41:06.123 PM +0200", "2026-10-02T22:41:06.123+02:00"),
            ("2026-10-02 12:00:00 AM +0200", "2026-10-02T00:00:00+02:00"),
            ("2026-10-02 12:00:00 p.m. -0500", "2026-10-02T12:00:00-05:00"),
            ("2026-10-02 8:04:38 AM", "2026-10-02T08:04:38+00:00"),
            ("2026-10-02 8:04:38\u{202F}PM +0000", "2026-10-02T20:04:38+00:00"),
            ("2026-10-02 下午8:04:38 +0800", "2026-10-02T20:04:38+08:00"),
            ("2026-10-02 午後 8:04:38 +0900", "2026-10-02T20:04:38+09:00"),
            ("٢٠٢٦-١٠-٠٢ ١٠:٤١:٠٦ +0200", "2026-10-02T10:41:06+02:00"),
            ("\u{200F}۲۰۲۶-۱۰-۰۲ ۱۰:۴۱:۰۶.۵ م +۰۲۰۰", "2026-10-02T22:41:06.5+02:00"),
            ("२०२६-१०-०२ १०:४१:०६ +0530", "2026-10-02T10:41:06+05:30"),
            ("2569-10-02 10:41:06 +0700", "2026-10-02T10:41:06+07:00"),
        ] {
            assert_eq!(device_clock_time(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["2026-10-02 13:00:00 PM +0200", "2026-10-02 0:10:00 AM", "2026-10-02 10:41 PM"] {
            assert_eq!(device_clock_time(text), None, "{text}");
        }
    }

    #[test]
    fn rfc_3339_is_read_with_other_digits() {
        let time = read_time("2026-10-02T10:41:06.5Z");
        assert!(time.is_some());
        assert_eq!(read_time("٢٠٢٦-١٠-٠٢T١٠:٤١:٠٦.٥Z"), time);
        assert_eq!(read_time("2026-10-02T10:41:06.5 AM Z"), time);
        assert_eq!(read_time(""), None);
    }
}

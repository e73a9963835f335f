//! Times for people: how long ago.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Units of an age with their seconds, the largest first.
const UNITS: [(&str, i64); 4] = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];

/// Returns a time of the API relative to `now`, such as `2 h ago` or `in 3 d`. Returns None for any other text.
pub fn describe_age(text: &str, now: OffsetDateTime) -> Option<String> {
    // Most cells are no times, and this is cheaper than to parse each.
    if !text.is_char_boundary(10) || text.as_bytes().get(10) != Some(&b'T') {
        return None;
    }
    let seconds = (now - OffsetDateTime::parse(text, &Rfc3339).ok()?).whole_seconds();
    let (unit, length) = UNITS.into_iter().find(|(_, length)| seconds.abs() >= *length).unwrap_or(("s", 1));
    let count = seconds.abs() / length;
    Some(if seconds < 0 { format!("in {count} {unit}") } else { format!("{count} {unit} ago") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_the_largest_unit_that_fits() {
        let now = OffsetDateTime::parse("2026-11-20T12:00:00Z", &Rfc3339).unwrap();
        for (text, age) in [
            ("2026-11-20T11:59:59.7Z", Some("0 s ago")),
            ("2026-11-20T11:59:01Z", Some("59 s ago")),
            ("2026-11-20T09:59:00.123456Z", Some("2 h ago")),
            ("2026-11-20T11:30:00+00:00", Some("30 min ago")),
            ("2026-10-01T00:00:00Z", Some("50 d ago")),
            ("2026-11-23T13:00:00Z", Some("in 3 d")),
            ("2026-11-20", None),
            ("A text that is no time", None),
        ] {
            assert_eq!(describe_age(text, now).as_deref(), age, "{text}");
        }
    }
}

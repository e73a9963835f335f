//! Adds what attributes say to a report that lacks it. No byte of the report changes.

use crate::facts::TelemetryFacts;
use serde_json::json;
use unslide_report::{JsonValue, ReadError, ReadLimits};

/// Levels of JSON in a report: frames of a call stack tree may nest.
const REPORT_LEVELS: usize = 1_100;

/// Returns a report in KSCrash's form with the facts of its record: only members that it does not have.
///
/// # Errors
/// Returns [`ReadError`] if the report is no JSON object.
pub fn complete_report(report: &[u8], facts: &TelemetryFacts) -> Result<Vec<u8>, ReadError> {
    let begin = if report.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
    let limits = ReadLimits { max_bytes: usize::MAX, max_depth: REPORT_LEVELS, ..ReadLimits::default() };
    let (root, end) = JsonValue::read(report, begin, &limits)?;
    if !root.is_object() {
        return Err(ReadError::NotJson { offset: begin, expected: "an object" });
    }
    // Insertions in the order of their offsets; a new section is the last member.
    let mut insertions: Vec<(usize, String)> = Vec::new();
    let mut new_sections = String::new();
    for (section, members) in facts.list_sections() {
        let known = root.get(section).filter(|known| known.is_object());
        let is_missing = |key: &str| {
            known.and_then(|known| known.get(key)).is_none_or(|value| {
                value.is_null() || value.decode_string().is_some_and(|text| text.is_empty())
            })
        };
        let lacking: Vec<String> = members
            .iter()
            .filter(|(key, _)| is_missing(key))
            .map(|(key, value)| format!("{}:{}", json!(key), json!(value)))
            .collect();
        if lacking.is_empty() {
            continue;
        }
        let lacking = lacking.join(",");
        match known {
            Some(known) => {
                let is_empty =
                    known.raw_bytes().get(1..).unwrap_or_default().trim_ascii_start().starts_with(b"}");
                // At the end: of equal names the last one counts.
                let close = known.offset() + known.raw_bytes().len() - 1;
                insertions.push((close, if is_empty { lacking } else { format!(",{lacking}") }));
            }
            None => new_sections.push_str(&format!(",{}:{{{lacking}}}", json!(section))),
        }
    }
    let close = end.saturating_sub(1);
    let is_empty =
        report.get(begin..end).unwrap_or_default().iter().filter(|byte| !byte.is_ascii_whitespace()).count()
            == 2;
    let sections = if is_empty { new_sections.trim_start_matches(',').to_owned() } else { new_sections };
    insertions.push((close, sections));
    insertions.sort_by_key(|(at, _)| *at);
    let mut written = Vec::with_capacity(end + insertions.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut from = begin;
    for (at, text) in insertions {
        written.extend_from_slice(report.get(from..at).unwrap_or_default());
        written.extend_from_slice(text.as_bytes());
        from = at;
    }
    written.extend_from_slice(report.get(from..end).unwrap_or_default());
    Ok(written)
}

/// Writes reports as one JSON array.
#[must_use]
pub fn write_batch(reports: &[Vec<u8>]) -> Vec<u8> {
    [&b"["[..], &reports.join(&b','), b"]"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn complete(report: &str) -> Value {
        let facts = TelemetryFacts {
            app: Some("com.example.shop".to_owned()),
            version: Some("2.4.1".to_owned()),
            session: Some("s-1".to_owned()),
            ..TelemetryFacts::default()
        };
        serde_json::from_slice(&complete_report(report.as_bytes(), &facts).unwrap()).unwrap()
    }

    #[test]
    fn a_report_gets_what_it_lacks_and_keeps_what_it_has() {
        let user = json!({"session_id": "s-1"});
        let system = json!({"CFBundleIdentifier": "com.example.shop", "CFBundleShortVersionString": "2.4.1"});
        assert_eq!(complete("{}"), json!({"system": system, "user": user}));
        assert_eq!(complete("\u{FEFF} { \"system\" : { } } "), json!({"system": system, "user": user}));
        let own = complete(
            r#"{"user":{"a":1},"system":{"CFBundleIdentifier":"own","CFBundleShortVersionString":""},"crash":{}}"#,
        );
        assert_eq!(own["system"]["CFBundleIdentifier"], "own");
        assert_eq!(own["system"]["CFBundleShortVersionString"], "2.4.1");
        assert_eq!(own["user"], json!({"a": 1, "session_id": "s-1"}));
        assert!(complete_report(b"[1]", &TelemetryFacts::default()).is_err());
        assert!(complete_report(b"{\"a\":", &TelemetryFacts::default()).is_err());
    }
}

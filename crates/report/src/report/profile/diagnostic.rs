//! Facts of a MetricKit diagnostic other than its call stack tree.

use super::diagnostic_kind::DiagnosticKind;
use crate::json::Value;
use crate::measurement::{RegionalNumber, parse_measurement};
use crate::report::Report;
use crate::report::summary::{DIAGNOSTIC_APP_KEY, ReportSummary};

impl Report<'_> {
    /// Returns the kind of the MetricKit diagnostic, or `None` for any other report.
    #[must_use]
    pub fn diagnostic(&self) -> Option<DiagnosticKind> {
        Some(self.parts.first()?.diagnostic?.kind)
    }

    /// Returns `diagnosticMetaData` of the MetricKit diagnostic.
    pub(crate) fn metadata(&self) -> Option<Value<'_>> {
        Some(Value::from_offset(self.input, self.parts.first()?.diagnostic?.metadata?))
    }

    /// Returns the measured value as MetricKit writes it, such as `20 sec`.
    pub(crate) fn diagnostic_measure(&self) -> Option<String> {
        self.metadata()?.get(self.diagnostic()?.measure_key())?.decode_string()
    }

    /// Returns the measured value in milliseconds, if it is a time.
    pub(super) fn diagnostic_millis(&self) -> Option<u64> {
        let region = self.metadata()?.get("regionFormat").and_then(Value::decode_string).unwrap_or_default();
        parse_milliseconds(&self.diagnostic_measure()?, &region)
    }

    /// Returns the summary of a diagnostic. `other` contains the fields that all reports share.
    pub(crate) fn diagnostic_summary(&self, kind: DiagnosticKind, other: ReportSummary) -> ReportSummary {
        let Some(metadata) = self.metadata() else {
            return ReportSummary { error_type: Some(kind.as_str().to_owned()), ..other };
        };
        let text = |key: &str| metadata.get(key).and_then(Value::decode_string);
        let (os_name, os_version, os_build) = system_of(&text("osVersion").unwrap_or_default());
        ReportSummary {
            app: text(DIAGNOSTIC_APP_KEY),
            version: text("appVersion"),
            build: text("appBuildVersion"),
            monitor_id: Some("MetricKit".to_owned()),
            device_model: text("deviceType"),
            cpu_arch: text("platformArchitecture"),
            error_type: Some(kind.as_str().to_owned()),
            reason: self.diagnostic_measure(),
            fatal: Some(false),
            os_name,
            os_version,
            os_build,
            ..other
        }
    }
}

/// Splits a text such as `iPhone OS 18.3.1 (22D72)` into name, version and build.
fn system_of(text: &str) -> (Option<String>, Option<String>, Option<String>) {
    let (rest, build) = match text.trim().strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
        Some((rest, build)) => (rest.trim(), Some(build.to_owned())),
        None => (text.trim(), None),
    };
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    match rest.rsplit_once(' ').filter(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit())) {
        Some((name, version)) => (some(if name == "iPhone OS" { "iOS" } else { name }), some(version), build),
        None => (some(rest), None, build),
    }
}

/// Converts a text such as `20 sec` or `1 234,5 ms` to milliseconds. Returns `None` for other units.
fn parse_milliseconds(text: &str, region: &str) -> Option<u64> {
    let (number, unit) = parse_measurement(text, region)?;
    let factor = match unit {
        "ns" => 1e-6,
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "min" => 6e4,
        "h" => 3.6e6,
        _ => return None,
    };
    let number = match number {
        RegionalNumber::Clear(number) => number,
        // Seconds and minutes never reach thousands.
        RegionalNumber::Unclear { decimal, .. } if factor >= 1e3 => decimal,
        RegionalNumber::Unclear { thousands, .. } => thousands,
    };
    let value = number * factor;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
    (0.0..9e15).contains(&value).then_some(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_read_with_their_units() {
        for (text, expected) in [
            ("20 sec", Some(20_000)),
            ("2000 ms", Some(2_000)),
            ("2,5 s", Some(2_500)),
            ("1.250 ms", Some(1_250)),
            ("1.337 sec", Some(1_337)),
            ("0.500 s", Some(500)),
            ("0,250 ms", Some(0)),
            ("1,234.500 ms", Some(1_235)),
            ("1,234,500 ms", Some(1_234_500)),
            ("1\u{202f}234 ms", Some(1_234)),
            ("1 min", Some(60_000)),
            ("20 Sek.", Some(20_000)),
            ("20秒", Some(20_000)),
            ("2 500 мс", Some(2_500)),
            ("3분", Some(180_000)),
            ("2000 byte", None),
            ("sec", None),
            ("", None),
        ] {
            assert_eq!(parse_milliseconds(text, ""), expected, "{text}");
        }
        assert_eq!(parse_milliseconds("1.250 ms", "US"), Some(1));
        assert_eq!(parse_milliseconds("1.250 s", "DE"), Some(1_250_000));
    }

    #[test]
    fn a_system_is_taken_apart() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(system_of("iPhone OS 18.3.1 (22D72)"), (some("iOS"), some("18.3.1"), some("22D72")));
        assert_eq!(system_of("macOS 15.0"), (some("macOS"), some("15.0"), None));
        assert_eq!(system_of("unknown"), (some("unknown"), None, None));
    }
}

//! What MetricKit says of a diagnostic besides its tree.

use super::diagnostic_kind::DiagnosticKind;
use crate::json::Value;
use crate::report::Report;
use crate::summary::ReportSummary;

impl Report<'_> {
    /// What MetricKit's diagnostic is about; `None` for a report that is none.
    #[must_use]
    pub fn diagnostic(&self) -> Option<DiagnosticKind> {
        Some(self.parts.first()?.diagnostic?.kind)
    }

    fn metadata(&self) -> Option<Value<'_>> {
        Some(Value::at(self.input, self.parts.first()?.diagnostic?.metadata?))
    }

    /// What was measured, in MetricKit's words, such as `20 sec`.
    pub(crate) fn diagnostic_measure(&self) -> Option<String> {
        self.metadata()?.get(self.diagnostic()?.measure())?.string()
    }

    /// The summary of a diagnostic; `other` has what all reports have.
    pub(crate) fn diagnostic_summary(&self, kind: DiagnosticKind, other: ReportSummary) -> ReportSummary {
        let Some(metadata) = self.metadata() else {
            return ReportSummary { error_type: Some(kind.as_str().to_owned()), ..other };
        };
        let text = |key: &str| metadata.get(key).and_then(Value::string);
        let (os_name, os_version, os_build) = system_of(&text("osVersion").unwrap_or_default());
        ReportSummary {
            app: text("bundleIdentifier"),
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

/// Name, version and build of a text such as `iPhone OS 18.3.1 (22D72)`.
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

/// Milliseconds of a text such as `20 sec` or `1 234,5 ms`; `None` for other units and languages.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let unit_at = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let (number, unit) = text.split_at(unit_at);
    let factor: f64 = match unit.trim().trim_end_matches('.').to_ascii_lowercase().as_str() {
        "ns" => 1e-6,
        "\u{b5}s" | "\u{3bc}s" | "us" => 1e-3,
        "ms" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1e3,
        "m" | "min" | "mins" | "minute" | "minutes" => 6e4,
        _ => return None,
    };
    let digits: String = number.chars().filter(|c| c.is_ascii_digit() || matches!(c, '.' | ',')).collect();
    let number = match digits.rfind(['.', ',']) {
        Some(mark) if is_decimal(&digits, mark, factor) => {
            format!("{}.{}", digits[..mark].replace(['.', ','], ""), &digits[mark + 1..])
        }
        _ => digits.replace(['.', ','], ""),
    };
    let value = number.parse::<f64>().ok()? * factor;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
    (0.0..9e15).contains(&value).then_some(value.round() as u64)
}

/// True where the last mark of a number, at `mark`, is a decimal point. With three digits behind it, it is one after a
/// mark of the other kind, after 0, and in seconds or minutes, which are too few for thousands.
fn is_decimal(digits: &str, mark: usize, factor: f64) -> bool {
    let (whole, part) = (&digits[..mark], &digits[mark + 1..]);
    match whole.rfind(['.', ',']) {
        _ if part.len() != 3 => true,
        Some(before) => whole.as_bytes()[before] != digits.as_bytes()[mark],
        None => factor >= 1e3 || whole.bytes().all(|digit| digit == b'0'),
    }
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
            ("2000 byte", None),
            ("sec", None),
            ("", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
    }

    #[test]
    fn a_system_is_taken_apart() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(system_of("iPhone OS 18.3.1 (22D72)"), (some("iOS"), some("18.3.1"), some("22D72")));
        assert_eq!(system_of("macOS 15.0"), (some("macOS"), some("15.0"), None));
        assert_eq!(system_of("unknown"), (some("unknown"), None, None));
    }
}

//! Files with a report on each line.

use super::ReportReaders;
use crate::{JsonValue, ReadLimits, Report};

impl ReportReaders {
    /// Returns true if one of several lines is a report, or a document of several reports, of any format. Other lines of such
    /// a file are read, too: each that is no report is refused alone. No line of a report over many lines is one, even if
    /// that report is broken. The first line of a log of two JSON texts is its header, so such a log has no such lines.
    #[must_use]
    pub fn has_report_lines(&self, document: &[u8], limits: &ReadLimits) -> bool {
        let document = document.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(document);
        let filled = |line: &&[u8]| !line.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0);
        let mut lines = document.split(|byte| *byte == b'\n').filter(filled);
        let first = lines.clone().next().unwrap_or_default();
        if lines.clone().nth(1).is_none() || is_log_header(first, limits) {
            return false;
        }
        lines.any(|line| self.is_report_line(line.trim_ascii_end(), limits))
    }

    fn is_report_line(&self, line: &[u8], limits: &ReadLimits) -> bool {
        if !line.starts_with(b"{") || !line.ends_with(b"}") {
            return false;
        }
        let is_event = |json: &[u8]| Report::read_event(json, limits).is_ok();
        self.split_document(line, limits).is_some()
            || self.open(line, limits).is_ok_and(|document| is_event(document.json()))
    }
}

/// Returns true for the first line of an Apple log.
fn is_log_header(line: &[u8], limits: &ReadLimits) -> bool {
    JsonValue::read(line, 0, limits).is_ok_and(|(object, _)| object.get("bug_type").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_a_report_shows_that_each_line_is_one() {
        let report = r#"{"crash":{"error":{"type":"mach"}}}"#;
        let readers = ReportReaders::default();
        let is_of_lines = |text: &str| readers.has_report_lines(text.as_bytes(), &ReadLimits::default());
        for lines in [
            format!("{report}\n{report}\n"),
            format!("{{\"broken\":\n{report}\n"),
            format!("not a report\n\n{report}\r\n"),
            format!("\u{FEFF}{{\"timeStampEnd\":\"\",\"crashDiagnostics\":[]}}\n{{}}\n{report}"),
        ] {
            assert!(is_of_lines(&lines), "{lines}");
        }
        for other in [
            report.to_owned(),
            format!("\n{report}\n\0\0"),
            "{\n  \"crash\": {\n  {\"error\":{}}\n".to_owned(),
            format!("{{\"bug_type\":\"309\"}}\n{report}\n"),
            "one\ntwo\n".to_owned(),
            String::new(),
        ] {
            assert!(!is_of_lines(&other), "{other}");
        }
    }
}

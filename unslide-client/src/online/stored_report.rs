//! A stored report in the form in which it came: one JSON text, or the two texts of a log that a device writes.

use crate::features;
use serde_json::{Deserializer, Value};
use unslide_cli::BoxError;
use unslide_report::Report;

/// Returns the member `symbolication` of a stored report of any format.
///
/// # Errors
/// Returns an error if the report cannot be read, or has no such member.
pub fn read_symbolication(document: &[u8]) -> Result<Value, BoxError> {
    let json = features::read_report_readers().stored_report(document)?;
    let report = Report::read_stored(&json)?;
    let own = report.own_value().ok_or("the stored report has no member `symbolication`")?;
    // Names of devices need not be UTF-8.
    Ok(serde_json::from_str(&String::from_utf8_lossy(own))?)
}

/// Returns the JSON texts of a document, one after the other, or None if it has other bytes.
pub fn read_json_texts(document: &[u8]) -> Option<Vec<Value>> {
    Deserializer::from_slice(document).into_iter().collect::<Result<Vec<Value>, _>>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OWN: &str = r#""symbolication":{"version":1,"engine":"unslide/0.1.0","status":"partial"}"#;

    #[test]
    fn the_symbolication_of_each_form_of_a_report_is_read() {
        let header = r#"{"app_name":"Shop","bug_type":"309","symbolication":{"by":"another"}}"#;
        let body =
            r#""procName":"Shop","exception":{"type":"EXC_CRASH"},"threads":[{"frames":[]}],"usedImages":[]"#;
        let log = "Incident Identifier: 1\\nProcess: Shop [1]\\nException Type: EXC_CRASH (SIGABRT)\\n\\n\
                   Thread 0 Crashed:\\n0   Shop   0x0000000104a04010 0x104a00000 + 16400\\n";
        for stored in [
            format!("{{\"crash\":{{\"error\":{{}}}},{OWN}}}"),
            format!("{{\"symbolication\":{{\"by\":\"another\"}},\"crash\":{{\"error\":{{}}}},{OWN}}}"),
            format!("{header}\n{{{body},{OWN}}}"),
            format!("{{{body},{OWN}}}"),
            format!("{{\"text\":\"{log}\",{OWN}}}"),
            // The header of a log of Jetsam is not stored.
            format!("{{\"largestProcess\":\"Shop\",\"processes\":[],\"memoryStatus\":{{}},{OWN}}}"),
            format!(
                "{{\"crashDiagnostics\":[{{\"callStackTree\":{{\"callStacks\":[]}},\"diagnosticMetaData\":{{\"signal\":6}}}}],{OWN}}}"
            ),
        ] {
            let found = read_symbolication(stored.as_bytes());
            assert_eq!(
                found.as_ref().ok().map(|found| &found["status"]),
                Some(&json!("partial")),
                "{stored}: {found:?}"
            );
        }
        let none = read_symbolication(b"{\"crash\":{\"error\":{}}}").unwrap_err().to_string();
        assert!(none.contains("`symbolication`"), "{none}");
    }

    #[test]
    fn a_log_of_two_texts_is_shown_as_two() {
        let both = read_json_texts(b"{\"bug_type\":\"309\"}\n{\"procName\":\"Shop\"}\n").unwrap();
        assert_eq!(both, [json!({ "bug_type": "309" }), json!({ "procName": "Shop" })]);
        assert_eq!(read_json_texts(b"{} Incident"), None);
    }
}

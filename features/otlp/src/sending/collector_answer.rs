//! The answer of a collector to records. A server that is no collector may answer with status 200, too.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use prost::Message;
use serde_json::Value;

/// The most characters of a collector's message.
const MESSAGE_CHARS_LIMIT: usize = 300;

/// The answer of a collector.
#[derive(Debug, PartialEq, Eq)]
pub enum CollectorAnswer {
    /// It took the records, but for a number of them, for this reason.
    Taken { refused: usize, message: String },
    /// It does not take these records, now or later.
    Refused(String),
    /// It cannot take them now, or not with these settings.
    Failed { problem: String, pause: Option<time::Duration> },
}

/// What an answer says about records that were refused.
#[derive(Debug, Default)]
struct Refusals {
    count: i64,
    message: String,
}

/// Reads the body of an answer with status 200 to a number of records. `is_told` is false if the tenant may not read it.
pub fn read_success(media_type: &str, body: &[u8], sent: usize, is_told: bool) -> CollectorAnswer {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some(refusals) = read_refusals(&essence, body) else {
        let found = match essence.as_str() {
            _ if !is_told => String::new(),
            "" => " (without a content type)".to_owned(),
            essence => format!(" ({})", clean_text(essence)),
        };
        return CollectorAnswer::Failed {
            problem: format!(
                "The server answered with success, and its answer{found} is none of OTLP: export.url may be of another \
                 server or path"
            ),
            pause: None,
        };
    };
    let refused = usize::try_from(refusals.count).unwrap_or_default().min(sent);
    let message = if is_told { clean_text(&refusals.message) } else { "its own log says why".to_owned() };
    CollectorAnswer::Taken { refused, message }
}

/// Reads an answer. None if it is none of OTLP.
fn read_refusals(essence: &str, body: &[u8]) -> Option<Refusals> {
    match essence {
        "application/json" => read_json(body),
        "" | "application/x-protobuf" | "application/protobuf" | "application/octet-stream" => {
            let answer = ExportLogsServiceResponse::decode(body).ok()?;
            let partial = answer.partial_success.unwrap_or_default();
            Some(Refusals { count: partial.rejected_log_records, message: partial.error_message })
        }
        // Some collectors name a wrong type for nothing. An empty page is still one of the web.
        "text/html" => None,
        _ => body.is_empty().then(Refusals::default),
    }
}

fn read_json(body: &[u8]) -> Option<Refusals> {
    if body.is_empty() {
        return Some(Refusals::default());
    }
    let Value::Object(answer) = serde_json::from_slice(body).ok()? else { return None };
    let partial = &answer.get("partialSuccess").unwrap_or(&Value::Null);
    let count = &partial["rejectedLogRecords"];
    let count = count.as_i64().or_else(|| count.as_str()?.parse().ok()).unwrap_or_default();
    let message = partial["errorMessage"].as_str().unwrap_or_default().to_owned();
    Some(Refusals { count, message })
}

fn clean_text(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARS_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsPartialSuccess;

    fn taken(refused: usize, message: &str) -> CollectorAnswer {
        CollectorAnswer::Taken { refused, message: message.to_owned() }
    }

    #[test]
    fn only_an_answer_of_otlp_says_that_records_were_taken() {
        let partial =
            ExportLogsPartialSuccess { rejected_log_records: 2, error_message: "too\nold".to_owned() };
        let partial = ExportLogsServiceResponse { partial_success: Some(partial) }.encode_to_vec();
        let json = br#"{"partialSuccess":{"rejectedLogRecords":"9","errorMessage":"too old"}}"#;
        for (media, body, expected) in [
            ("application/x-protobuf", &b""[..], taken(0, "")),
            ("application/x-protobuf", &partial, taken(2, "tooold")),
            ("", b"", taken(0, "")),
            ("text/plain", b"", taken(0, "")),
            ("application/json; charset=utf-8", b"{}", taken(0, "")),
            ("application/json", br#"{"partialSuccess":null}"#, taken(0, "")),
            ("Application/JSON", json, taken(3, "too old")),
            ("application/json", br#"{"partialSuccess":{"rejectedLogRecords":-1}}"#, taken(0, "")),
        ] {
            assert_eq!(read_success(media, body, 3, true), expected, "{media} {body:?}");
        }
        for (media, body) in [
            ("text/html", &b"<html><body>Sign in</body></html>"[..]),
            ("text/html; charset=utf-8", b""),
            ("text/plain", b"ok"),
            ("", b"<!doctype html>"),
            ("application/x-protobuf", b"ok"),
            ("application/json", b"[]"),
            ("application/json", b"ok"),
        ] {
            let answer = read_success(media, body, 3, true);
            let CollectorAnswer::Failed { problem, .. } = answer else { panic!("{media}: {answer:?}") };
            assert!(problem.contains("export.url"), "{problem}");
        }
    }

    #[test]
    fn a_tenant_reads_nothing_of_the_answers_in_the_operators_networks() {
        let json = br#"{"partialSuccess":{"rejectedLogRecords":1,"errorMessage":"inner"}}"#;
        assert_eq!(read_success("application/json", json, 3, false), taken(1, "its own log says why"));
        let CollectorAnswer::Failed { problem, .. } = read_success("text/x-inner", b"inner", 3, false) else {
            panic!()
        };
        assert!(!problem.contains("inner"), "{problem}");
    }
}

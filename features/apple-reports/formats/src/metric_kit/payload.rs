//! Payloads of MetricKit: their diagnostics by kind, and a payload for each.

use crate::identity::named_id;
use crate::json::JsonBuilder;
use unslide_report::{JsonValue, ReadLimits};

/// The lists of diagnostics in a payload.
pub const LISTS: [&str; 5] = [
    "crashDiagnostics",
    "hangDiagnostics",
    "cpuExceptionDiagnostics",
    "diskWriteExceptionDiagnostics",
    "appLaunchDiagnostics",
];
/// The first members of payloads, of diagnostics and of trees.
const FIRST_KEYS: [&str; 10] = [
    "timeStampBegin",
    "timeStampEnd",
    "callStackTree",
    "diagnosticMetaData",
    "callStacks",
    "callStackPerThread",
    "version",
    "crashDiagnostics",
    "hangDiagnostics",
    "cpuExceptionDiagnostics",
];
const MORE_FIRST_KEYS: [&str; 2] = ["diskWriteExceptionDiagnostics", "appLaunchDiagnostics"];
/// Members that only a crash has.
const CRASH_KEYS: [&str; 4] =
    ["exceptionType", "exceptionCode", "terminationReason", "virtualMemoryRegionInfo"];
/// The maximum number of diagnostics in a payload.
const DIAGNOSTICS_LIMIT: usize = 1_000;
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// Returns true if a document is a crash of MetricKit's, or a call stack tree alone. The core reads other diagnostics.
pub fn is_crash_payload(document: &[u8]) -> bool {
    let Some(first) = first_key(document) else { return false };
    let is_first = |key: &&str| first.starts_with(key.as_bytes()) && first.get(key.len()) == Some(&b'"');
    if !FIRST_KEYS.iter().chain(&MORE_FIRST_KEYS).any(is_first) {
        return false;
    }
    let has = |key: &str| memchr::memmem::find(document, format!("\"{key}\"").as_bytes()).is_some();
    let is_tree = first.starts_with(b"callStacks\"") || first.starts_with(b"callStackPerThread\"");
    is_tree || has_crashes(document) || CRASH_KEYS.into_iter().any(has)
}

/// Returns true if a payload has a list of crashes that is not empty.
fn has_crashes(document: &[u8]) -> bool {
    let list = memchr::memmem::find(document, b"\"crashDiagnostics\"").and_then(|at| document.get(at..));
    let rest =
        list.and_then(|list| list.iter().position(|byte| *byte == b'[').and_then(|at| list.get(at + 1..)));
    rest.is_some_and(|rest| rest.trim_ascii_start().first() != Some(&b']'))
}

/// Returns true for an object that is a payload, or one of its diagnostics.
pub fn is_payload_object(object: JsonValue<'_>) -> bool {
    let lists = object.find_members(LISTS);
    let [metadata, begin, end] =
        object.find_members(["diagnosticMetaData", "timeStampBegin", "timeStampEnd"]);
    metadata.is_some() || begin.is_some() || end.is_some() || lists.iter().any(Option::is_some)
}

/// Returns the document from its first key on.
fn first_key(document: &[u8]) -> Option<&[u8]> {
    let start = document.strip_prefix(MARK).unwrap_or(document).trim_ascii_start();
    start.strip_prefix(b"{")?.trim_ascii_start().strip_prefix(b"\"")
}

/// Splits a payload with several diagnostics into payloads of one. Each gets an id from the payload, its kind and its
/// position, so that the same payload twice is the same reports.
pub fn split_payload(document: &[u8], limits: &ReadLimits) -> Option<Vec<Vec<u8>>> {
    let first = first_key(document)?;
    let keys = || FIRST_KEYS.iter().chain(&MORE_FIRST_KEYS);
    if !keys().any(|key| first.starts_with(key.as_bytes())) {
        return None;
    }
    let begin = if document.starts_with(MARK) { MARK.len() } else { 0 };
    // Nested frames count as levels here, and the trees of samples have a limit of their own.
    let limits = ReadLimits { max_depth: 1 << 12, ..*limits };
    let (payload, _) = JsonValue::read(document, begin, &limits).ok()?;
    let lists = payload.find_members(LISTS);
    let diagnostics = LISTS.into_iter().zip(lists).flat_map(|(kind, list)| {
        let items = list.map(JsonValue::items).unwrap_or_default();
        items.into_iter().enumerate().map(move |(at, item)| (kind, at, item))
    });
    let diagnostics: Vec<(&str, usize, JsonValue<'_>)> = diagnostics.take(DIAGNOSTICS_LIMIT + 1).collect();
    if diagnostics.len() < 2 || diagnostics.len() > DIAGNOSTICS_LIMIT {
        return None;
    }
    let hash = named_id(&[document]);
    let part = |found: &(&str, usize, JsonValue<'_>)| {
        let (kind, at, diagnostic) = *found;
        let id = named_id(&[hash.as_bytes(), kind.as_bytes(), at.to_string().as_bytes()]);
        let mut json = JsonBuilder::default();
        json.item(|json| {
            // The first key shows what the document is.
            for key in ["timeStampBegin", "timeStampEnd"] {
                if let Some(time) = payload.get(key) {
                    json.value(key, time.raw_bytes());
                }
            }
            json.array(kind, |json| json.raw_item(diagnostic.raw_bytes()));
            json.object("report", |json| json.string("id", &id));
        });
        json.into_bytes()
    };
    Some(diagnostics.iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_are_told_from_other_diagnostics() {
        for crash in [
            "{\"timeStampEnd\":\"\",\"crashDiagnostics\":[ {}]}",
            " { \"diagnosticMetaData\" : {\"exceptionType\":1}}",
            "{\"callStackPerThread\":true,\"callStacks\":[]}",
        ] {
            assert!(is_crash_payload(crash.as_bytes()), "{crash}");
        }
        for other in [
            "{\"hangDiagnostics\":[{\"diagnosticMetaData\":{\"hangDuration\":\"1 sec\"}}]}",
            "{\"report\":{},\"crashDiagnostics\":[]}",
            "{\"timeStampEnd\":\"\",\"crashDiagnostics\":[ ],\"hangDiagnostics\":[{}]}",
            "{\"version\":1}",
            "{",
            "",
            "[]",
        ] {
            assert!(!is_crash_payload(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_payload_becomes_one_for_each_diagnostic() {
        let payload = br#"{"timeStampEnd":"2026-03-02","crashDiagnostics":[{"a":1},{"a":1}],"hangDiagnostics":[ {"b": 2} ]}"#;
        let parts = split_payload(payload, &ReadLimits::default()).unwrap();
        let shown: Vec<String> =
            parts.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        assert_eq!(shown.len(), 3);
        assert!(
            shown[2]
                .starts_with(r#"{"timeStampEnd":"2026-03-02","hangDiagnostics":[{"b": 2}],"report":{"id":""#),
            "{shown:?}"
        );
        assert_ne!(shown[0], shown[1], "equal diagnostics are two reports");
        assert_eq!(split_payload(payload, &ReadLimits::default()).unwrap(), parts);
        assert!(split_payload(&parts[0], &ReadLimits::default()).is_none());
        assert!(split_payload(b"{\"crash\":{}}", &ReadLimits::default()).is_none());
    }
}

//! The crash in a record: by the names of its event, by what senders of today write, and by the beginning of its stack.

use crate::attributes::ATTRIBUTES_LIMIT;
use crate::crash_document::CrashDocument;
use crate::identity::id_for_record;
use crate::metric_kit::{DiagnosticEvent, write_diagnostic};
use crate::record::TelemetryRecord;
use crate::span_crash::write_span_report;
use unslide_report::{JsonValue, ReadLimits};

/// Names of events that are a crash: of the conventions, and of senders before them.
const CRASH_EVENTS: [&str; 3] = ["app.crash", "device.crash", "crash"];
/// The beginning of the names of events with MetricKit's diagnostics.
const METRIC_KIT_EVENTS: &str = "metrickit.diagnostic.";
/// The least severity of a record that is looked at without the name of a crash: FATAL.
const FATAL_SEVERITY: u64 = 21;
/// The attribute with the stack, by the conventions.
const STACK: &str = "exception.stacktrace";
/// The attribute with Honeycomb's JSON of MetricKit, behind the name of its event.
const STACK_JSON: &str = ".exception.stacktrace_json";
/// The attributes of Embrace, and the type of its crashes.
const EMBRACE_TYPE: &str = "emb.type";
const EMBRACE_CRASH: &str = "sys.ios.crash";
const EMBRACE_PAYLOAD: &str = "emb.payload";
/// The size at which SDKs cut the text of a stack by default.
const CUT_TEXT_BYTES: usize = 25 * 1_024;
/// Bytes of a character, at most: a cut text may be shorter by them.
const CHARACTER_BYTES: usize = 4;
/// Fields with which Apple's text begins.
const TEXT_BEGINNINGS: [&str; 5] =
    ["Incident Identifier:", "Process:", "Hardware Model:", "{\"app_name\"", "{\"bug_type\""];
/// The heading of the images of Apple's text.
const IMAGES_HEADING: &str = "Binary Images:";

/// Members that payloads of MetricKit have, and reports of KSCrash do not.
const DIAGNOSTIC_KEYS: [&str; 3] = ["diagnosticMetaData", "crashDiagnostics", "hangDiagnostics"];

/// The crash in a record, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundCrash {
    /// It is an ordinary record.
    NoCrash,
    /// It has a report.
    Document(Box<CrashDocument>),
    /// It is a crash, and its report cannot be read: why.
    Unreadable(String),
}

/// Finds the crash of a record.
#[must_use]
pub fn find_crash(record: &TelemetryRecord<'_>) -> FoundCrash {
    match find_document(record) {
        Ok(None) => FoundCrash::NoCrash,
        Ok(Some(_)) if record.attributes.has_too_many() => {
            FoundCrash::Unreadable(format!("the record has more than {ATTRIBUTES_LIMIT} attributes"))
        }
        Ok(Some(document)) => FoundCrash::Document(Box::new(document)),
        Err(problem) => FoundCrash::Unreadable(problem),
    }
}

fn find_document(record: &TelemetryRecord<'_>) -> Result<Option<CrashDocument>, String> {
    if record.text(EMBRACE_TYPE) == Some(EMBRACE_CRASH) {
        let payload = record.text(EMBRACE_PAYLOAD).ok_or("the crash has no emb.payload")?;
        return read_json_payload(record, payload).map(Some);
    }
    let diagnostic = record.event_names().find_map(|name| name.strip_prefix(METRIC_KIT_EVENTS));
    if let Some(event) = diagnostic.and_then(DiagnosticEvent::from_name) {
        let honeycomb = format!("{METRIC_KIT_EVENTS}{}{STACK_JSON}", event.name());
        return match record.text(STACK).or_else(|| record.text(&honeycomb)) {
            Some(stack) => write_diagnostic(record, event, stack).map(Some),
            None => Ok(None),
        };
    }
    if record.text("exception.threads").is_some() {
        return write_span_report(record).map(Some);
    }
    let is_named = record.event_names().any(|name| CRASH_EVENTS.contains(&name));
    let stack = match record.text(STACK) {
        Some(stack) => stack.trim_start_matches(['\u{FEFF}', ' ', '\t', '\r', '\n']),
        None if is_named => return Err("the crash has no exception.stacktrace".to_owned()),
        None => return Ok(None),
    };
    let is_text = TEXT_BEGINNINGS.iter().any(|beginning| stack.starts_with(beginning));
    match () {
        () if is_text && (is_named || record.severity >= FATAL_SEVERITY) => {
            Ok(Some(read_text(record, stack)))
        }
        () if is_named && stack.starts_with('{') => read_json_payload(record, stack).map(Some),
        () if is_named => {
            Err("exception.stacktrace is neither Apple's text of a crash, nor a KSCrash report, nor \
                               MetricKit's JSON"
                .to_owned())
        }
        () => Ok(None),
    }
}

/// Reads a text as Apple writes it. A cut one has a note.
fn read_text(record: &TelemetryRecord<'_>, text: &str) -> CrashDocument {
    let mut facts = record.read_facts();
    facts.notes.extend(describe_cut(text));
    CrashDocument { bytes: text.as_bytes().to_vec(), facts }
}

/// Returns what a cut text lacks. Images are at its end, so a cut takes them first.
fn describe_cut(text: &str) -> Option<String> {
    let bytes = text.len();
    let cut = |lacking: &str| Some(format!("exception.stacktrace is cut at {bytes} bytes: {lacking}"));
    let is_at_limit = (CUT_TEXT_BYTES - CHARACTER_BYTES..=CUT_TEXT_BYTES).contains(&bytes);
    let Some((_, images)) = text.split_once(IMAGES_HEADING) else {
        return match is_at_limit {
            true => cut("it has no list of images, so no function can be looked up"),
            false => Some(format!(
                "exception.stacktrace has {bytes} bytes and no list of images, so no function can be looked up"
            )),
        };
    };
    let last = images.trim_end().lines().last().unwrap_or_default();
    let is_whole = last.trim() == "EOF" || last.contains("> /") || !last.contains("0x");
    (is_at_limit || !is_whole).then(|| cut("the last images of its list are missing")).flatten()
}

/// Reads a KSCrash report, or a payload of MetricKit.
fn read_json_payload(record: &TelemetryRecord<'_>, payload: &str) -> Result<CrashDocument, String> {
    let limits = ReadLimits { max_bytes: usize::MAX, max_depth: 1_100, ..ReadLimits::default() };
    let (root, end) = JsonValue::read(payload.as_bytes(), 0, &limits)
        .map_err(|error| format!("the report in the record cannot be read: {error}"))?;
    let [stacks, tree] = root.find_members(["callStacks", "callStackTree"]);
    if stacks.is_some() || (tree.is_some() && root.get("diagnosticMetaData").is_none()) {
        return write_diagnostic(record, DiagnosticEvent::Crash, payload);
    }
    let mut bytes = payload.as_bytes().to_vec();
    let is_diagnostic = DIAGNOSTIC_KEYS.iter().any(|key| root.get(key).is_some());
    if is_diagnostic && root.get("report").is_none() {
        // MetricKit gives no ids, and two devices may write the same bytes.
        let id = format!(",\"report\":{{\"id\":\"{}\"}}}}", id_for_record(record));
        bytes.truncate(end - 1);
        bytes.extend_from_slice(id.as_bytes());
    }
    Ok(CrashDocument { bytes, facts: record.read_facts() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_says_what_it_lacks() {
        let head = "Incident Identifier: 1\nThread 0 Crashed:\n0 Shop 0x1 0x0 + 1\n";
        let image =
            "0x100000000 - 0x10000ffff Shop arm64 <70b89f2716343580a69557cdb41d7743> /var/Shop.app/Shop\n";
        let whole = format!("{head}\nBinary Images:\n{image}");
        assert_eq!(describe_cut(&whole), None);
        assert_eq!(describe_cut(&format!("{whole}\nEOF\n")), None);
        let cut = describe_cut(whole.get(..whole.len() - 30).unwrap()).unwrap();
        assert!(cut.contains("the last images"), "{cut}");
        assert!(describe_cut(head).unwrap().contains("no list of images"));
        let long = format!("{head}{}", " ".repeat(CUT_TEXT_BYTES - head.len()));
        assert!(describe_cut(&long).unwrap().starts_with("exception.stacktrace is cut at 25600 bytes"));
    }
}

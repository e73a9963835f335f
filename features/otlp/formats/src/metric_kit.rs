//! MetricKit's diagnostics as OpenTelemetry Swift and Honeycomb send them: the call stack tree in an attribute, and the facts in
//! others. They become a payload in Apple's form.
//!
//! Two layouts have one name. Apple's nests each frame in its caller; the plain one is a flat list without addresses.

use crate::crash_document::{CrashDocument, REPORT_FRAMES_LIMIT};
use crate::facts::{TelemetryFacts, format_nanos};
use crate::identity::id_for_record;
use crate::record::TelemetryRecord;
use serde_json::{Map, Value, json};
use unslide_report::{JsonValue, ReadLimits, exception_number, signal_number};

/// Levels of JSON: a frame is an object in a list in the frame that it called, 512 at most.
const TREE_LEVELS: usize = 2 * FRAMES_LIMIT + 16;
/// The maximum number of frames of a stack, as Apple's.
const FRAMES_LIMIT: usize = 512;
/// The maximum number of stacks of a diagnostic.
const STACKS_LIMIT: usize = 1_024;

/// A diagnostic of MetricKit. Senders pass on its stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagnosticEvent {
    Crash,
    Hang,
}

impl DiagnosticEvent {
    /// Returns the diagnostic of an event's name behind `metrickit.diagnostic.`.
    pub fn from_name(name: &str) -> Option<DiagnosticEvent> {
        [DiagnosticEvent::Crash, DiagnosticEvent::Hang].into_iter().find(|event| event.name() == name)
    }

    /// Returns the part of the event's name.
    pub fn name(self) -> &'static str {
        match self {
            DiagnosticEvent::Crash => "crash",
            DiagnosticEvent::Hang => "hang",
        }
    }

    fn list_key(self) -> &'static str {
        match self {
            DiagnosticEvent::Crash => "crashDiagnostics",
            DiagnosticEvent::Hang => "hangDiagnostics",
        }
    }
}

/// Writes a payload with the diagnostic of a record.
///
/// # Errors
/// Returns what is wrong with the stack.
pub fn write_diagnostic(
    record: &TelemetryRecord<'_>,
    event: DiagnosticEvent,
    stack: &str,
) -> Result<CrashDocument, String> {
    let mut facts = record.read_facts();
    let limits = ReadLimits { max_bytes: usize::MAX, max_depth: TREE_LEVELS, ..ReadLimits::default() };
    let (root, _) = JsonValue::read(stack.as_bytes(), 0, &limits)
        .map_err(|error| format!("the JSON of MetricKit cannot be read: {error}"))?;
    let tree = root.get("callStackTree").filter(|tree| tree.is_object()).unwrap_or(root);
    let Some(stacks) = tree.get("callStacks") else {
        return Err("the JSON of MetricKit has no callStacks".to_owned());
    };
    let stacks = stacks.items();
    let is_plain = stacks.iter().any(|stack| stack.get("callStackFrames").is_some());
    let tree =
        if is_plain { write_plain_tree(tree, &stacks, event, &mut facts) } else { tree.raw_bytes().to_vec() };
    facts.notes.push("its time is the end of MetricKit's reporting period, or of the delivery".to_owned());
    if record.text("os.version").is_none() || record.text("service.version").is_none() {
        facts.notes.push("the versions of app and system are those of the run that delivered it".to_owned());
    }
    let id = id_for_record(record);
    let nanos = if record.time_nanos > 0 { record.time_nanos } else { record.observed_nanos };
    // Apple's form of a time.
    let end = format_nanos(nanos).and_then(|time| Some(time.get(..19)?.replace('T', " ")));
    let mut metadata = Map::new();
    put_app(&facts, &mut metadata);
    match event {
        DiagnosticEvent::Crash => put_crash(record, &mut metadata),
        DiagnosticEvent::Hang => put_hang(record, &mut metadata),
    }
    let mut bytes = b"{".to_vec();
    if let Some(end) = end {
        bytes.extend_from_slice(format!("\"timeStampEnd\":{},", json!(end)).as_bytes());
    }
    bytes.extend_from_slice(format!("\"{}\":[{{\"callStackTree\":", event.list_key()).as_bytes());
    bytes.extend_from_slice(&tree);
    bytes.extend_from_slice(format!(",\"diagnosticMetaData\":{}}}]", Value::Object(metadata)).as_bytes());
    bytes.extend_from_slice(format!(",\"report\":{{\"id\":{}}}}}", json!(id)).as_bytes());
    Ok(CrashDocument { bytes, facts })
}

fn put_app(facts: &TelemetryFacts, metadata: &mut Map<String, Value>) {
    let system = facts.system_version.as_ref().map(|version| {
        let name = facts.system_name.as_deref().unwrap_or("iOS");
        let build = facts.system_build.as_ref().map(|build| format!(" ({build})")).unwrap_or_default();
        format!("{name} {version}{build}")
    });
    for (key, value) in [
        ("bundleIdentifier", facts.app.as_ref()),
        ("appVersion", facts.version.as_ref()),
        ("appBuildVersion", facts.build.as_ref()),
        ("osVersion", system.as_ref()),
        ("deviceType", facts.machine.as_ref()),
    ] {
        if let Some(value) = value {
            metadata.insert(key.to_owned(), json!(value));
        }
    }
}

/// Adds the exception and the signal of a crash.
fn put_crash(record: &TelemetryRecord<'_>, metadata: &mut Map<String, Value>) {
    let find = |name: &str| {
        let keys = ["metrickit.diagnostic.crash.exception.", "metrickit.diagnostic.crash."];
        keys.iter().find_map(|prefix| record.text(&format!("{prefix}{name}")))
    };
    let number = |text: &str| text.parse::<i64>().ok();
    let exception = find("mach_exception.type")
        .and_then(|text| number(text).or_else(|| i64::try_from(exception_number(text)?).ok()));
    let signal =
        find("signal").and_then(|text| number(text).or_else(|| i64::try_from(signal_number(text)?).ok()));
    for (key, value) in
        [("exceptionType", exception), ("exceptionCode", find("code").and_then(number)), ("signal", signal)]
    {
        if let Some(value) = value {
            metadata.insert(key.to_owned(), json!(value));
        }
    }
    if let Some(reason) = find("termination_reason") {
        metadata.insert("terminationReason".to_owned(), json!(reason));
    }
    // The names of iOS 17: of an exception of Objective-C only.
    let name = find("objc.name").or_else(|| find("objc.type"));
    let message = find("objc.message");
    if name.is_some() || message.is_some() {
        let reason = json!({"exceptionName": name.unwrap_or_default(), "composedMessage": message.unwrap_or_default()});
        metadata.insert("objectiveCexceptionReason".to_owned(), reason);
    }
}

/// Adds the duration of a hang, which senders give in seconds.
fn put_hang(record: &TelemetryRecord<'_>, metadata: &mut Map<String, Value>) {
    if let Some(seconds) = record.text("metrickit.diagnostic.hang.hang_duration") {
        metadata.insert("hangDuration".to_owned(), json!(format!("{seconds} sec")));
    }
}

/// Writes a tree in Apple's form from one of flat lists. The list of a crash is one stack. That of a hang may have been a tree with
/// branches, so its frames stand beside each other.
fn write_plain_tree(
    tree: JsonValue<'_>,
    stacks: &[JsonValue<'_>],
    event: DiagnosticEvent,
    facts: &mut TelemetryFacts,
) -> Vec<u8> {
    let per_thread = tree.get("callStackPerThread").and_then(JsonValue::as_boolean).unwrap_or(true);
    let mut json = format!("{{\"callStackPerThread\":{per_thread},\"callStacks\":[").into_bytes();
    let mut left = REPORT_FRAMES_LIMIT;
    let mut is_cut = stacks.len() > STACKS_LIMIT;
    for (at, stack) in stacks.iter().take(STACKS_LIMIT).enumerate() {
        let attributed = stack.get("threadAttributed").and_then(JsonValue::as_boolean) == Some(true);
        let frames = stack.get("callStackFrames").map(JsonValue::items).unwrap_or_default();
        let limit = FRAMES_LIMIT.min(left);
        is_cut |= frames.len() > limit;
        let frames: Vec<String> = frames.iter().take(limit).map(|frame| write_frame(*frame)).collect();
        left -= frames.len();
        if at > 0 {
            json.push(b',');
        }
        let head = format!("{{\"threadAttributed\":{attributed},\"callStackRootFrames\":[");
        json.extend_from_slice(head.as_bytes());
        let roots = match event {
            DiagnosticEvent::Hang => {
                frames.iter().map(|frame| format!("{{{frame}}}")).collect::<Vec<_>>().join(",")
            }
            DiagnosticEvent::Crash if frames.is_empty() => String::new(),
            DiagnosticEvent::Crash => {
                let nested = frames.join(",\"subFrames\":[{");
                format!("{{{nested}}}{}", "]}".repeat(frames.len() - 1))
            }
        };
        json.extend_from_slice(roots.as_bytes());
        json.extend_from_slice(b"]}");
    }
    json.extend_from_slice(b"]}");
    facts.notes.push("its frames have no addresses, only offsets in their images".to_owned());
    if is_cut {
        facts.notes.push(format!(
            "stacks are cut after {FRAMES_LIMIT} frames, all of them together after {REPORT_FRAMES_LIMIT}"
        ));
    }
    if event == DiagnosticEvent::Hang {
        facts.notes.push("the frames of the hang are a set: the sender has flattened their tree".to_owned());
    }
    json
}

/// Writes the members of a frame, without the braces around them.
fn write_frame(frame: JsonValue<'_>) -> String {
    let [name, uuid, offset] = frame.find_members(["binaryName", "binaryUUID", "offsetAddress"]);
    let text = |value: Option<JsonValue<'_>>| value.and_then(JsonValue::decode_string).unwrap_or_default();
    let offset = offset.and_then(JsonValue::decimal_unsigned).unwrap_or_default();
    format!(
        "\"binaryName\":{},\"binaryUUID\":{},\"offsetIntoBinaryTextSegment\":{offset},\"sampleCount\":1",
        json!(text(name)),
        json!(text(uuid))
    )
}

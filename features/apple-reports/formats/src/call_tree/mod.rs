//! Logs of hangs, CPU use and disk writes: a header and sampled stacks as text, with or without a line of JSON above.
//!
//! Sources: logs of types 142, 145, 202, 206, 222, 223, 228 and 328, and what macOS writes with the extensions `.diag`,
//! `.hang` and `.spin`.

mod event;
mod header;
mod stacks;
mod tree;

use crate::crash_text::split_header;
use crate::identity::text_id;
use crate::ips::system::device_hash;
use crate::json::JsonBuilder;
use event::SampledEvent;
use header::TreeHeader;
use stacks::ProcessStacks;
use tree::TreeWriter;
use unslide_report::reader::{DocumentText, ReportReader, TranslatedReport};
use unslide_report::{ReadError, ReadLimits, device_clock_time};

/// The reader of logs with sampled stacks.
pub const CALL_TREE_READER: ReportReader =
    ReportReader { name: "call_tree", recognizes: is_call_tree, translate: translate_log, parts: None };
/// The bytes at the beginning that are searched.
const HEAD_BYTES: usize = 16 << 10;
/// Beginnings of lines that only texts with sampled stacks have.
const MARKS: [&[u8]; 8] = [
    b"Call graph:",
    b"Analysis of sampling ",
    b"Heaviest stack for the target process",
    b"Data Source:",
    b"Data source:",
    b"Powerstats for:",
    b"Steps:",
    b"Num samples:",
];

/// Returns true if a document is a text with sampled stacks.
fn is_call_tree(document: &[u8]) -> bool {
    let (_, text, _) = split_header(document);
    let head = text.get(..HEAD_BYTES).unwrap_or(text).trim_ascii_start();
    if matches!(head.first(), None | Some(b'{' | b'[' | b'"')) {
        return false;
    }
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.any(|line| MARKS.iter().any(|mark| line.starts_with(mark)))
}

fn translate_log(bytes: &[u8], limits: &ReadLimits) -> Result<TranslatedReport, ReadError> {
    let (json_header, body, first_line) = split_header(bytes);
    let text = String::from_utf8_lossy(body);
    let header = TreeHeader::from_parts(json_header, &text);
    let Some(event) = SampledEvent::from_header(&header) else {
        let problem = "this is a text with sampled stacks, but of no hang, CPU use or disk writes: it is a profile, not a report. Open \
                       it with `unslide flame`";
        return Err(ReadError::Unsupported { problem: problem.to_owned() });
    };
    let mut stacks = ProcessStacks::read_text(&text, header.process_name(), first_line, limits)?;
    if stacks.frames.is_empty() {
        // The kernel cuts names of processes.
        stacks = ProcessStacks::read_text(&text, None, first_line, limits)?;
    }
    if stacks.frames.is_empty() {
        let name = header.process_name().unwrap_or("a process");
        let problem = format!(
            "this is a log of {} without stacks of {name}: send the whole file",
            event.display_name()
        );
        return Err(ReadError::Unsupported { problem });
    }
    let incident =
        header.member_or_field("incident_id", "Incident Identifier").unwrap_or_else(|| text_id(bytes));
    let mut tree = TreeWriter::new(&stacks);
    let mut json = JsonBuilder::default();
    json.item(|json| {
        write_report(&header, &incident, json);
        json.array(event.list_key(), |json| {
            json.item(|json| {
                tree.write_tree(json);
                write_metadata(&header, event, json);
            });
        });
    });
    Ok(TranslatedReport {
        json: json.into_bytes(),
        frames: vec![None; tree.lines.len()],
        text: Some(DocumentText::from_lines(tree.lines)),
        ..TranslatedReport::default()
    })
}

/// Writes the members `report` and `system`.
fn write_report(header: &TreeHeader, incident: &str, json: &mut JsonBuilder) {
    let time = header.find_field("Date/Time").or_else(|| header.find_field("Start time"));
    let time =
        time.and_then(device_clock_time).or_else(|| device_clock_time(&header.json_member("timestamp")?));
    json.object("report", |json| {
        json.string("id", incident);
        json.some_string("process_name", header.process_name());
        json.some_string("timestamp", time.as_deref());
    });
    let key = header.find_field("CrashReporter Key").or_else(|| header.find_field("Anonymous UUID"));
    json.object("system", |json| {
        json.some_string("device_app_hash", key.and_then(device_hash).as_deref());
        json.some_string("process_name", header.process_name());
    });
}

/// Writes what MetricKit writes about such an event.
fn write_metadata(header: &TreeHeader, event: SampledEvent, json: &mut JsonBuilder) {
    let version = header.app_version();
    // Some texts write `(Build 22D72)`.
    let system =
        header.member_or_field("os_version", "OS Version").map(|system| system.replace("(Build ", "("));
    let app =
        header.member_or_field("bundleID", "Identifier").or_else(|| header.process_name().map(str::to_owned));
    json.object("diagnosticMetaData", |json| {
        for (key, value) in [
            ("bundleIdentifier", app),
            ("appVersion", header.json_member("app_version").or(version.short)),
            ("appBuildVersion", header.json_member("build_version").or(version.build)),
            ("osVersion", system),
            (
                "deviceType",
                header
                    .member_or_field("model", "Hardware Model")
                    .or_else(|| header.own_field("Hardware model")),
            ),
            ("platformArchitecture", header.own_field("Architecture")),
        ] {
            json.some_string(key, value.as_deref());
        }
        json.string(
            event.measure_key(),
            &event.read_measurement(header).unwrap_or_else(|| "unknown".to_owned()),
        );
    });
}

//! A stored report as a log record: an `app.crash` event of the semantic conventions, with ids, group and links of ours.

use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyKind;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource;
use std::fmt::Write;
use time::OffsetDateTime;
use unslide_api::feature::site::group_link;
use unslide_report::Report;
use unslide_report::text::threads::{FrameView, ThreadView};
use unslide_report::text::view::build_view;
use unslide_store::queries::reports::ReportRow;

/// The name of the event, by the conventions.
const CRASH_EVENT: &str = "app.crash";
/// Frames of a stack.
const FRAMES_LIMIT: usize = 256;

/// Builds the record of a report. `public_url` is the address of the console; without it the record has no links.
pub fn build_record(listed: &ReportRow, report: &Report<'_>, public_url: &str) -> ResourceLogs {
    let summary = report.summary();
    let view = build_view(report);
    let stack = view.threads.first().map(write_stack).unwrap_or_default();
    let kind = summary.exception.or(summary.signal).or(Some(listed.kind.clone())).unwrap_or_default();
    let link =
        |path: String| if public_url.is_empty() { String::new() } else { format!("{public_url}{path}") };
    let group = listed.group.map(|group| group.to_string()).unwrap_or_default();
    let group_url = listed.group.and_then(|group| group_link(public_url, group)).unwrap_or_default();
    let id = listed.report_id.to_string();
    // The same record twice has one id; a revision is another record.
    let record_id = format!("{id}/{}/{}", listed.variant, listed.revision);
    let texts = [
        ("exception.type", kind),
        ("exception.message", listed.reason.clone().unwrap_or_default()),
        ("exception.stacktrace", stack),
        ("app.crash.id", id.clone()),
        ("log.record.uid", record_id),
        ("session.id", summary.run_id.unwrap_or_default()),
        ("unslide.report.status", listed.status.clone()),
        ("unslide.report.url", link(format!("/console/reports/{id}"))),
        ("unslide.group.id", group),
        ("unslide.group.url", group_url),
        ("unslide.told_by", listed.told_by.clone().unwrap_or_default()),
    ];
    let mut attributes = list_attributes(texts);
    for (key, number) in [
        ("unslide.report.revision", listed.revision),
        ("unslide.report.variant", listed.variant),
        ("unslide.report.weight", listed.weight),
    ] {
        attributes.push(attribute(key, AnyKind::IntValue(number.into())));
    }
    let record = LogRecord {
        time_unix_nano: to_nanos(listed.device_time.unwrap_or(listed.received_at)),
        observed_time_unix_nano: to_nanos(listed.received_at),
        severity_number: SeverityNumber::Fatal.into(),
        severity_text: "FATAL".to_owned(),
        event_name: CRASH_EVENT.to_owned(),
        attributes,
        ..LogRecord::default()
    };
    let resource = list_attributes([
        ("service.name", listed.app.clone()),
        ("service.version", listed.version.clone()),
        ("app.build_id", listed.build.clone()),
        ("os.name", listed.os_name.clone().unwrap_or_default()),
        ("os.version", listed.os_version.clone().unwrap_or_default()),
        ("device.model.identifier", listed.model.clone().unwrap_or_default()),
    ]);
    let scope = InstrumentationScope {
        name: "unslide".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    ResourceLogs {
        resource: Some(Resource { attributes: resource, ..Resource::default() }),
        scope_logs: vec![ScopeLogs { scope: Some(scope), log_records: vec![record], ..ScopeLogs::default() }],
        ..ResourceLogs::default()
    }
}

fn attribute(key: &str, kind: AnyKind) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(kind) }), ..KeyValue::default() }
}

/// Returns the attributes with a text that is not empty.
fn list_attributes(texts: impl IntoIterator<Item = (&'static str, String)>) -> Vec<KeyValue> {
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    texts.map(|(key, text)| attribute(key, AnyKind::StringValue(text))).collect()
}

fn to_nanos(at: OffsetDateTime) -> u64 {
    u64::try_from(at.unix_timestamp_nanos()).unwrap_or_default()
}

/// Writes the crashed stack, one function on a line.
fn write_stack(thread: &ThreadView) -> String {
    let mut text = String::new();
    for frame in thread.frames.iter().take(FRAMES_LIMIT) {
        write_frame(frame, &mut text);
    }
    if let left @ 1.. = thread.frames.len().saturating_sub(FRAMES_LIMIT) {
        let _ = writeln!(text, "({left} frames are left out)");
    }
    text
}

fn write_frame(frame: &FrameView, text: &mut String) {
    let image = frame.image.as_deref().unwrap_or("???");
    for call in &frame.calls {
        let _ = write!(text, "{:<4}{image}  {}", frame.index, call.function);
        if let Some(file) = &call.file {
            let _ = match call.line {
                Some(line) => write!(text, " ({file}:{line})"),
                None => write!(text, " ({file})"),
            };
        }
        let _ = writeln!(text, "{}", if call.inlined { " [inlined]" } else { "" });
    }
    if frame.calls.is_empty() {
        let offset = frame.relative.map(|offset| format!(" + {offset:#x}")).unwrap_or_default();
        let _ = writeln!(text, "{:<4}{image}  {:#x}{offset}", frame.index, frame.address);
    }
}

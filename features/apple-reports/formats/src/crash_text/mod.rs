//! Crash logs as text: `.crash` files, `.ips` files with a header of JSON and a text below, and translations of an `.ips`
//! with the log itself under `Full Report`.
//!
//! Sources: Apple, "Examining the fields in a crash report", and texts of iOS 9 to 26 and macOS 10.8 to 15.

mod body;
mod exception;
mod frame_line;
mod image_line;
mod recognition;
mod sections;
mod text_images;
mod version;

use crate::identity::text_id;
use crate::ips::{IpsDocument, translate_document, translate_event};
use crate::monitor_kind::MonitorKind;
use crate::pasted::encoding::without_html;
use body::TextBody;
pub use frame_line::parse_hex;
pub use image_line::TextImage;
pub use recognition::{is_crash_text, split_header};
use sections::TextLog;
use unslide_report::reader::{DocumentText, ReportReader, SplitDocument, TranslatedReport};
use unslide_report::{JsonValue, ReadError, ReadLimits};
pub use version::AppVersion;

/// The reader of crash logs that are text.
pub const CRASH_TEXT_READER: ReportReader =
    ReportReader { name: "crash", recognizes: is_crash_text, translate: translate_text, parts: NO_PARTS };
const NO_PARTS: Option<SplitDocument> = None;
/// The line above a log in JSON that a text translates.
const FULL_REPORT: &str = "Full Report";

fn translate_text(bytes: &[u8], limits: &ReadLimits) -> Result<TranslatedReport, ReadError> {
    translate_log(bytes, bytes, None, limits)
}

/// Translates a log. The report's id is made from `source` if the log has none. `monitor` is the kind of event for which the
/// app took the backtraces, if it says so. Backtraces without an exception are no crash.
///
/// # Errors
/// Returns [`ReadError`] if the log has no backtrace, or too many items.
pub fn translate_log(
    bytes: &[u8],
    source: &[u8],
    monitor: Option<MonitorKind>,
    limits: &ReadLimits,
) -> Result<TranslatedReport, ReadError> {
    if let Some(translated) = full_report(bytes, limits) {
        return Ok(translated);
    }
    let (header, body, first_line) = split_header(bytes);
    // Pages that show a log escape the brackets around its UUIDs.
    let plain = without_html(body);
    let text = String::from_utf8_lossy(plain.as_deref().unwrap_or(body));
    let mut log = TextLog::read_text(&text, first_line, limits)?;
    log.own_uuid = own_uuid(header);
    if log.is_without_frames() {
        return Err(without_frames());
    }
    let has_header = log.find_field("Report Version").or_else(|| log.find_field("Code Type")).is_some();
    if log.images.is_empty() && !has_header && !log.is_backtraces && !log.has_load_address() {
        let problem = "this text has backtraces but no list of binary images and no header, so it is not a whole Apple crash log \
                       (.crash): send the whole file";
        return Err(ReadError::Unsupported { problem: problem.to_owned() });
    }
    let named = log
        .find_field("Incident Identifier")
        .filter(|id| !id.bytes().all(|byte| matches!(byte, b'0' | b'-')));
    let incident = named.map_or_else(|| text_id(source), str::to_owned);
    let body = TextBody::from_log(&log, &incident);
    let document = [header, b"\n", &body.json].concat();
    let own_limits = ReadLimits { max_bytes: usize::MAX, ..*limits };
    let monitor = monitor.or_else(|| log.is_without_exception().then_some(MonitorKind::Other));
    let ips = IpsDocument::read(&document, &own_limits)?;
    let translated = translate_event(&ips, monitor.and_then(MonitorKind::error_type), &own_limits)?;
    let start = header.len() + 1;
    let line = |insert_at: usize| insert_at.checked_sub(start).map_or(0, |at| body.line_at(at));
    Ok(as_text(translated, line))
}

/// Returns the report of a text: frames have lines instead of places.
fn as_text(translated: TranslatedReport, line: impl Fn(usize) -> u32) -> TranslatedReport {
    let lines = translated.frames.iter().map(|place| place.as_ref().map_or(0, |place| line(place.insert_at)));
    let text = DocumentText::from_lines(lines.collect());
    let frames = vec![None; translated.frames.len()];
    TranslatedReport { frames, text: Some(text), json: translated.json, ..TranslatedReport::default() }
}

/// Reads the log under `Full Report`. Returns `None` if the text has none, or a damaged one.
fn full_report(bytes: &[u8], limits: &ReadLimits) -> Option<TranslatedReport> {
    let mut offset = 0;
    let mut is_below = false;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii();
        if is_below && text.starts_with(b"{") {
            break;
        }
        is_below |= text == FULL_REPORT.as_bytes();
        offset += line.len();
    }
    let log = bytes.get(offset..).filter(|log| is_below && !log.is_empty())?;
    let translated = translate_document(&IpsDocument::read(log, limits).ok()?, limits).ok()?;
    Some(lines_of_frames(translated, bytes, offset))
}

/// Returns the report of a log in JSON that is a part of a text: its frames have the lines at which they end. The log begins
/// at an offset of the text.
pub fn lines_of_frames(translated: TranslatedReport, bytes: &[u8], offset: usize) -> TranslatedReport {
    let breaks: Vec<usize> =
        bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    let line = |insert_at: usize| {
        let before = breaks.partition_point(|at| *at < offset + insert_at);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    };
    as_text(translated, line)
}

/// Returns the UUID of the process's own image from a header of JSON.
fn own_uuid(header: &[u8]) -> Option<String> {
    let (header, _) = JsonValue::read(header, 0, &ReadLimits::default()).ok()?;
    let uuid = header.get("slice_uuid").filter(|uuid| uuid.as_uuid().is_some())?;
    Some(uuid.decode_string()?.replace('-', ""))
}

fn without_frames() -> ReadError {
    let problem = "this is an Apple crash log as text (.crash) without a backtrace: it ends too early, or is of another event. \
                   Send the whole file";
    ReadError::Unsupported { problem: problem.to_owned() }
}

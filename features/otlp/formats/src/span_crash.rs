//! Crashes that are spans: Splunk's agent for iOS writes threads and images as JSON into attributes.

use crate::crash_document::{CrashDocument, REPORT_FRAMES_LIMIT};
use crate::identity::id_for_record;
use crate::record::TelemetryRecord;
use serde_json::{Value, json};
use unslide_report::{JsonValue, ReadLimits, exception_number, signal_number};

/// The maximum number of threads, of frames of a thread, and of images.
const THREADS_LIMIT: usize = 1_024;
const FRAMES_LIMIT: usize = 512;
const IMAGES_LIMIT: usize = 4_096;

/// Writes the crash of a span as a report in KSCrash's form.
///
/// # Errors
/// Returns what is wrong with its attributes.
pub fn write_span_report(record: &TelemetryRecord<'_>) -> Result<CrashDocument, String> {
    let facts = record.read_facts();
    let threads_json = record.text("exception.threads").unwrap_or_default();
    let images_json = record.text("exception.images").unwrap_or("[]");
    let images = read_list("exception.images", images_json)?;
    let threads = read_list("exception.threads", threads_json)?;
    if threads.is_empty() {
        return Err("exception.threads has no thread".to_owned());
    }
    let mut left = REPORT_FRAMES_LIMIT;
    let threads = threads.iter().take(THREADS_LIMIT).enumerate();
    let threads: Vec<Value> = threads.map(|(at, thread)| read_thread(at, *thread, &mut left)).collect();
    let images: Vec<Value> =
        images.iter().take(IMAGES_LIMIT).filter_map(|image| read_image(*image)).collect();
    let report = json!({
        "report": {"id": id_for_record(record), "type": "standard"},
        "binary_images": images,
        "crash": {"error": read_error(record), "threads": threads},
    });
    Ok(CrashDocument { bytes: report.to_string().into_bytes(), facts })
}

fn read_list<'a>(key: &str, text: &'a str) -> Result<Vec<JsonValue<'a>>, String> {
    let limits = ReadLimits { max_bytes: usize::MAX, ..ReadLimits::default() };
    let (list, _) = JsonValue::read(text.as_bytes(), 0, &limits)
        .map_err(|error| format!("{key} cannot be read: {error}"))?;
    Ok(list.items())
}

/// Reads an address: a number, or a text of decimal or hexadecimal digits.
fn read_address(value: Option<JsonValue<'_>>) -> Option<u64> {
    let value = value?;
    let hex = || {
        let text = value.decode_string()?;
        u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
    };
    value.decimal_unsigned().or_else(hex)
}

fn read_text(value: Option<JsonValue<'_>>) -> Option<String> {
    value.and_then(JsonValue::decode_string).filter(|text| !text.is_empty())
}

/// Reads a thread with at most `left` frames, and takes its frames off them.
fn read_thread(at: usize, thread: JsonValue<'_>, left: &mut usize) -> Value {
    let [number, crashed, frames] = thread.find_members(["threadNumber", "crashed", "stackFrames"]);
    let frames = frames.map(JsonValue::items).unwrap_or_default();
    let limit = FRAMES_LIMIT.min(*left);
    let frames: Vec<Value> = frames.iter().take(limit).map(|frame| read_frame(*frame)).collect();
    *left -= frames.len();
    json!({
        "index": number.and_then(JsonValue::decimal_unsigned).unwrap_or(at as u64),
        "crashed": crashed.and_then(JsonValue::as_boolean) == Some(true),
        "current_thread": false,
        "backtrace": {"contents": frames},
    })
}

fn read_frame(frame: JsonValue<'_>) -> Value {
    let [pointer, name, base, offset, symbol] =
        frame.find_members(["instructionPointer", "imageName", "baseAddress", "offset", "symbolName"]);
    let base = read_address(base);
    let address = read_address(pointer).or_else(|| base?.checked_add(read_address(offset)?));
    let mut written = json!({});
    for (key, value) in [
        ("instruction_addr", address.map(Value::from)),
        ("object_addr", base.map(Value::from)),
        ("object_name", read_text(name).map(Value::from)),
        ("symbol_name", read_text(symbol).map(Value::from)),
    ] {
        if let Some(value) = value {
            written[key] = value;
        }
    }
    written
}

fn read_image(image: JsonValue<'_>) -> Option<Value> {
    let [base, size, path, uuid] = image.find_members(["baseAddress", "imageSize", "imagePath", "imageUUID"]);
    let mut written = json!({"image_addr": read_address(base)?});
    for (key, value) in [
        ("image_size", read_address(size).map(Value::from)),
        ("name", read_text(path).map(Value::from)),
        ("uuid", read_text(uuid).map(Value::from)),
    ] {
        if let Some(value) = value {
            written[key] = value;
        }
    }
    Some(written)
}

/// Reads the error: the exception's type is a signal, an exception of Mach, or the name of another one.
fn read_error(record: &TelemetryRecord<'_>) -> Value {
    let kind = record.text("exception.type").unwrap_or(&record.name);
    let mut error = if let Some(signal) = signal_number(kind) {
        json!({"type": "signal", "signal": {"signal": signal, "name": kind}})
    } else if let Some(exception) = exception_number(kind) {
        json!({"type": "mach", "mach": {"exception": exception, "exception_name": kind}})
    } else {
        json!({"type": "nsexception", "nsexception": {"name": kind}})
    };
    if let Some(reason) = record.text("exception.message") {
        error["reason"] = reason.into();
    }
    error
}

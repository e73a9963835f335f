//! Crash logs as text that an app sends in base64, in a string of a JSON object of its own.
//!
//! The object has no place for answers, so it is answered as a text is: beside the document.

use crate::crash_text::{is_crash_text, translate_log};
use crate::ips::is_kscrash;
use crate::monitor_kind::MonitorKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use unslide_report::reader::{DocumentText, ReportReader, TranslatedReport};
use unslide_report::{JsonValue, ReadError, ReadLimits};

/// The reader of objects with a crash log in base64.
pub const ENCODED_TEXT_READER: ReportReader = ReportReader {
    name: "encoded_text",
    recognizes: |document| find_encoded_text(document).is_some(),
    translate: translate_object,
    parts: None,
};

/// The bytes at the beginning in which the name of the member begins. An answered document has them escaped, in the first
/// 16 KiB that readers see.
const NAMES_BYTES: usize = 4 << 10;
/// The bytes of a value with which the text is recognised.
const VALUE_HEAD_BYTES: usize = 2 << 10;
/// The most strings of an object that are decoded.
const DECODED_STRINGS_LIMIT: usize = 4;
/// Words of the names of strings that are decoded, in upper case.
const NAME_WORDS: [&[u8]; 2] = [b"STACK", b"TRACE"];
/// Names of members that have the app's bundle identifier and its version.
const APP_NAMES: [&str; 3] = ["bundle_id", "bundleIdentifier", "CFBundleIdentifier"];
const VERSION_NAMES: [&str; 3] = ["app_version", "appVersion", "CFBundleShortVersionString"];
/// The most bytes of a bundle identifier or a version.
const FIELD_BYTES_LIMIT: usize = 255;

/// Returns the offset of the first string that is a crash log in base64.
fn find_encoded_text(document: &[u8]) -> Option<usize> {
    let head = document.get(..NAMES_BYTES + VALUE_HEAD_BYTES).unwrap_or(document);
    let start = head.trim_ascii_start();
    if !start.starts_with(b"{") || is_kscrash(start) {
        return None;
    }
    let (mut at, mut decoded) = (0, 0);
    while at < NAMES_BYTES && decoded < DECODED_STRINGS_LIMIT {
        let name = at + memchr::memchr(b'"', head.get(at..)?)? + 1;
        let end = name + string_bytes(head.get(name..)?)?;
        at = end + 1;
        let has_word = is_stack_name(head.get(name..end)?);
        let Some(value) = string_after_colon(head, at).filter(|_| has_word) else { continue };
        decoded += 1;
        let text = head.get(value..)?;
        let text = text.get(..VALUE_HEAD_BYTES).unwrap_or(text);
        if decode_text(text, true).is_some_and(|text| is_crash_text(&text)) {
            return Some(value);
        }
    }
    None
}

/// Returns the bytes of a JSON string before its closing quote, or None if it has none.
fn string_bytes(rest: &[u8]) -> Option<usize> {
    let mut end = 0;
    loop {
        end += memchr::memchr2(b'"', b'\\', rest.get(end..)?)?;
        if rest.get(end) == Some(&b'"') {
            return Some(end);
        }
        end += 2;
    }
}

/// Returns the offset of the string behind a colon, after its quote.
fn string_after_colon(document: &[u8], at: usize) -> Option<usize> {
    let rest = document.get(at..)?.trim_ascii_start().strip_prefix(b":")?;
    let value = rest.trim_ascii_start().strip_prefix(b"\"")?;
    document.len().checked_sub(value.len())
}

fn is_stack_name(name: &[u8]) -> bool {
    let name = name.to_ascii_uppercase();
    NAME_WORDS.iter().any(|word| memchr::memmem::find(&name, word).is_some())
}

/// Decodes a JSON string in base64, up to its closing quote. The end of one that is cut is ignored.
fn decode_text(value: &[u8], is_cut: bool) -> Option<Vec<u8>> {
    let mut letters = Vec::with_capacity(value.len());
    let (mut bytes, mut is_padded) = (value.iter(), false);
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => break,
            b'=' => is_padded = true,
            // Some writers of JSON escape a slash, and some of base64 break lines.
            b'\\' => match bytes.next() {
                Some(b'/') => letters.push(b'/'),
                Some(b'n' | b'r') => {}
                Some(_) => return None,
                None => break,
            },
            _ if is_padded => return None,
            _ => letters.push(*byte),
        }
    }
    if is_cut {
        letters.truncate(letters.len() / 4 * 4);
    }
    STANDARD_NO_PAD.decode(letters).ok()
}

fn translate_object(bytes: &[u8], limits: &ReadLimits) -> Result<TranslatedReport, ReadError> {
    let (object, _) = JsonValue::read(bytes, 0, limits)?;
    let encoded = find_encoded_text(bytes).and_then(|start| bytes.get(start..));
    let text = encoded.and_then(|encoded| decode_text(encoded, false)).ok_or_else(|| {
        let problem = "this is a JSON object with a crash log in base64 that cannot be decoded: send the log itself, or the whole \
                       object";
        ReadError::Unsupported { problem: problem.to_owned() }
    })?;
    let mut log = Vec::with_capacity(text.len() + 2 * FIELD_BYTES_LIMIT);
    for (field, names) in [("Identifier:", APP_NAMES), ("Version:", VERSION_NAMES)] {
        if let Some(value) = find_field(object, names).filter(|_| !has_field(&text, field)) {
            log.extend_from_slice(format!("{field} {value}\n").as_bytes());
        }
    }
    log.extend_from_slice(&text);
    let translated = translate_log(&log, bytes, MonitorKind::from_object(object), limits)?;
    // Lines of the decoded text are no lines of the document.
    Ok(TranslatedReport { text: Some(DocumentText::default()), ..translated })
}

/// Returns true if a log has a field, or has a header of JSON, which stays its first line.
fn has_field(text: &[u8], field: &str) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
    text.trim_ascii_start().starts_with(b"{") || lines.any(|line| line.starts_with(field.as_bytes()))
}

/// Returns the first of these members that is one word.
fn find_field<const N: usize>(object: JsonValue<'_>, names: [&str; N]) -> Option<String> {
    let is_word = |text: &String| {
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        !text.is_empty() && text.len() <= FIELD_BYTES_LIMIT && text.bytes().all(letters)
    };
    object.find_members(names).into_iter().flatten().filter_map(JsonValue::decode_string).find(is_word)
}

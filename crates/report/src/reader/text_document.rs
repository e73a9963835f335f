//! Documents that are text. They have no place for our members, so the answers go into an object beside the text:
//!
//! ```text
//! document = "{\"text\":" string ",\"symbolication\":" object "}"
//! ```
//!
//! The object has one more member than in other reports: `answers`, with the answer and the line of each frame.

use super::TranslatedReport;
use crate::json::Value;
use crate::{Backtrace, FrameSlot, Ours, ReadError, ReadLimits, Report, Text, splice};
use std::borrow::Cow;

/// The bytes with which a document begins that wraps a text.
const WRAPPED_START: &[u8] = b"{\"text\":\"";
/// The bytes of the text with which it is recognised.
const HEAD_BYTES: usize = 16 << 10;
/// Bytes around the text and the answers, and more than enough for them.
const WRAPPING_BYTES: usize = 64;
/// The name of the member with the answers of frames.
const ANSWERS: &str = "answers";

/// The text of a document, and the lines of its frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentText {
    /// The line of each frame of the report, from 1, in the order of the report. Empty if lines are not known.
    pub lines: Vec<u32>,
    /// The text of a document that wraps it.
    pub(crate) wrapped: Option<Vec<u8>>,
}

/// A text with the answers of an earlier enrichment.
pub(crate) struct WrappedText<'d> {
    pub(crate) text: Cow<'d, [u8]>,
    /// The value of our member, without the answers of frames.
    own: Vec<u8>,
    /// The answer of each frame.
    answers: Vec<Option<&'d [u8]>>,
}

/// Returns the beginning of the text in a document that wraps one, or `None` for any other document.
pub(crate) fn wrapped_head(document: &[u8]) -> Option<Vec<u8>> {
    let text = document.strip_prefix(WRAPPED_START)?;
    let head = text.get(..HEAD_BYTES).unwrap_or(text);
    let mut end = 0;
    while let Some(byte) = head.get(end).filter(|byte| **byte != b'"') {
        end += if *byte == b'\\' { 2 } else { 1 };
    }
    Some(Text::from_escaped(head.get(..end).unwrap_or(head)).decode_bytes().into_owned())
}

impl<'d> WrappedText<'d> {
    /// Reads a document that wraps a text.
    ///
    /// # Errors
    /// Returns [`ReadError`] if the document is no JSON, or has no answers of ours.
    pub(crate) fn read_document(
        document: &'d [u8],
        limits: &ReadLimits,
    ) -> Result<WrappedText<'d>, ReadError> {
        let (root, _) = Value::read(document, 0, limits)?;
        let [text, own] = root.find_members(["text", "symbolication"]);
        let own = own.filter(|own| Ours::from_value(*own).is_some());
        let (Some(text), Some(own)) = (text.and_then(Value::as_text), own) else {
            let problem = "this is a JSON object around a text, and has no `symbolication` of ours: send the text itself, or \
                           an array with the text as a string";
            return Err(ReadError::Unsupported { problem: problem.to_owned() });
        };
        let answers = own.get(ANSWERS);
        let items = answers.map(Value::items).unwrap_or_default();
        let answer = |item: Value<'d>| item.get("symbolication").map(Value::raw_bytes);
        Ok(WrappedText {
            text: text.decode_bytes(),
            own: without_answers(own, answers),
            answers: items.into_iter().map(answer).collect(),
        })
    }

    /// Inserts the answers into the report that was translated from the text.
    ///
    /// # Errors
    /// Returns [`ReadError`] if the translation is no report.
    pub(crate) fn insert_answers(self, translated: TranslatedReport) -> Result<TranslatedReport, ReadError> {
        let report = Report::read_stored(&translated.json)?;
        let slots = report.backtraces.iter().flat_map(Backtrace::frame_slots);
        let mut json = Vec::with_capacity(translated.json.len() + self.own.len());
        let mut copied = 0;
        for (slot, answer) in slots.zip(self.answers) {
            let (at, has_members) = match slot {
                FrameSlot::Frame(frame) => (frame.insert_at, frame.has_members),
                FrameSlot::Blank(blank) => (blank.insert_at(), blank.has_members()),
            };
            let Some(answer) = answer else { continue };
            json.extend_from_slice(translated.json.get(copied..at).unwrap_or_default());
            json.extend_from_slice(splice::member_key(has_members));
            json.extend_from_slice(answer);
            copied = at;
        }
        json.extend_from_slice(translated.json.get(copied..report.insert_at).unwrap_or_default());
        json.extend_from_slice(splice::member_key(report.has_members));
        json.extend_from_slice(&self.own);
        json.extend_from_slice(translated.json.get(report.insert_at..).unwrap_or_default());
        let lines = translated.text.map(|text| text.lines).unwrap_or_default();
        let text = DocumentText { lines, wrapped: Some(self.text.into_owned()) };
        Ok(TranslatedReport { json, text: Some(text), ..translated })
    }
}

impl DocumentText {
    /// Creates the text of a document that a reader recognised, with the line of each frame.
    #[must_use]
    pub fn from_lines(lines: Vec<u32>) -> DocumentText {
        DocumentText { lines, wrapped: None }
    }

    /// Returns the text of a document.
    pub(crate) fn text_in<'t>(&'t self, document: &'t [u8]) -> &'t [u8] {
        self.wrapped.as_deref().unwrap_or(document)
    }

    /// Returns the most bytes by which an enriched document exceeds its enriched report.
    pub(crate) fn excess_bytes(&self, document: &[u8]) -> usize {
        // An answer's line takes fewer bytes than a frame of the report.
        self.text_in(document).iter().map(|byte| escaped_bytes(*byte)).sum::<usize>() + WRAPPING_BYTES
    }

    /// Returns the text with the answers of an enriched report.
    pub(crate) fn write_answered(&self, document: &[u8], enriched: &Report<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.excess_bytes(document) + enriched.input.len());
        out.extend_from_slice(WRAPPED_START);
        escape_into(&mut out, self.text_in(document));
        out.push(b'"');
        let own = enriched.own_member.clone().and_then(|own| member_value(enriched.input, own));
        if let Some(own) = own.and_then(|own| own.strip_suffix(b"}")) {
            out.extend_from_slice(splice::member_key(true));
            out.extend_from_slice(own);
            out.extend_from_slice(b",\"answers\":[");
            self.write_answers(enriched, &mut out);
            out.extend_from_slice(b"]}");
        }
        out.push(b'}');
        out
    }

    fn write_answers(&self, enriched: &Report<'_>, out: &mut Vec<u8>) {
        let slots = enriched.backtraces.iter().flat_map(Backtrace::frame_slots);
        for (position, slot) in slots.enumerate() {
            let own = match slot {
                FrameSlot::Frame(frame) => frame.own_member.clone(),
                FrameSlot::Blank(blank) => blank.own_member(),
            };
            if position > 0 {
                out.push(b',');
            }
            out.push(b'{');
            let line = self.lines.get(position).filter(|line| **line > 0);
            if let Some(line) = line {
                out.extend_from_slice(format!("\"line\":{line}").as_bytes());
            }
            if let Some(value) = own.and_then(|own| member_value(enriched.input, own)) {
                out.extend_from_slice(splice::member_key(line.is_some()));
                out.extend_from_slice(value);
            }
            out.push(b'}');
        }
    }
}

/// Returns the bytes of the value of our member, which has its key and perhaps a comma.
pub(crate) fn member_value(input: &[u8], own: std::ops::Range<usize>) -> Option<&[u8]> {
    let member = input.get(own)?;
    member.strip_prefix(b",").unwrap_or(member).strip_prefix(splice::member_key(false))
}

/// Returns the bytes of our member's value without the answers of frames, which are its last member.
fn without_answers(own: Value<'_>, answers: Option<Value<'_>>) -> Vec<u8> {
    let key = format!(",\"{ANSWERS}\":");
    let raw = own.raw_bytes();
    let end = answers.and_then(|answers| (answers.offset() - own.offset()).checked_sub(key.len()));
    match end.filter(|end| raw.get(*end..).is_some_and(|rest| rest.starts_with(key.as_bytes()))) {
        Some(end) => [raw.get(..end).unwrap_or_default(), b"}"].concat(),
        None => raw.to_vec(),
    }
}

/// Returns the bytes that a byte of a text takes in a JSON string.
fn escaped_bytes(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

/// Writes a text between the quotes of a JSON string. Bytes that are no UTF-8 stay.
fn escape_into(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::{ReportReader, ReportReaders};

    const JSON: &[u8] =
        br#"{"crash":{"threads":[{"backtrace":{"contents":[{"instruction_addr":4096},{}]}}]}}"#;
    const READER: ReportReader = ReportReader {
        name: "text",
        recognizes: |document| document.starts_with(b"Log"),
        translate: |_, _| {
            let text = DocumentText { lines: vec![7], wrapped: None };
            Ok(TranslatedReport { json: JSON.to_vec(), text: Some(text), ..TranslatedReport::default() })
        },
        parts: None,
    };

    fn enriched() -> Vec<u8> {
        let own = format!("{{\"version\":1,\"engine\":\"{}1\"}}", crate::ENGINE_PREFIX);
        let json = String::from_utf8(JSON.to_vec()).unwrap();
        let json = json.replace("4096}", "4096,\"symbolication\":{\"status\":\"missing\"}}");
        json.replace("}}]}}", &format!("}}}}]}},\"symbolication\":{own}}}")).into_bytes()
    }

    #[test]
    fn a_text_comes_out_of_its_answer_byte_for_byte() {
        let readers = ReportReaders::new([READER]);
        let text = b"Log \"\\ \t\r\n\x00\x1f\x7f \xC3\xA4 \xFF\xF0 </a> \\u0041".to_vec();
        let limits = ReadLimits::default();
        let document = readers.open(&text, &limits).unwrap();
        let written = document.write(enriched()).unwrap();
        assert!(written.len() <= enriched().len() + document.excess_bytes());
        let again = readers.open(&written, &limits).unwrap();
        assert_eq!(again.stripped().unwrap(), text.as_slice());
        assert_eq!(again.json(), enriched());
        assert_eq!(again.write(enriched()).unwrap(), written);
        let shown = String::from_utf8_lossy(&written);
        assert!(
            shown.contains("\"answers\":[{\"line\":7,\"symbolication\":{\"status\":\"missing\"}},{}]}}"),
            "{shown}"
        );
    }

    #[test]
    fn a_text_in_an_object_without_answers_is_refused() {
        let readers = ReportReaders::new([READER]);
        let refused = readers.open(b"{\"text\":\"Log\"}", &ReadLimits::default()).unwrap_err();
        assert!(refused.to_string().contains("send the text itself"), "{refused}");
        assert!(readers.find(b"{\"text\":\"other\"}").is_none());
        assert!(readers.find(b"{\"text\":\"Log\\").is_some());
    }
}

//! Logs that were pasted or exported: in UTF-16, quoted in a mail, between the marks of a code block, indented, or with the
//! escapes of HTML. They are read as the log without that, and answered as a text is.

mod code_block;
pub mod encoding;
mod quotes;

use crate::call_tree::CALL_TREE_READER;
use crate::crash_text::{CRASH_TEXT_READER, lines_of_frames};
use crate::ips::IPS_READER;
use crate::jetsam_text::JETSAM_TEXT_READER;
use crate::metric_kit::METRIC_KIT_READER;
use std::borrow::Cow;
use unslide_report::reader::{ReportReader, TranslatedReport};
use unslide_report::{ReadError, ReadLimits};

/// The reader of logs with other text around them.
pub const PASTED_READER: ReportReader = ReportReader {
    name: "pasted",
    recognizes: |document| find_log(document.get(..HEAD_BYTES).unwrap_or(document)).is_some(),
    translate: translate_pasted,
    parts: None,
};

/// The readers of logs that may be pasted, in the order in which they are tried.
const LOG_READERS: [ReportReader; 5] =
    [JETSAM_TEXT_READER, CALL_TREE_READER, CRASH_TEXT_READER, METRIC_KIT_READER, IPS_READER];
/// The bytes at the beginning with which a log is recognised.
const HEAD_BYTES: usize = 16 << 10;
/// The bytes of a text that decide what is around its lines: those that the head of a document in UTF-16 has, too.
const TEXT_HEAD_BYTES: usize = 4 << 10;

/// Returns the log in a document, and its reader. Returns `None` if the document has nothing around a log, or no log.
fn find_log(document: &[u8]) -> Option<(Vec<u8>, &'static ReportReader)> {
    if is_plain_json(document) {
        return None;
    }
    let log = plain_log(document)?;
    let reader = LOG_READERS.iter().find(|reader| (reader.recognizes)(&log))?;
    Some((log, reader))
}

/// Returns true for an object, an array or a string. It decides by the first two bytes, as it is called for every report.
fn is_plain_json(document: &[u8]) -> bool {
    let start = document.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(document).trim_ascii_start();
    match start {
        // `{noformat}` and `[code]` are marks. A NUL is the other half of a letter in UTF-16.
        [b'{' | b'[', next, ..] => !next.is_ascii_alphabetic() && *next != 0 && *next != b'&',
        [b'"', ..] | [] => true,
        _ => false,
    }
}

/// Returns the beginning of a text that decides what is around its lines.
fn text_head(text: &[u8]) -> &[u8] {
    text.get(..TEXT_HEAD_BYTES).unwrap_or(text)
}

/// Removes what is around the lines of a log. The lines keep their numbers. Returns `None` if nothing is around them.
fn plain_log(document: &[u8]) -> Option<Vec<u8>> {
    let decoded = encoding::decode_utf_16(document);
    let mut log = Cow::Borrowed(decoded.as_deref().unwrap_or(document));
    for step in
        [encoding::without_html, code_block::inside_block, quotes::without_quotes, quotes::without_indent]
    {
        if let Some(plain) = step(&log) {
            log = Cow::Owned(plain);
        }
    }
    match log {
        Cow::Owned(log) => Some(log),
        Cow::Borrowed(_) => decoded,
    }
}

fn translate_pasted(bytes: &[u8], limits: &ReadLimits) -> Result<TranslatedReport, ReadError> {
    let (log, reader) = find_log(bytes).ok_or_else(|| {
        let problem = "this is a log with other text around it that cannot be separated: send the log alone";
        ReadError::Unsupported { problem: problem.to_owned() }
    })?;
    let translated = (reader.translate)(&log, limits)?;
    Ok(match translated.text {
        Some(_) => translated,
        None => lines_of_frames(translated, &log, 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_found_in_the_text_around_it() {
        for text in [
            "> Incident Identifier: 1\n> Process: Shop [1]\n> Hardware Model: a\n",
            "It crashed again:\n\n>> Incident Identifier: 1\n>> Process: Shop [1]\n",
            "{noformat}\nIncident Identifier: 1\n{noformat}\n",
            "{code:title=crash}\n{\"bug_type\":\"309\"}\n{\"threads\":[]}\n{code}",
            "See:\n```\n{\"bug_type\":\"309\"}\n{\"threads\":[]}\n```\nThanks",
            "<pre>Incident Identifier: 1\nBinary Images:\n0x1 - 0x2 A &lt;a&gt;\n</pre>",
            "[code]\nIncident Identifier: 1\n[/code]\n",
            "| Incident Identifier: 1\n| Process: Shop [1]\n",
        ] {
            assert!((PASTED_READER.recognizes)(text.as_bytes()), "{text}");
        }
        for text in [
            "Incident Identifier: 1\nProcess: Shop [1]\n",
            "{\"bug_type\":\"309\"}\n{\"threads\":[]}",
            "{ \"crash\":{}}",
            "[{\"crash\":{}}]",
            "\"> Incident Identifier: 1\"",
            "> a quote\n> of another text\n",
            "```\nprint(1)\n```\n",
            "{noformat}",
            "",
        ] {
            assert!(!(PASTED_READER.recognizes)(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn lines_keep_their_numbers() {
        let text = "a\n\n```text\nIncident Identifier: 1\nProcess: Shop [1]\n```\nb\n";
        let plain = plain_log(text.as_bytes()).unwrap();
        assert_eq!(
            String::from_utf8(plain).unwrap(),
            "\n\n\nIncident Identifier: 1\nProcess: Shop [1]\n\n\n"
        );
    }
}

//! How a text is known to be a crash log.

use super::sections::BACKTRACE_HEAD;
use crate::ips::is_kscrash;
use unslide_report::{JsonValue, ReadLimits};

/// The bytes at the beginning that are searched.
const HEAD_BYTES: usize = 16 << 10;
/// Lines that are searched for a field.
const HEAD_LINES: usize = 64;
const MARK: &[u8] = b"\xEF\xBB\xBF";
/// Beginnings of lines that only crash logs have.
const FIELDS: [&[u8]; 11] = [
    BACKTRACE_HEAD.as_bytes(),
    b"Incident Identifier:",
    b"CrashReporter Key:",
    b"Hardware Model:",
    b"Exception Type:",
    b"Exception Codes:",
    b"Crashed Thread:",
    b"Triggered by Thread:",
    b"Last Exception Backtrace:",
    b"Translated Report (Full Report Below)",
    b"Full Report",
];

/// Returns true if a document is a crash log as text, with or without a header of JSON.
pub fn is_crash_text(document: &[u8]) -> bool {
    let (header, text, _) = split_header(document);
    let head = text.get(..HEAD_BYTES).unwrap_or(text).trim_ascii_start();
    if matches!(head.first(), None | Some(b'{' | b'[' | b'"')) {
        return false;
    }
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).take(HEAD_LINES);
    let is_field = |line: &[u8]| FIELDS.iter().any(|field| line.starts_with(field)) || is_thread_head(line);
    // A header of JSON says that a log follows, and the process is its first field.
    lines.any(|line| is_field(line) || !header.is_empty() && line.starts_with(b"Process:"))
}

/// Returns true for `Thread 0:`, `Thread 0 Crashed:` and `Thread 0 name:`.
fn is_thread_head(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"Thread ") else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = rest.get(digits..).unwrap_or_default();
    let is_head = |rest: &[u8]| {
        [&b":"[..], b" Crashed:", b" Highlighted:", b" name:"].iter().any(|end| rest.starts_with(end))
    };
    digits > 0 && is_head(rest)
}

/// Splits a header of JSON on the first line off. Returns the header, which is empty if there is none, the text, and the
/// number of its first line.
pub fn split_header(document: &[u8]) -> (&[u8], &[u8], u32) {
    let document = document.strip_prefix(MARK).unwrap_or(document);
    let start = document.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let none: (&[u8], &[u8], u32) = (&[], document, 1);
    let head = document.get(start..).unwrap_or_default();
    if !head.starts_with(b"{") || is_kscrash(head) {
        return none;
    }
    let searched = head.get(..HEAD_BYTES).unwrap_or(head);
    let Some(end) = memchr::memchr(b'\n', searched) else { return none };
    let (Some(header), Some(text)) = (head.get(..end), head.get(end + 1..)) else { return none };
    let is_object = JsonValue::read(header, 0, &ReadLimits::default()).is_ok_and(|(object, end)| {
        object.is_object() && header.get(end..).unwrap_or_default().trim_ascii().is_empty()
    });
    if !is_object {
        return none;
    }
    let before = document.get(..start).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count();
    (header, text, u32::try_from(before + 2).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_decides() {
        for text in [
            "Incident Identifier: 1\n",
            "\u{FEFF}\n  Process: Shop [1]\n  Hardware Model: iPhone\r\n",
            "Thread 0:\n0 A 0x1",
            "Thread 11 name:\n",
            "-------\nTranslated Report (Full Report Below)\n",
            "{\"bug_type\":\"109\"}\nProcess: Shop [1]\n",
        ] {
            assert!(is_crash_text(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "{\"bug_type\":\"309\"}\n{}",
            "[1]",
            "\"Incident Identifier:\"",
            "Process: Shop [1]\n",
            "Thread pool: 1",
        ] {
            assert!(!is_crash_text(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_header_is_one_line_of_json() {
        assert_eq!(split_header(b"\n{\"a\":1}\r\nText\n"), (&b"{\"a\":1}\r"[..], &b"Text\n"[..], 3));
        assert_eq!(split_header(b"Text\n"), (&b""[..], &b"Text\n"[..], 1));
        assert_eq!(split_header(b"{\"a\":\nText\n"), (&b""[..], &b"{\"a\":\nText\n"[..], 1));
    }
}

//! Limits of the texts of a context.

use crate::json::Value;
use crate::text::escape_line;

/// The maximum size of all texts of one context, in bytes.
const CONTEXT_BYTES_LIMIT: usize = 512 << 10;
/// The maximum number of characters of one text.
const TEXT_CHARS_LIMIT: usize = 2_000;
/// The maximum number of characters of a key's name.
const NAME_CHARS_LIMIT: usize = 200;
/// The maximum size of a text in the report that is decoded, in bytes.
const DECODED_BYTES_LIMIT: usize = 256 << 10;

/// The remaining capacity of a context.
pub(super) struct ContextRoom {
    bytes: usize,
    is_cut: bool,
}

impl Default for ContextRoom {
    fn default() -> ContextRoom {
        ContextRoom { bytes: CONTEXT_BYTES_LIMIT, is_cut: false }
    }
}

impl ContextRoom {
    /// Returns true if something was left out.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns true if another text fits.
    pub(super) fn has_space(&self) -> bool {
        self.bytes > 0
    }

    /// Records that something is left out.
    pub(super) fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Returns a key's name, cut to its limit.
    pub(super) fn take_name(&mut self, name: &str) -> String {
        self.take_chars(name, NAME_CHARS_LIMIT)
    }

    /// Returns the text of a string, or the JSON of any other value, on one line.
    pub(super) fn take_value(&mut self, value: Value<'_>) -> String {
        let text = self.decode_value(value);
        self.take_chars(&escape_line(&text), TEXT_CHARS_LIMIT)
    }

    /// Returns the last `limit` lines of a text, the last line first.
    pub(super) fn take_lines(&mut self, value: Value<'_>, limit: usize) -> Vec<String> {
        let text = self.decode_value(value);
        let mut lines = Vec::new();
        for line in text.trim_end_matches(['\n', '\r']).rsplit('\n') {
            if lines.len() == limit || !self.has_space() {
                self.cut();
                break;
            }
            let line = line.strip_suffix('\r').unwrap_or(line).replace('\t', "    ");
            lines.push(self.take_chars(&escape_line(&line), TEXT_CHARS_LIMIT));
        }
        lines
    }

    /// Decodes a string, or returns the JSON of any other value. Very long texts are replaced by their size.
    fn decode_value(&mut self, value: Value<'_>) -> String {
        let raw = value.raw_bytes();
        if raw.len() <= DECODED_BYTES_LIMIT {
            return value.decode_string().unwrap_or_else(|| String::from_utf8_lossy(raw).into_owned());
        }
        self.cut();
        format!("({} bytes)", raw.len())
    }

    fn take_chars(&mut self, text: &str, limit: usize) -> String {
        let mut kept: String = text.chars().take(limit).collect();
        if kept.len() < text.len() {
            kept.push('…');
            self.cut();
        }
        if kept.len() > self.bytes {
            self.bytes = 0;
            self.cut();
            return String::new();
        }
        self.bytes -= kept.len();
        kept
    }
}

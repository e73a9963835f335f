//! Text that is ready to be put between the quotes of a JSON string.

use std::fmt;

/// The inside of a JSON string, escaped already: put between quotes it is valid JSON. Borrowed from
/// the symcache.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct JsonStr<'a>(&'a [u8]);

impl<'a> JsonStr<'a> {
    pub(crate) fn new(escaped: &'a [u8]) -> JsonStr<'a> {
        JsonStr(escaped)
    }

    /// The escaped bytes, without quotes.
    #[must_use]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// True for the empty text, which stands for a function that the debug information leaves nameless.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The text as it was before it was escaped.
    #[must_use]
    pub fn decode(self) -> String {
        let text = String::from_utf8_lossy(self.0);
        let mut out = String::with_capacity(text.len());
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            if c != '\\' {
                out.push(c);
                continue;
            }
            match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some('u') => {
                    let digits = chars.as_str().get(..4).unwrap_or_default();
                    let code = u32::from_str_radix(digits, 16).unwrap_or(0xFFFD);
                    out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    chars = chars.as_str().get(4..).unwrap_or_default().chars();
                }
                Some(other) => out.push(other),
                None => break,
            }
        }
        out
    }
}

impl fmt::Debug for JsonStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", String::from_utf8_lossy(self.0))
    }
}

/// Escapes `text` for the inside of a JSON string.
pub(crate) fn escape(text: &str, out: &mut Vec<u8>) {
    for &byte in text.as_bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..=0x1F => {
                out.extend_from_slice(b"\\u00");
                out.push(b'0' + (byte >> 4));
                out.push(b"0123456789abcdef"[usize::from(byte & 15)]);
            }
            _ => out.push(byte),
        }
    }
}

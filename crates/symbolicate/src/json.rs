//! Writes JSON by hand: texts from the symcache and the report are escaped already, so that writing
//! only copies bytes.

use std::borrow::Cow;
use unslide_model::DebugId;
use unslide_report::Text;

/// A key with its punctuation, known at compile time: `,"name":"`. The functions that write it are
/// always inlined, so that the compiler knows its length and copies it without a call.
macro_rules! key {
    ($name:literal) => {
        $crate::json::JsonKey(concat!(",\"", $name, "\":\""))
    };
}
pub(crate) use key;

/// See [`key!`].
#[derive(Clone, Copy)]
pub(crate) struct JsonKey(pub(crate) &'static str);

/// Appends members to a JSON object, including the commas.
pub(crate) struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    first: bool,
}

impl<'o> ObjectWriter<'o> {
    /// Opens an object.
    #[inline(always)]
    pub(crate) fn open(out: &'o mut Vec<u8>) -> ObjectWriter<'o> {
        ObjectWriter { out, first: true }
    }

    /// Closes the object.
    #[inline(always)]
    pub(crate) fn close(self) {
        if self.first {
            self.out.push(b'{');
        }
        self.out.push(b'}');
    }

    /// Writes the text before a value. The first member gets the brace instead of a comma.
    #[inline(always)]
    fn write_prefix(&mut self, key: &[u8]) {
        let at = self.out.len();
        self.out.extend_from_slice(key);
        if std::mem::take(&mut self.first)
            && let Some(comma) = self.out.get_mut(at)
        {
            *comma = b'{';
        }
    }

    /// Writes a key. The caller writes the value to the returned buffer.
    #[inline(always)]
    pub(crate) fn write_key(&mut self, key: JsonKey) -> &mut Vec<u8> {
        let key = key.0.as_bytes();
        self.write_prefix(&key[..key.len() - 1]);
        self.out
    }

    /// Writes a key that is known at run time and needs no escapes. The caller writes the value to the returned buffer.
    pub(crate) fn runtime_key(&mut self, key: &str) -> &mut Vec<u8> {
        self.write_prefix(b",\"");
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Writes a string that is escaped already, or needs no escapes.
    #[inline(always)]
    pub(crate) fn write_escaped(&mut self, key: JsonKey, value: &[u8]) {
        self.write_prefix(key.0.as_bytes());
        self.out.reserve(value.len() + 1);
        self.out.extend_from_slice(value);
        self.out.push(b'"');
    }

    /// Writes any string.
    pub(crate) fn write_text(&mut self, key: JsonKey, value: &str) {
        write_string(self.write_key(key), value);
    }

    /// Writes an integer.
    #[inline(always)]
    pub(crate) fn write_number(&mut self, key: JsonKey, value: impl itoa::Integer) {
        write_integer(self.write_key(key), value);
    }

    /// Writes a member that is only present if it is true.
    #[inline(always)]
    pub(crate) fn write_flag(&mut self, key: JsonKey, value: bool) {
        if value {
            self.write_key(key).extend_from_slice(b"true");
        }
    }
}

/// Escapes `text` for the inside of a JSON string.
pub(crate) fn escape_text(text: &str, out: &mut Vec<u8>) {
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

/// Writes an integer.
pub(crate) fn write_integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Writes a string with its quotes.
pub(crate) fn write_string(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    if value.bytes().any(|b| b < b' ' || b == b'"' || b == b'\\') {
        escape_text(value, out);
    } else {
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'"');
}

/// Returns a string of the report, ready to be put between quotes again: unchanged if it is valid.
/// Broken UTF-8 and broken escapes are not copied.
pub(crate) fn report_text(text: Text<'_>) -> Cow<'_, [u8]> {
    let raw = text.raw();
    if !raw.contains(&b'\\') && std::str::from_utf8(raw).is_ok() {
        return Cow::Borrowed(raw);
    }
    let mut escaped = Vec::with_capacity(raw.len() + 8);
    escape_text(&text.decode(), &mut escaped);
    Cow::Owned(escaped)
}

/// Returns the text of a debug id.
pub(crate) fn format_dashed(id: &DebugId) -> [u8; 36] {
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (i, byte) in id.0.iter().enumerate() {
        at += usize::from(matches!(i, 4 | 6 | 8 | 10));
        text[at] = b"0123456789abcdef"[usize::from(byte >> 4)];
        text[at + 1] = b"0123456789abcdef"[usize::from(byte & 15)];
        at += 2;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_ids_are_written_as_they_are_displayed() {
        let id: DebugId = "0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0".parse().unwrap();
        assert_eq!(format_dashed(&id), *id.to_string().as_bytes());
    }
}

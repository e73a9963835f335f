//! Writing JSON by hand: the texts come escaped from the symcache or from the report itself, so that
//! writing is copying bytes.

use crate::symcache::escape;
use unslide_model::DebugId;
use unslide_report::Text;

/// Appends members to a JSON object, commas and all.
pub(crate) struct Object<'o> {
    out: &'o mut Vec<u8>,
    first: bool,
}

impl<'o> Object<'o> {
    /// Opens an object.
    pub(crate) fn open(out: &'o mut Vec<u8>) -> Object<'o> {
        out.push(b'{');
        Object { out, first: true }
    }

    /// Closes the object.
    pub(crate) fn close(self) {
        self.out.push(b'}');
    }

    /// Writes a key that needs no escapes; the caller writes the value to what is returned.
    pub(crate) fn key(&mut self, key: &str) -> &mut Vec<u8> {
        let before: &[u8] = if self.first { b"\"" } else { b",\"" };
        self.first = false;
        self.out.extend_from_slice(before);
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// A string that is escaped already, or needs no escapes.
    pub(crate) fn escaped(&mut self, key: &str, value: &[u8]) {
        let out = self.key(key);
        out.push(b'"');
        out.extend_from_slice(value);
        out.push(b'"');
    }

    /// Any string.
    pub(crate) fn text(&mut self, key: &str, value: &str) {
        string(self.key(key), value);
    }

    /// An integer.
    pub(crate) fn number(&mut self, key: &str, value: impl itoa::Integer) {
        integer(self.key(key), value);
    }

    /// A member that is only written where it is true.
    pub(crate) fn flag(&mut self, key: &str, value: bool) {
        if value {
            self.key(key).extend_from_slice(b"true");
        }
    }
}

/// An integer.
pub(crate) fn integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// A string with its quotes.
pub(crate) fn string(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    escape(value, out);
    out.push(b'"');
}

/// A string of the report, with its quotes. Copied as it is where it is sound; broken UTF-8 and
/// broken escapes are not written a second time.
pub(crate) fn report_text(out: &mut Vec<u8>, text: Text<'_>) {
    let raw = text.raw();
    if raw.contains(&b'\\') || std::str::from_utf8(raw).is_err() {
        return string(out, &text.decode());
    }
    out.push(b'"');
    out.extend_from_slice(raw);
    out.push(b'"');
}

/// A debug id, with its quotes.
pub(crate) fn debug_id(out: &mut Vec<u8>, id: &DebugId) {
    out.push(b'"');
    out.extend_from_slice(&dashed(id));
    out.push(b'"');
}

fn dashed(id: &DebugId) -> [u8; 36] {
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
        assert_eq!(dashed(&id), *id.to_string().as_bytes());
    }
}

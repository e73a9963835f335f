//! Writes JSON. Strings of the source keep their bytes, so that invalid UTF-8 is tolerated as in other reports.

use unslide_report::Text;

/// A JSON text that grows. Commas are written as needed.
#[derive(Debug, Default)]
pub struct JsonBuilder {
    out: Vec<u8>,
}

impl JsonBuilder {
    /// Returns the bytes of the text.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    fn separate(&mut self) {
        if !matches!(self.out.last(), None | Some(b'{' | b'[' | b':')) {
            self.out.push(b',');
        }
    }

    fn key(&mut self, key: &str) {
        self.separate();
        // A string has no value that fails.
        self.out.extend_from_slice(serde_json::to_string(key).unwrap_or_default().as_bytes());
        self.out.push(b':');
    }

    /// Writes a member that is an object, with `write` for its members.
    pub fn object(&mut self, key: &str, write: impl FnOnce(&mut JsonBuilder)) {
        self.key(key);
        self.item(write);
    }

    /// Writes a member that is an array, with `write` for its items.
    pub fn array(&mut self, key: &str, write: impl FnOnce(&mut JsonBuilder)) {
        self.key(key);
        self.out.push(b'[');
        write(self);
        self.out.push(b']');
    }

    /// Writes an object that is an item, or the whole text.
    pub fn item(&mut self, write: impl FnOnce(&mut JsonBuilder)) {
        self.separate();
        self.out.push(b'{');
        write(self);
        self.out.push(b'}');
    }

    /// Begins an object that is an item, for [`JsonBuilder::close_item`].
    pub fn open_item(&mut self) {
        self.separate();
        self.out.push(b'{');
    }

    /// Begins an array in the object that was begun last.
    pub fn open_array(&mut self, key: &str) {
        self.key(key);
        self.out.push(b'[');
    }

    /// Ends the array that was begun last.
    pub fn close_array(&mut self) {
        self.out.push(b']');
    }

    /// Ends the object that was begun last.
    pub fn close_item(&mut self) {
        self.out.push(b'}');
    }

    /// Ends the array and the object that were begun last.
    pub fn close_nested(&mut self) {
        self.close_array();
        self.close_item();
    }

    pub fn string(&mut self, key: &str, value: &str) {
        self.key(key);
        // A string has no value that fails.
        self.out.extend_from_slice(serde_json::to_string(value).unwrap_or_default().as_bytes());
    }

    /// Writes an array of strings.
    pub fn string_array(&mut self, key: &str, values: &[String]) {
        self.array(key, |json| {
            for value in values {
                json.separate();
                json.out.extend_from_slice(serde_json::to_string(value).unwrap_or_default().as_bytes());
            }
        });
    }

    /// Writes an item of an array that is a value of the source, unchanged.
    pub fn raw_item(&mut self, value: &[u8]) {
        self.separate();
        self.out.extend_from_slice(value);
    }

    /// Returns the number of bytes that are written.
    pub fn byte_count(&self) -> usize {
        self.out.len()
    }

    /// Writes a string unless it is empty.
    pub fn some_string(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.string(key, value);
        }
    }

    /// Writes a string of the source with the escapes that it has there, unless it is absent.
    pub fn text(&mut self, key: &str, value: Option<Text<'_>>) {
        if let Some(value) = value {
            self.key(key);
            self.out.push(b'"');
            self.out.extend_from_slice(value.raw());
            self.out.push(b'"');
        }
    }

    pub fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        self.out.extend_from_slice(value.to_string().as_bytes());
    }

    /// Writes a number with a fraction: readers take it for one that is not exact.
    pub fn imprecise_number(&mut self, key: &str, value: u64) {
        self.number(key, value);
        self.out.extend_from_slice(b".0");
    }

    pub fn flag(&mut self, key: &str, value: bool) {
        self.key(key);
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// Writes a value of the source, unchanged.
    pub fn value(&mut self, key: &str, value: &[u8]) {
        self.key(key);
        self.out.extend_from_slice(value);
    }
}

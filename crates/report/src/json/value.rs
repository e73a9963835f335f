//! Values of a report that was read, looked up by key. For all parts that symbolication does not need:
//! each look-up scans the object again.

use super::members::parse_uuid;
use super::{JsonScanner, Stop};
use crate::{Number, ReadError, ReadLimits, Text};

/// The maximum number of elements read from an array: in memory, each takes many times the two bytes that it may
/// take in the report.
const MOST_ITEMS: usize = 1 << 19;

/// The maximum size of a text with a number, in bytes.
const MOST_NUMBER_BYTES: usize = 40;

/// A value within bytes that have passed the scanner.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> JsonScanner<'a> {
    /// Returns the value at the current position.
    pub(crate) fn current_value(&self) -> Value<'a> {
        Value::from_offset(self.input(), self.pos())
    }
}

impl<'a> Value<'a> {
    /// Returns the value that begins at `at`.
    pub(crate) fn from_offset(input: &'a [u8], at: usize) -> Value<'a> {
        Value { input, at }
    }

    /// Returns a scanner at the value.
    pub(crate) fn scanner(self) -> JsonScanner<'a> {
        JsonScanner::from_position(self.input, self.at, usize::MAX)
    }

    /// Reads the JSON value of a document at the offset `from`, or after the white space there. Returns the value and the
    /// offset of its end. What follows is not read.
    ///
    /// # Errors
    /// Returns [`ReadError`] if the document is too large or nests too deep, or if there is no JSON value.
    pub fn read(
        document: &'a [u8],
        from: usize,
        limits: &ReadLimits,
    ) -> Result<(Value<'a>, usize), ReadError> {
        if document.len() > limits.max_bytes {
            return Err(ReadError::TooLarge { bytes: document.len(), limit: limits.max_bytes });
        }
        let mut scanner = JsonScanner::from_position(document, from, limits.max_depth);
        scanner.skip_whitespace();
        let value = scanner.current_value();
        scanner.skip_value()?;
        Ok((value, scanner.pos()))
    }

    /// Returns the document that the value is in.
    #[must_use]
    pub fn document(self) -> &'a [u8] {
        self.input
    }

    /// Returns the offset of the value in its document.
    #[must_use]
    pub fn offset(self) -> usize {
        self.at
    }

    fn first_byte(self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    /// Returns true for null.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.first_byte() == Some(b'n')
    }

    /// Returns true for an object.
    #[must_use]
    pub fn is_object(self) -> bool {
        self.first_byte() == Some(b'{')
    }

    /// Returns true for an object or an array.
    #[must_use]
    pub fn is_container(self) -> bool {
        matches!(self.first_byte(), Some(b'{' | b'['))
    }

    /// Returns the last member of an object with this name.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Value<'a>> {
        let mut found = None;
        self.each_member(|name, value| {
            if name == key.as_bytes() {
                found = Some(value);
            }
        });
        found
    }

    /// Returns the last member of an object for each of these names, in one pass.
    #[must_use]
    pub fn find_members<const N: usize>(self, keys: [&str; N]) -> [Option<Value<'a>>; N] {
        let mut found = [None; N];
        self.each_member(|name, value| {
            if let Some(place) = keys.iter().position(|key| key.as_bytes() == name) {
                found[place] = Some(value);
            }
        });
        found
    }

    /// Returns the value at the end of a path of keys.
    #[must_use]
    pub fn find_path(self, keys: &[&str]) -> Option<Value<'a>> {
        keys.iter().try_fold(self, |value, key| value.get(key))
    }

    /// Calls `each` with the members of an object, in their order.
    pub fn each_member(self, mut each: impl FnMut(&[u8], Value<'a>)) {
        if !self.is_object() {
            return;
        }
        let input = self.input;
        // The bytes have passed the scanner, so there can be no error.
        let _: Result<_, Stop> = self.scanner().read_members(|s, member| {
            each(&member.key, Value::from_offset(input, s.pos()));
            s.skip_value()
        });
    }

    /// Calls `each` with the elements of an array, in their order.
    pub fn each_item(self, mut each: impl FnMut(Value<'a>)) {
        if self.first_byte() == Some(b'[') {
            let _: Result<_, Stop> = self.scanner().read_elements(|s, _| {
                each(s.current_value());
                s.skip_value()
            });
        }
    }

    /// Returns the first element of an array.
    #[must_use]
    pub fn first_item(self) -> Option<Value<'a>> {
        let mut first = None;
        self.each_item(|item| first = first.or(Some(item)));
        first
    }

    /// Returns the elements of an array, at most half a million. Returns none for any other value.
    #[must_use]
    pub fn items(self) -> Vec<Value<'a>> {
        let mut items = Vec::new();
        if self.first_byte() == Some(b'[') {
            let _: Result<_, Stop> = self.scanner().read_elements(|s, _| {
                if items.len() == MOST_ITEMS {
                    return Err(ReadError::TooMany { limit: MOST_ITEMS }.into());
                }
                items.push(Value::from_offset(self.input, s.pos()));
                s.skip_value()
            });
        }
        items
    }

    /// Returns a string without decoding it.
    #[must_use]
    pub fn as_text(self) -> Option<Text<'a>> {
        if self.first_byte() != Some(b'"') {
            return None;
        }
        Some(Text(self.scanner().read_string().ok()?.0))
    }

    /// Returns a decoded string.
    #[must_use]
    pub fn decode_string(self) -> Option<String> {
        Some(self.as_text()?.decode().into_owned())
    }

    /// Returns a number.
    #[must_use]
    pub fn as_number(self) -> Option<Number> {
        if !matches!(self.first_byte(), Some(b'-' | b'0'..=b'9')) {
            return None;
        }
        Some(self.scanner().read_number().ok()?.to_number())
    }

    /// Returns an unsigned 64-bit integer, also one that is written with a fraction of zero, such as `12.0`.
    #[must_use]
    pub fn as_unsigned(self) -> Option<u64> {
        self.as_number()?.to_unsigned()
    }

    /// Returns an unsigned 32-bit integer.
    #[must_use]
    pub fn unsigned_32(self) -> Option<u32> {
        self.as_unsigned().and_then(|number| u32::try_from(number).ok())
    }

    /// Returns a number, or the number in a decimal text. Returns `None` if it is not finite.
    #[must_use]
    pub fn as_decimal(self) -> Option<f64> {
        let number = match self.as_number() {
            Some(Number::Float(number)) => number,
            Some(Number::Int { magnitude, negative }) => {
                let magnitude = magnitude as f64;
                if negative { -magnitude } else { magnitude }
            }
            None => self.number_text()?.parse().ok()?,
        };
        number.is_finite().then_some(number)
    }

    /// Returns an unsigned 64-bit integer, or the one in a decimal text, also such as `12.0`.
    #[must_use]
    pub fn decimal_unsigned(self) -> Option<u64> {
        let text = || self.number_text()?.parse().ok();
        self.as_unsigned().or_else(text).or_else(|| Number::Float(self.as_decimal()?).to_unsigned())
    }

    /// Returns a text that is short enough for a number, without the white space around it.
    fn number_text(self) -> Option<String> {
        let text = self.as_text().filter(|text| text.raw().len() <= MOST_NUMBER_BYTES)?.decode();
        let text = text.trim();
        // Rust reads `inf` and `NaN`, too.
        text.ends_with(|c: char| c.is_ascii_digit() || c == '.').then(|| text.to_owned())
    }

    /// Returns a boolean.
    #[must_use]
    pub fn as_boolean(self) -> Option<bool> {
        match self.first_byte() {
            Some(b't') => Some(true),
            Some(b'f') => Some(false),
            _ => None,
        }
    }

    /// Returns the bytes of a UUID.
    #[must_use]
    pub fn as_uuid(self) -> Option<[u8; 16]> {
        parse_uuid(self.as_text()?)
    }

    /// Returns the bytes of the value itself.
    #[must_use]
    pub fn raw_bytes(self) -> &'a [u8] {
        let mut s = self.scanner();
        match s.skip_value() {
            Ok(()) => self.input.get(self.at..s.pos()).unwrap_or_default(),
            Err(_) => &[],
        }
    }
}

//! Values of a report that was read, looked up by key. For all parts that symbolication does not need:
//! each look-up scans the object again.

use super::members::uuid;
use super::{JsonScanner, Stop};
use crate::{Number, ReadError, Text};

/// The maximum number of elements read from an array: in memory, each takes many times the two bytes that it may
/// take in the report.
const MOST_ITEMS: usize = 1 << 19;

/// The maximum size of a text with a number, in bytes.
const MOST_NUMBER_BYTES: usize = 40;
/// Integers up to this one are exact in a double.
const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;

/// A value within bytes that have passed the scanner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> JsonScanner<'a> {
    /// Returns the value at the current position.
    pub(crate) fn value(&self) -> Value<'a> {
        Value::at(self.input(), self.pos())
    }
}

impl<'a> Value<'a> {
    /// Returns the value that begins at `at`.
    pub(crate) fn at(input: &'a [u8], at: usize) -> Value<'a> {
        Value { input, at }
    }

    /// Returns a scanner at the value.
    pub(crate) fn scanner(self) -> JsonScanner<'a> {
        JsonScanner::at(self.input, self.at, usize::MAX)
    }

    fn first(self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    /// Returns true for null.
    pub(crate) fn is_null(self) -> bool {
        self.first() == Some(b'n')
    }

    /// Returns true for an object.
    pub(crate) fn is_object(self) -> bool {
        self.first() == Some(b'{')
    }

    /// Returns true for an object or an array.
    pub(crate) fn is_container(self) -> bool {
        matches!(self.first(), Some(b'{' | b'['))
    }

    /// Returns the last member of an object with this name.
    pub(crate) fn get(self, key: &str) -> Option<Value<'a>> {
        let mut found = None;
        self.each(|name, value| {
            if name == key.as_bytes() {
                found = Some(value);
            }
        });
        found
    }

    /// Returns the last member of an object for each of these names, in one pass.
    pub(crate) fn members<const N: usize>(self, keys: [&str; N]) -> [Option<Value<'a>>; N] {
        let mut found = [None; N];
        self.each(|name, value| {
            if let Some(place) = keys.iter().position(|key| key.as_bytes() == name) {
                found[place] = Some(value);
            }
        });
        found
    }

    /// Returns the value at the end of a path of keys.
    pub(crate) fn path(self, keys: &[&str]) -> Option<Value<'a>> {
        keys.iter().try_fold(self, |value, key| value.get(key))
    }

    /// Calls `each` with the members of an object, in their order.
    pub(crate) fn each(self, mut each: impl FnMut(&[u8], Value<'a>)) {
        if !self.is_object() {
            return;
        }
        let input = self.input;
        // The bytes have passed the scanner, so there can be no error.
        let _: Result<_, Stop> = self.scanner().members(|s, member| {
            each(&member.key, Value::at(input, s.pos()));
            s.skip()
        });
    }

    /// Calls `each` with the elements of an array, in their order.
    pub(crate) fn each_item(self, mut each: impl FnMut(Value<'a>)) {
        if self.first() == Some(b'[') {
            let _: Result<_, Stop> = self.scanner().elements(|s, _| {
                each(s.value());
                s.skip()
            });
        }
    }

    /// Returns the elements of an array, at most half a million. Returns none for any other value.
    pub(crate) fn items(self) -> Vec<Value<'a>> {
        let mut items = Vec::new();
        if self.first() == Some(b'[') {
            let _: Result<_, Stop> = self.scanner().elements(|s, _| {
                if items.len() == MOST_ITEMS {
                    return Err(ReadError::TooMany { limit: MOST_ITEMS }.into());
                }
                items.push(Value::at(self.input, s.pos()));
                s.skip()
            });
        }
        items
    }

    /// Returns a string without decoding it.
    pub(crate) fn text(self) -> Option<Text<'a>> {
        if self.first() != Some(b'"') {
            return None;
        }
        Some(Text(self.scanner().string().ok()?.0))
    }

    /// Returns a decoded string.
    pub(crate) fn string(self) -> Option<String> {
        Some(self.text()?.decode().into_owned())
    }

    /// Returns a number.
    pub(crate) fn number(self) -> Option<Number> {
        if !matches!(self.first(), Some(b'-' | b'0'..=b'9')) {
            return None;
        }
        Some(self.scanner().number().ok()?.value())
    }

    /// Returns an unsigned 64-bit integer.
    pub(crate) fn unsigned(self) -> Option<u64> {
        match self.number()? {
            Number::Int { magnitude, negative: false } => Some(magnitude),
            _ => None,
        }
    }

    /// Returns an unsigned 32-bit integer.
    pub(crate) fn unsigned_32(self) -> Option<u32> {
        self.unsigned().and_then(|number| u32::try_from(number).ok())
    }

    /// Returns a number, or the number in a decimal text. Returns `None` if it is not finite.
    pub(crate) fn decimal(self) -> Option<f64> {
        let number = match self.number() {
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
    pub(crate) fn decimal_unsigned(self) -> Option<u64> {
        let text = || self.number_text()?.parse().ok();
        self.unsigned().or_else(text).or_else(|| exact_integer(self.decimal()?))
    }

    /// Returns a text that is short enough for a number, without the white space around it.
    fn number_text(self) -> Option<String> {
        let text = self.text().filter(|text| text.raw().len() <= MOST_NUMBER_BYTES)?.decode();
        let text = text.trim();
        // Rust reads `inf` and `NaN`, too.
        text.ends_with(|c: char| c.is_ascii_digit() || c == '.').then(|| text.to_owned())
    }

    /// Returns a boolean.
    pub(crate) fn boolean(self) -> Option<bool> {
        match self.first() {
            Some(b't') => Some(true),
            Some(b'f') => Some(false),
            _ => None,
        }
    }

    /// Returns the bytes of a UUID.
    pub(crate) fn uuid(self) -> Option<[u8; 16]> {
        uuid(self.text()?)
    }

    /// Returns the bytes of the value itself.
    pub(crate) fn raw(self) -> &'a [u8] {
        let mut s = self.scanner();
        match s.skip() {
            Ok(()) => self.input.get(self.at..s.pos()).unwrap_or_default(),
            Err(_) => &[],
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bounded, and without a fraction"
)]
fn exact_integer(number: f64) -> Option<u64> {
    ((0.0..=EXACT_INTEGERS).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

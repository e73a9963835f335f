//! Values of a report that was read, looked up by key. For everything that symbolication does not need:
//! each look-up scans the object again.

use super::members::uuid;
use super::{JsonScanner, Stop};
use crate::{Number, ReadError, Text};

/// The most elements of an array that are looked at: each takes many times the two bytes that it may
/// have.
const MOST_ITEMS: usize = 1 << 19;

/// The most bytes of a text with a number.
const MOST_NUMBER_BYTES: usize = 40;
/// Integers up to this one are exact in a double.
const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;

/// A value in bytes that have passed the scanner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> JsonScanner<'a> {
    /// The value at the current position.
    pub(crate) fn value(&self) -> Value<'a> {
        Value::at(self.input(), self.pos())
    }
}

impl<'a> Value<'a> {
    /// The value that begins at `at`.
    pub(crate) fn at(input: &'a [u8], at: usize) -> Value<'a> {
        Value { input, at }
    }

    /// A scanner at the value.
    pub(crate) fn scanner(self) -> JsonScanner<'a> {
        JsonScanner::at(self.input, self.at, usize::MAX)
    }

    fn first(self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    /// True for null.
    pub(crate) fn is_null(self) -> bool {
        self.first() == Some(b'n')
    }

    /// True for an object.
    pub(crate) fn is_object(self) -> bool {
        self.first() == Some(b'{')
    }

    /// True for an object or an array.
    pub(crate) fn is_container(self) -> bool {
        matches!(self.first(), Some(b'{' | b'['))
    }

    /// The member of an object; the last one of that name.
    pub(crate) fn get(self, key: &str) -> Option<Value<'a>> {
        let mut found = None;
        self.each(|name, value| {
            if name == key.as_bytes() {
                found = Some(value);
            }
        });
        found
    }

    /// The members of an object by these names, in one pass; of each the last one.
    pub(crate) fn members<const N: usize>(self, keys: [&str; N]) -> [Option<Value<'a>>; N] {
        let mut found = [None; N];
        self.each(|name, value| {
            if let Some(place) = keys.iter().position(|key| key.as_bytes() == name) {
                found[place] = Some(value);
            }
        });
        found
    }

    /// The value at the end of a path of keys.
    pub(crate) fn path(self, keys: &[&str]) -> Option<Value<'a>> {
        keys.iter().try_fold(self, |value, key| value.get(key))
    }

    /// Calls `each` with the members of an object, in their order.
    pub(crate) fn each(self, mut each: impl FnMut(&[u8], Value<'a>)) {
        if !self.is_object() {
            return;
        }
        let input = self.input;
        // The bytes have passed the scanner: there is no error to be had.
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

    /// The elements of an array, half a million at most; nothing for another value.
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

    /// A string, not decoded.
    pub(crate) fn text(self) -> Option<Text<'a>> {
        if self.first() != Some(b'"') {
            return None;
        }
        Some(Text(self.scanner().string().ok()?.0))
    }

    /// A string.
    pub(crate) fn string(self) -> Option<String> {
        Some(self.text()?.decode().into_owned())
    }

    /// A number.
    pub(crate) fn number(self) -> Option<Number> {
        if !matches!(self.first(), Some(b'-' | b'0'..=b'9')) {
            return None;
        }
        Some(self.scanner().number().ok()?.value())
    }

    /// An integer of 64 bits without sign.
    pub(crate) fn unsigned(self) -> Option<u64> {
        match self.number()? {
            Number::Int { magnitude, negative: false } => Some(magnitude),
            _ => None,
        }
    }

    /// An integer of 32 bits without sign.
    pub(crate) fn unsigned_32(self) -> Option<u32> {
        self.unsigned().and_then(|number| u32::try_from(number).ok())
    }

    /// Returns a number, or the number that a decimal text says; `None` if it is not finite.
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

    /// Returns an integer of 64 bits without sign, or the one that a decimal text says, also as `12.0`.
    pub(crate) fn decimal_unsigned(self) -> Option<u64> {
        let text = || self.number_text()?.parse().ok();
        self.unsigned().or_else(text).or_else(|| exact_integer(self.decimal()?))
    }

    /// Returns a text that is short enough to be a number, without white space around it.
    fn number_text(self) -> Option<String> {
        let text = self.text().filter(|text| text.raw().len() <= MOST_NUMBER_BYTES)?.decode();
        let text = text.trim();
        // Rust reads `inf` and `NaN`, too.
        text.ends_with(|c: char| c.is_ascii_digit() || c == '.').then(|| text.to_owned())
    }

    /// A boolean.
    pub(crate) fn boolean(self) -> Option<bool> {
        match self.first() {
            Some(b't') => Some(true),
            Some(b'f') => Some(false),
            _ => None,
        }
    }

    /// A UUID's bytes.
    pub(crate) fn uuid(self) -> Option<[u8; 16]> {
        uuid(self.text()?)
    }

    /// The bytes of the value itself.
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

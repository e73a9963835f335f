//! Strings and numbers, many bytes at a time.

use super::plain::{PlainRun, plain};
use super::{HIGH_BITS, JsonScanner, LOW_BITS, Stop};
use crate::json::text::{low_surrogate, parse_hex4};
use crate::{Number, WarningKind};

/// A number that was read.
pub(crate) struct Digits<'a> {
    raw: &'a [u8],
    negative: bool,
    float: bool,
    /// The value of an integer with at most nineteen digits.
    magnitude: u64,
}

impl Digits<'_> {
    /// Returns the number.
    #[inline(always)]
    pub(crate) fn to_number(&self) -> Number {
        let count = self.raw.len() - usize::from(self.negative);
        if !self.float && count < 20 {
            Number::Int { magnitude: self.magnitude, negative: self.negative }
        } else {
            self.to_unusual_number()
        }
    }

    /// Returns the value of any other number.
    #[inline(never)]
    fn to_unusual_number(&self) -> Number {
        let digits = &self.raw[usize::from(self.negative)..];
        let integer = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
        match integer {
            Some(magnitude) => Number::Int { magnitude, negative: self.negative },
            None => Number::Float(as_double(self.raw)),
        }
    }
}

impl<'a> JsonScanner<'a> {
    /// Reads a string at its opening quote. Returns the bytes between its quotes, and whether they contain
    /// an escape.
    #[inline(always)]
    pub(crate) fn read_string(&mut self) -> Result<(&'a [u8], bool), Stop> {
        let start = self.pos + 1;
        let PlainRun { stop, ascii } = plain(self.input, start);
        // Nearly every string is ASCII without escapes.
        if ascii && self.input.get(stop) == Some(&b'"') {
            self.pos = stop + 1;
            return Ok((&self.input[start..stop], false));
        }
        self.unusual_string(start)
    }

    #[inline(never)]
    fn unusual_string(&mut self, start: usize) -> Result<(&'a [u8], bool), Stop> {
        let mut pos = start;
        let mut all_ascii = true;
        let mut escaped = false;
        loop {
            let PlainRun { stop, ascii } = plain(self.input, pos);
            all_ascii &= ascii;
            match self.input.get(stop) {
                Some(b'"') => {
                    self.pos = stop + 1;
                    let raw = &self.input[start..stop];
                    if !all_ascii && std::str::from_utf8(raw).is_err() {
                        self.record_warning(WarningKind::InvalidUtf8, "", "", start);
                    }
                    return Ok((raw, escaped));
                }
                Some(b'\\') => {
                    escaped = true;
                    pos = self.scan_escape(stop)?;
                }
                Some(_) => return self.fail_at(stop, "no control character in a string"),
                None => return self.fail_at(stop, "the end of a string"),
            }
        }
    }

    /// Returns the offset after the escape at `at`.
    fn scan_escape(&mut self, at: usize) -> Result<usize, Stop> {
        match self.input.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') => {
                let digits = self.input.get(at + 2..).unwrap_or_default();
                let Some(unit) = parse_hex4(digits) else {
                    let good = digits.iter().take(4).take_while(|b| b.is_ascii_hexdigit()).count();
                    return self.fail_at(at + 2 + good, "a hexadecimal digit");
                };
                match unit {
                    0xD800..=0xDBFF if low_surrogate(&digits[4..]).is_some() => return Ok(at + 12),
                    0xD800..=0xDFFF => self.record_warning(WarningKind::LoneSurrogate, "", "", at),
                    _ => {}
                }
                Ok(at + 6)
            }
            _ => self.fail_at(at + 1, "an escape"),
        }
    }

    /// Reads an integer above 0 with at most nineteen digits. Leaves any other value in place.
    #[inline(always)]
    pub(crate) fn plain_digits(&mut self) -> Option<u64> {
        if !matches!(self.peek_byte(), Some(b'1'..=b'9')) {
            return None;
        }
        let (end, value) = self.scan_digits(self.pos);
        let is_plain = end - self.pos < 20 && !matches!(self.input.get(end), Some(b'.' | b'e' | b'E'));
        if is_plain {
            self.pos = end;
        }
        is_plain.then_some(value)
    }

    /// Reads a number.
    #[inline(always)]
    pub(crate) fn read_number(&mut self) -> Result<Digits<'a>, Stop> {
        let start = self.pos;
        let negative = self.peek_byte() == Some(b'-');
        let first = start + usize::from(negative);
        let (mut pos, magnitude) = match self.input.get(first) {
            Some(b'0') => (first + 1, 0),
            Some(b'1'..=b'9') => self.scan_digits(first),
            _ => return self.fail_at(first, "a digit"),
        };
        let float = matches!(self.input.get(pos), Some(b'.' | b'e' | b'E'));
        if float {
            pos = self.scan_fraction(start, pos)?;
        }
        self.pos = pos;
        let raw = &self.input[start..pos];
        // No double holds 310 digits.
        if !float && raw.len() > 309 && as_double(raw).is_infinite() {
            self.record_warning(WarningKind::NumberOverflow, "", "", start);
        }
        Ok(Digits { raw, negative, float, magnitude })
    }

    /// Returns the end of the digits from `from` on, and their value if there are at most nineteen.
    #[inline(always)]
    fn scan_digits(&self, from: usize) -> (usize, u64) {
        const POWERS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
        let mut pos = from;
        let mut sum: u64 = 0;
        while let Some(word) = self.read_word(pos) {
            let digits = word ^ (LOW_BITS * u64::from(b'0'));
            // Sets the high bit of each byte over 9. As in `plain_words`, only the lowest is reliable.
            let others = (digits.wrapping_add(LOW_BITS * 0x76) | digits) & HIGH_BITS;
            if others != 0 {
                let count = others.trailing_zeros() / 8;
                if count > 0 {
                    let aligned = digits << (64 - 8 * count);
                    sum = sum.wrapping_mul(POWERS[count as usize]).wrapping_add(eight_digits(aligned));
                }
                return (pos + count as usize, sum);
            }
            sum = sum.wrapping_mul(100_000_000).wrapping_add(eight_digits(digits));
            pos += 8;
        }
        while let Some(digit @ b'0'..=b'9') = self.input.get(pos) {
            sum = sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            pos += 1;
        }
        (pos, sum)
    }

    /// Returns the end of the number that began at `start` and has its fraction or exponent at `pos`.
    fn scan_fraction(&mut self, start: usize, mut pos: usize) -> Result<usize, Stop> {
        if self.input.get(pos) == Some(&b'.') {
            let end = self.scan_digits(pos + 1).0;
            if end == pos + 1 {
                return self.fail_at(end, "a digit");
            }
            pos = end;
        }
        if let Some(b'e' | b'E') = self.input.get(pos) {
            let sign = usize::from(matches!(self.input.get(pos + 1), Some(b'+' | b'-')));
            let end = self.scan_digits(pos + 1 + sign).0;
            if end == pos + 1 + sign {
                return self.fail_at(end, "a digit");
            }
            pos = end;
        }
        if as_double(&self.input[start..pos]).is_infinite() {
            self.record_warning(WarningKind::NumberOverflow, "", "", start);
        }
        Ok(pos)
    }
}

/// Returns the value of eight digits. The first digit is the lowest byte, and each byte is 0 to 9.
#[inline]
fn eight_digits(digits: u64) -> u64 {
    const EVERY_FOURTH: u64 = 0x0000_00ff_0000_00ff;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let first = (pairs & EVERY_FOURTH).wrapping_mul(100 + (1_000_000 << 32));
    let second = (pairs >> 16 & EVERY_FOURTH).wrapping_mul(1 + (10_000 << 32));
    first.wrapping_add(second) >> 32
}

/// Parses a valid JSON number as a double. Returns infinity if it is too large.
fn as_double(raw: &[u8]) -> f64 {
    std::str::from_utf8(raw).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

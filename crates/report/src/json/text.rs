//! Strings in a report.

use std::borrow::Cow;

/// A JSON string of the report: the bytes between its quotes, borrowed and not decoded.
///
/// The bytes have passed the scanner, so every escape is complete. They may still contain invalid
/// UTF-8 and lone surrogates, which decoding replaces with U+FFFD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Text<'a>(pub(crate) &'a [u8]);

impl<'a> Text<'a> {
    /// Wraps the bytes between the quotes of a JSON string from another source than a report.
    #[must_use]
    pub fn from_escaped(raw: &'a [u8]) -> Text<'a> {
        Text(raw)
    }

    /// Returns true for the empty text.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes between the quotes, with escapes. They can be put between other quotes.
    #[must_use]
    pub fn raw(self) -> &'a [u8] {
        self.0
    }

    /// Returns the decoded text. Copies only if it has an escape or invalid UTF-8.
    #[must_use]
    pub fn decode(self) -> Cow<'a, str> {
        if memchr::memchr(b'\\', self.0).is_none() {
            return String::from_utf8_lossy(self.0);
        }
        Cow::Owned(unescape_json(self.0))
    }

    /// Returns true if the decoded text is `other`. Does not copy if nothing is escaped.
    #[must_use]
    pub fn is(self, other: &str) -> bool {
        if memchr::memchr(b'\\', self.0).is_none() {
            self.0 == other.as_bytes()
        } else {
            self.decode() == other
        }
    }
}

fn unescape_json(raw: &[u8]) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.push_str(&String::from_utf8_lossy(&rest[..at]));
        rest = &rest[at + 1..];
        let Some((&kind, after)) = rest.split_first() else { return out };
        rest = after;
        match kind {
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let unit = parse_hex4(rest).unwrap_or(0xFFFD);
                rest = rest.get(4..).unwrap_or_default();
                out.push(
                    match (unit, low_surrogate(rest)) {
                        (0xD800..=0xDBFF, Some(low)) => {
                            rest = &rest[6..];
                            char::from_u32(0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
                        }
                        _ => char::from_u32(unit),
                    }
                    .unwrap_or(char::REPLACEMENT_CHARACTER),
                );
            }
            other => out.push(char::from(other)),
        }
    }
    out.push_str(&String::from_utf8_lossy(rest));
    out
}

/// Reads the four hexadecimal digits at the beginning of `bytes`.
pub(crate) fn parse_hex4(bytes: &[u8]) -> Option<u32> {
    bytes.get(..4)?.iter().try_fold(0, |value, b| Some(value << 4 | char::from(*b).to_digit(16)?))
}

/// Reads the low surrogate of an escape at the beginning of `bytes`.
pub(crate) fn low_surrogate(bytes: &[u8]) -> Option<u32> {
    let unit = parse_hex4(bytes.strip_prefix(b"\\u")?)?;
    (0xDC00..=0xDFFF).contains(&unit).then_some(unit)
}

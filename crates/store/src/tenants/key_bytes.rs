//! The bytes of a key's text, for forms of keys that clients of other products expect.

use crate::tenants::keys::{KEY_DIGITS, PREFIX_BYTES, encode_digits, split_key};

/// The random bytes of a key: its prefix and its secret.
pub const KEY_BYTES: usize = 30;
/// Bits of each digit.
const DIGIT_BITS: u32 = 5;

/// Returns the text of a key with these bytes.
#[must_use]
pub fn key_text(bytes: &[u8; KEY_BYTES]) -> String {
    let (prefix, secret) = bytes.split_at(PREFIX_BYTES);
    format!("unslide_{}_{}", encode_digits(prefix), encode_digits(secret))
}

/// Returns the bytes of a key's text, or None if it has another form.
#[must_use]
pub fn key_bytes(text: &str) -> Option<[u8; KEY_BYTES]> {
    let (prefix, secret) = split_key(text)?;
    let (mut bytes, mut bits, mut number) = (Vec::new(), 0, 0_u32);
    for digit in prefix.bytes().chain(secret.bytes()) {
        let value = KEY_DIGITS.iter().position(|known| *known == digit)?;
        number = number << DIGIT_BITS | u32::try_from(value).ok()?;
        bits += DIGIT_BITS;
        if bits >= u8::BITS {
            bits -= u8::BITS;
            bytes.push(u8::try_from(number >> bits & 0xff).ok()?);
            number &= (1 << bits) - 1;
        }
    }
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_bytes() {
        for bytes in [[0; KEY_BYTES], [255; KEY_BYTES], std::array::from_fn(|n| (n * 37 % 251) as u8)] {
            assert_eq!(key_bytes(&key_text(&bytes)), Some(bytes));
        }
        for other in ["", "unslide_a_b", "usp_00000000000000000000000000"] {
            assert_eq!(key_bytes(other), None, "{other}");
        }
    }
}

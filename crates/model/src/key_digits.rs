//! The digits of keys' texts: five bits each, none that look alike.

const DIGITS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Bits of each digit.
const DIGIT_BITS: u32 = 5;

/// Returns bytes as digits. The bits beyond the last whole digit are left out.
#[must_use]
pub fn encode_digits(bytes: &[u8]) -> String {
    encode_with(DIGITS, bytes)
}

/// Returns bytes as other digits of five bits each, as [`encode_digits`] does.
#[must_use]
pub fn encode_with(digits: &[u8; 32], bytes: &[u8]) -> String {
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    bits.chunks_exact(5)
        .map(|five| char::from(digits[usize::from(five.iter().fold(0, |n, bit| n << 1 | bit))]))
        .collect()
}

/// Returns the whole bytes that digits have. Returns None if a character is no digit.
#[must_use]
pub fn decode_digits(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut number) = (Vec::new(), 0, 0_u32);
    for digit in text.bytes() {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        number = number << DIGIT_BITS | u32::try_from(value).ok()?;
        bits += DIGIT_BITS;
        if bits >= u8::BITS {
            bits -= u8::BITS;
            bytes.push(u8::try_from(number >> bits & 0xff).ok()?);
            number &= (1 << bits) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_back() {
        for bytes in [[0; 30], [255; 30], std::array::from_fn(|n| u8::try_from(n * 37 % 251).unwrap())] {
            let text = encode_digits(&bytes);
            assert_eq!((text.len(), decode_digits(&text)), (48, Some(bytes.to_vec())));
        }
        assert_eq!(decode_digits("a0"), None);
    }
}

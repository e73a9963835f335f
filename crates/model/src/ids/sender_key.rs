//! Ids of public keys, with which apps send their reports.

use std::fmt;

/// Id of a public key: 8 hexadecimal digits in lower case. It names the key wherever the key itself must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderKeyId(u32);

impl SenderKeyId {
    /// Reads an id. Returns None if the text is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<SenderKeyId> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 8 && text.bytes().all(is_digit)).then_some(())?;
        u32::from_str_radix(text, 16).ok().map(SenderKeyId)
    }
}

impl fmt::Display for SenderKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_eight_digits_in_lower_case() {
        assert_eq!(SenderKeyId::parse("0a1b2c3d").unwrap().to_string(), "0a1b2c3d");
        for wrong in ["", "0a1b2c3", "0a1b2c3d4", "0A1B2C3D", "+a1b2c3d", "0a1b2c3g", "usp_0000"] {
            assert_eq!(SenderKeyId::parse(wrong), None, "{wrong}");
        }
    }
}

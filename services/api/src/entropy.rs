//! The source of randomness for secrets. It is passed in so that no code uses another source.

#![expect(clippy::disallowed_types, reason = "the one place where the operating system is asked for secrets")]

use rand::TryRng;
use rand::rngs::{SysError, SysRng};

/// Returns the text of a token: hexadecimal digits.
#[must_use]
pub fn write_token(token: &[u8; 32]) -> String {
    token.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the text of a token. Returns None for any other text.
#[must_use]
pub fn read_token(text: &str) -> Option<[u8; 32]> {
    let mut token = [0; 32];
    if text.len() != 2 * token.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in token.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(token)
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Entropy(SysRng);

impl Entropy {
    /// Returns 256 random bits for the cookie of a session or the link in a mail.
    ///
    /// # Errors
    /// The operating system has no random bytes.
    pub fn generate_token(mut self) -> Result<[u8; 32], SysError> {
        let mut bytes = [0; 32];
        self.0.try_fill_bytes(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns thirty random bytes for a new API key.
    ///
    /// # Errors
    /// The operating system has no random bytes.
    pub fn generate_key(mut self) -> Result<[u8; 30], SysError> {
        let mut bytes = [0; 30];
        self.0.try_fill_bytes(&mut bytes)?;
        Ok(bytes)
    }
}

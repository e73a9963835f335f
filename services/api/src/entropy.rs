//! Where the randomness of secrets comes from, passed in so that nothing takes another source.

#![expect(clippy::disallowed_types, reason = "the one place where the operating system is asked for secrets")]

use rand::TryRng;
use rand::rngs::{SysError, SysRng};

/// The operating system's generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entropy(SysRng);

impl Entropy {
    /// What the cookie of a session of the console holds.
    ///
    /// # Errors
    /// Where the operating system has none to give.
    pub fn session(mut self) -> Result<[u8; 32], SysError> {
        let mut bytes = [0; 32];
        self.0.try_fill_bytes(&mut bytes)?;
        Ok(bytes)
    }

    /// Thirty random bytes, as a new API key needs them.
    ///
    /// # Errors
    /// Where the operating system has none to give.
    pub fn key(mut self) -> Result<[u8; 30], SysError> {
        let mut bytes = [0; 30];
        self.0.try_fill_bytes(&mut bytes)?;
        Ok(bytes)
    }
}

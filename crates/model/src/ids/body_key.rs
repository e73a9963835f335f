//! The key of a stored body.

use std::fmt;

/// The key that encrypts one stored body. `Debug` hides it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BodyKey(pub [u8; 32]);

impl fmt::Debug for BodyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyKey(…)")
    }
}

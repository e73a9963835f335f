//! Marks: texts in the place of those that rules took.

use crate::config::ScrubAction;
use regex::{Regex, RegexBuilder};
use ring::hmac;
use std::fmt;

/// The name in marks of values of own keys.
pub const KEY_NAME: &str = "key";
/// Bytes of a hash that a mark shows.
const SHOWN_HASH_BYTES: usize = 8;

/// The salt of a tenant: without it no one can compute the hash of a guessed value.
#[derive(Clone)]
pub struct ScrubSalt(hmac::Key);

impl fmt::Debug for ScrubSalt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScrubSalt(..)")
    }
}

impl ScrubSalt {
    /// Makes the salt of these bytes.
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> ScrubSalt {
        ScrubSalt(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Returns the replacement of a value that a rule of this name takes. The name is no part of what is hashed, so a value has
    /// one hash whichever rule takes it.
    pub fn replace_value(&self, name: &str, action: ScrubAction, value: &str) -> String {
        match action {
            ScrubAction::Mask => mask(name),
            ScrubAction::Drop => String::new(),
            ScrubAction::Hash => {
                let tag = hmac::sign(&self.0, value.as_bytes());
                let shown = tag.as_ref().iter().take(SHOWN_HASH_BYTES).map(|byte| format!("{byte:02x}"));
                format!("[scrubbed:{name}:{}]", shown.collect::<String>())
            }
        }
    }
}

/// Returns the mark of a rule without a hash.
pub fn mask(name: &str) -> String {
    format!("[scrubbed:{name}]")
}

/// Compiles the expression that finds marks of rules with these names, which are of `a-z`, `0-9` and `_`.
pub fn compile_marks<'n>(names: impl Iterator<Item = &'n str>) -> Result<Regex, regex::Error> {
    let names = names.chain([KEY_NAME]).collect::<Vec<_>>().join("|");
    RegexBuilder::new(&format!(r"\[scrubbed:(?:{names})(?::[0-9a-f]{{16}})?\]")).build()
}

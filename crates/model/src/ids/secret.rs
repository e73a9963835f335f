//! A text that never reaches a log.

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// A password or secret key. Shown as `***`; [`Secret::reveal`] is the one way to its text.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for the one call that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// True for the empty text, which stands for "not set".
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// As `***`, and an empty one as the empty text: settings are shown, their secrets are not.
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.is_empty() { "" } else { "***" })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

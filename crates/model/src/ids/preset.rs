//! Presets: named sets of scopes for the usual purposes of a key.

use crate::{IdError, Scope};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The purpose of a key, which decides its scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyPreset {
    /// A build pipeline.
    Pipeline,
    /// One app on devices.
    App,
    /// A server that passes on what apps send.
    Gateway,
    /// A person or dashboard that looks.
    Reader,
    /// A person who also works on groups.
    Triager,
}

impl KeyPreset {
    /// Every preset.
    pub const ALL: [KeyPreset; 5] =
        [KeyPreset::Pipeline, KeyPreset::App, KeyPreset::Gateway, KeyPreset::Reader, KeyPreset::Triager];

    /// Returns the preset's name, such as `pipeline`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            KeyPreset::Pipeline => "pipeline",
            KeyPreset::App => "app",
            KeyPreset::Gateway => "gateway",
            KeyPreset::Reader => "reader",
            KeyPreset::Triager => "triager",
        }
    }

    /// Returns the scopes of a key with this preset.
    #[must_use]
    pub fn scopes(self) -> &'static [Scope] {
        match self {
            KeyPreset::Pipeline => &[Scope::SymbolsWrite, Scope::SymbolsRead],
            KeyPreset::App | KeyPreset::Gateway => &[Scope::ReportsWrite],
            KeyPreset::Reader => &[Scope::SymbolsRead, Scope::ReportsRead],
            KeyPreset::Triager => &[Scope::SymbolsRead, Scope::ReportsRead, Scope::GroupsWrite],
        }
    }

    /// Returns one line that says what such a key may do.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            KeyPreset::Pipeline => "Uploads and deletes symbols, and sees which ones are missing.",
            KeyPreset::App => "Sends reports, and all else that one app measures, and reads nothing.",
            KeyPreset::Gateway => "Sends reports, and all else that apps measure, and reads nothing.",
            KeyPreset::Reader => {
                "Sees reports, groups, symbols, and all else that apps sent, and changes nothing."
            }
            KeyPreset::Triager => {
                "Sees what a reader sees, and also resolves, ignores, assigns, comments on, merges and splits groups."
            }
        }
    }

    /// Returns true if a key with this preset has to be for one app.
    #[must_use]
    pub fn needs_app(self) -> bool {
        self == KeyPreset::App
    }
}

impl fmt::Display for KeyPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for KeyPreset {
    type Err = IdError;
    fn from_str(s: &str) -> Result<KeyPreset, IdError> {
        KeyPreset::ALL
            .into_iter()
            .find(|preset| preset.as_str() == s)
            .ok_or_else(|| IdError::Preset(KeyPreset::ALL.map(KeyPreset::as_str).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_found_by_its_name_and_never_administers() {
        for preset in KeyPreset::ALL {
            assert_eq!(preset.as_str().parse::<KeyPreset>(), Ok(preset));
            for scope in [Scope::TenantAdmin, Scope::Operator] {
                assert!(!preset.scopes().contains(&scope), "{preset}");
            }
        }
        let refused = "root".parse::<KeyPreset>().unwrap_err().to_string();
        assert!(refused.contains("pipeline, app, gateway, reader, triager"), "{refused}");
    }
}

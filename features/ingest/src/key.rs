//! The kind of public keys, and the apps that a key covers.

use serde::{Deserialize, Serialize};
use unslide_api::feature::path_keys::{PathKey, PathKeyKind};
use utoipa::ToSchema;

/// The most bytes of a bundle identifier.
const MAX_APP_BYTES: usize = 255;
/// The most apps of a key.
pub const MAX_APPS: usize = 20;

/// The kind of public keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PublicKeyKind;

impl PathKeyKind for PublicKeyKind {
    /// Secret scanners may take it for public.
    const KEY_PREFIX: &'static str = "usp_";
}

/// The text of a public key.
pub type KeyText = PathKey<PublicKeyKind>;

/// An app that a key covers: a bundle identifier, or `prefix.*` for all below it, such as extensions.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(transparent)]
pub struct AppPattern(pub String);

impl AppPattern {
    /// Returns why this is no pattern, if it is none.
    #[must_use]
    pub fn find_problem(&self) -> Option<&'static str> {
        let exact = self.0.strip_suffix(".*");
        let name = exact.unwrap_or(&self.0);
        let is_name = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if self.0.len() > MAX_APP_BYTES {
            Some("at most 255 bytes")
        } else if !name.split('.').all(is_name) {
            Some("a bundle identifier such as com.example.shop, or com.example.shop.* for all below it")
        } else if exact.is_some() && !name.contains('.') {
            Some("a pattern needs at least two parts before .*")
        } else {
            None
        }
    }

    /// Returns true if the pattern covers an app.
    #[must_use]
    pub fn covers(&self, app: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(prefix) => app.len() > prefix.len() && app.starts_with(prefix),
            None => app == self.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_apps_below_its_prefix_only() {
        let covers = |pattern: &str, app: &str| AppPattern(pattern.to_owned()).covers(app);
        assert!(covers("com.example.shop", "com.example.shop"));
        assert!(!covers("com.example.shop", "com.example.shop.watch"));
        assert!(covers("com.example.shop.*", "com.example.shop.watch"));
        assert!(!covers("com.example.shop.*", "com.example.shop"));
        assert!(!covers("com.example.shop.*", "com.example.shop."));
        assert!(!covers("com.example.shop.*", "com.example.shopping.watch"));
        for (pattern, is_right) in [
            ("com.example.shop", true),
            ("shop", true),
            ("com.example.*", true),
            ("com.*", false),
            ("*", false),
            ("com.*.shop", false),
            ("com..shop", false),
            ("com.example shop", false),
            ("", false),
        ] {
            assert_eq!(AppPattern(pattern.to_owned()).find_problem().is_none(), is_right, "{pattern}");
        }
    }
}

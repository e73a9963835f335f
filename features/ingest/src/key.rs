//! The text of a public key, and the apps that it covers.
//!
//! The text is `usp_`, 22 random digits (110 bits) and 4 digits of checksum, all in Crockford's base32. The checksum refuses
//! a typo, a URL that was cut and a scanner's guess without a look-up.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use utoipa::ToSchema;

/// The beginning of every text. Secret scanners may take it for public.
pub const PREFIX: &str = "usp_";
/// Crockford's base32, in lower case.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const BITS_PER_DIGIT: usize = 5;
const RANDOM_DIGITS: usize = 22;
const CHECK_DIGITS: usize = 4;

/// Random bytes that a new key needs.
pub const RANDOM_BYTES: usize = (RANDOM_DIGITS * BITS_PER_DIGIT).div_ceil(8);

/// The most bytes of a bundle identifier.
const MAX_APP_BYTES: usize = 255;
/// The most apps of a key.
pub const MAX_APPS: usize = 20;

/// The text of a public key with a correct checksum. Its debug form hides it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyText(String);

impl KeyText {
    /// Makes a text of bytes from the operating system's generator.
    #[must_use]
    pub fn from_random(random: &[u8; RANDOM_BYTES]) -> KeyText {
        let random = write_digits(random, RANDOM_DIGITS);
        let check = check_digits(&random);
        KeyText(format!("{PREFIX}{random}{check}"))
    }

    /// Reads a text. Returns None if it has another form or the checksum is wrong.
    #[must_use]
    pub fn parse(text: &str) -> Option<KeyText> {
        let rest = text.strip_prefix(PREFIX)?;
        if rest.len() != RANDOM_DIGITS + CHECK_DIGITS || !rest.bytes().all(|byte| DIGITS.contains(&byte)) {
            return None;
        }
        let (random, check) = rest.split_at(RANDOM_DIGITS);
        (check_digits(random) == check).then(|| KeyText(text.to_owned()))
    }

    /// Returns the text, for the row of the key and for its administrators.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the id that names the key in logs, lists and dead letters: 8 hexadecimal digits of its SHA-256.
    #[must_use]
    pub fn id(&self) -> String {
        Sha256::digest(self.0.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyText({})", self.id())
    }
}

fn write_digits(bytes: &[u8], number: usize) -> String {
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let digit = |five: &[u8]| DIGITS[usize::from(five.iter().fold(0, |value, bit| value << 1 | bit))];
    bits.chunks_exact(BITS_PER_DIGIT).take(number).map(|five| char::from(digit(five))).collect()
}

fn check_digits(random: &str) -> String {
    write_digits(&Sha256::digest(random.as_bytes()), CHECK_DIGITS)
}

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
    fn a_text_with_any_changed_digit_is_no_key() {
        let key = KeyText::from_random(&[0xa7; RANDOM_BYTES]);
        let text = key.reveal();
        assert_eq!((text.len(), key.id().len()), (30, 8));
        assert_eq!(KeyText::parse(text).as_ref(), Some(&key));
        assert!(!format!("{key:?}").contains(text));
        for at in PREFIX.len()..text.len() {
            let mut changed = text.as_bytes().to_vec();
            changed[at] = if changed[at] == b'7' { b'8' } else { b'7' };
            assert_eq!(KeyText::parse(std::str::from_utf8(&changed).unwrap()), None, "digit {at}");
        }
        for wrong in
            ["", "usp_", &text.to_uppercase(), &text.replace("usp_", "unslide_"), &format!("{text}0")]
        {
            assert_eq!(KeyText::parse(wrong), None, "{wrong}");
        }
    }

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

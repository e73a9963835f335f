//! The text of a key in a path.
//!
//! The text is a prefix, 22 random digits (110 bits) and 4 digits of checksum, all in Crockford's base32. The checksum
//! refuses a typo, a URL that was cut and a scanner's guess without a look-up.

use crate::entropy::Entropy;
use sha2::{Digest, Sha256};
use std::error::Error;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

/// Crockford's base32, in lower case.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const BITS_PER_DIGIT: usize = 5;
const RANDOM_DIGITS: usize = 22;
const CHECK_DIGITS: usize = 4;

/// Random bytes that a new key needs.
pub const RANDOM_BYTES: usize = (RANDOM_DIGITS * BITS_PER_DIGIT).div_ceil(8);

/// A kind of keys in paths, as a type.
pub trait PathKeyKind: Clone + Eq + Hash + Send + Sync + 'static {
    /// The beginning of every text of this kind, by which secret scanners know it.
    const KEY_PREFIX: &'static str;
}

/// The text of a key with a correct checksum. Its debug form hides it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PathKey<K> {
    text: String,
    kind: PhantomData<K>,
}

impl<K: PathKeyKind> PathKey<K> {
    /// Makes a text of bytes from the operating system's generator.
    #[must_use]
    pub fn from_random(random: &[u8; RANDOM_BYTES]) -> PathKey<K> {
        let random = write_digits(random, RANDOM_DIGITS);
        let check = check_digits(&random);
        PathKey { text: format!("{}{random}{check}", K::KEY_PREFIX), kind: PhantomData }
    }

    /// Makes the text of a new key.
    ///
    /// # Errors
    /// The operating system has no random bytes.
    pub fn generate() -> Result<PathKey<K>, Box<dyn Error + Send + Sync>> {
        let random = Entropy::default().generate_token()?;
        let first = random.first_chunk::<RANDOM_BYTES>().ok_or("a token is too short")?;
        Ok(PathKey::from_random(first))
    }

    /// Reads a text. Returns None if it has another form or the checksum is wrong.
    #[must_use]
    pub fn parse(text: &str) -> Option<PathKey<K>> {
        let rest = text.strip_prefix(K::KEY_PREFIX)?;
        if rest.len() != RANDOM_DIGITS + CHECK_DIGITS || !rest.bytes().all(|byte| DIGITS.contains(&byte)) {
            return None;
        }
        let (random, check) = rest.split_at(RANDOM_DIGITS);
        (check_digits(random) == check).then(|| PathKey { text: text.to_owned(), kind: PhantomData })
    }

    /// Returns the text, for its holder.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Returns the SHA-256 of the text, for the row of a key that is shown once.
    #[must_use]
    pub fn to_hash(&self) -> [u8; 32] {
        Sha256::digest(self.text.as_bytes()).into()
    }

    /// Returns the id that names the key in logs, lists and dead letters: 8 hexadecimal digits of its SHA-256.
    #[must_use]
    pub fn id(&self) -> String {
        self.to_hash().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl<K: PathKeyKind> fmt::Debug for PathKey<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathKey({})", self.id())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Eq, Hash, Debug)]
    struct TestKind;

    impl PathKeyKind for TestKind {
        const KEY_PREFIX: &'static str = "tst_";
    }

    #[test]
    fn a_text_with_any_changed_digit_is_no_key() {
        let key = PathKey::<TestKind>::from_random(&[0xa7; RANDOM_BYTES]);
        let parse = PathKey::<TestKind>::parse;
        let text = key.reveal();
        assert_eq!((text.len(), key.id().len()), (30, 8));
        assert_eq!(parse(text).as_ref(), Some(&key));
        assert!(!format!("{key:?}").contains(text));
        for at in TestKind::KEY_PREFIX.len()..text.len() {
            let mut changed = text.as_bytes().to_vec();
            changed[at] = if changed[at] == b'7' { b'8' } else { b'7' };
            assert_eq!(parse(std::str::from_utf8(&changed).unwrap()), None, "digit {at}");
        }
        for wrong in
            ["", "tst_", &text.to_uppercase(), &text.replace("tst_", "unslide_"), &format!("{text}0")]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}

//! The text of an API key, `unslide_<prefix>_<secret>`.

use super::API_KEYS;
use sha2::{Digest, Sha256};
use unslide_model::Secret;
use unslide_model::key_digits::{decode_digits, encode_digits};

const PREFIX_BYTES: usize = 5;
const PREFIX_LENGTH: usize = 8;
const SECRET_LENGTH: usize = 40;

/// The random bytes of a key: its prefix and its secret.
pub const KEY_BYTES: usize = 30;

/// Returns the text of a key with these bytes.
#[must_use]
pub fn key_text(bytes: &[u8; KEY_BYTES]) -> String {
    let (prefix, secret) = bytes.split_at(PREFIX_BYTES);
    format!("unslide_{}_{}", encode_digits(prefix), encode_digits(secret))
}

/// The text of a key of any kind in the columns of its row.
pub(super) struct HashedText {
    pub prefix: String,
    pub hash: [u8; 32],
}

/// Makes the text of a new key.
pub(super) fn make_text(entropy: &[u8; KEY_BYTES]) -> (Secret, HashedText) {
    let (prefix, secret) = entropy.split_at(PREFIX_BYTES);
    (Secret::new(key_text(entropy)), hash_parts(&encode_digits(prefix), &encode_digits(secret)))
}

/// Reads a text. Returns None if it has another form.
pub(super) fn hash_text(text: &str) -> Option<HashedText> {
    split_key(text).map(|(prefix, secret)| hash_parts(prefix, secret))
}

fn hash_parts(prefix: &str, secret: &str) -> HashedText {
    HashedText { prefix: prefix.to_owned(), hash: Sha256::digest(secret.as_bytes()).into() }
}

/// Returns the prefix and the secret of a key's text; `None` if it is no key.
pub(super) fn split_key(text: &str) -> Option<(&str, &str)> {
    let (prefix, secret) = text.strip_prefix(API_KEYS.prefix)?.split_once('_')?;
    let fits = |part: &str, length| part.len() == length && decode_digits(part).is_some();
    (fits(prefix, PREFIX_LENGTH) && fits(secret, SECRET_LENGTH)).then_some((prefix, secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_it_was_written_and_nothing_else_is() {
        let (prefix, secret) = (encode_digits(&[7; 5]), encode_digits(&[200; 25]));
        assert_eq!((prefix.len(), secret.len()), (PREFIX_LENGTH, SECRET_LENGTH));
        let text = format!("unslide_{prefix}_{secret}");
        assert_eq!(split_key(&text), Some((prefix.as_str(), secret.as_str())));
        let (cut, after) =
            (text.strip_suffix(char::is_alphanumeric).unwrap(), text.strip_prefix('u').unwrap());
        for bad in ["", "unslide_", "unslide__", after, cut, &format!("{text}a")] {
            assert_eq!((split_key(bad), crate::keys::key_prefix(bad)), (None, None), "{bad}");
        }
    }
}

//! The text of a key in a path, or in a header outside the API.
//!
//! The text is a prefix, 22 random digits (110 bits) and 4 digits of checksum, all in Crockford's base32. The checksum
//! refuses a typo, a URL that was cut and a scanner's guess without a look-up.

use super::api_text::{HashedText, KEY_BYTES};
use super::kinds::KeyKind;
use sha2::{Digest, Sha256};
use unslide_model::Secret;
use unslide_model::key_digits::encode_with;

/// Crockford's base32, in lower case.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const RANDOM_DIGITS: usize = 22;
const CHECK_DIGITS: usize = 4;

/// Makes the text of a new key.
pub(super) fn make_text(kind: &KeyKind, entropy: &[u8; KEY_BYTES]) -> (Secret, HashedText) {
    let text = write_text(kind, entropy);
    let hashed = hash_whole(&text);
    (Secret::new(text), hashed)
}

/// Reads a text of a kind. Returns None if it has another form or the checksum is wrong.
pub(super) fn hash_text(kind: &KeyKind, text: &str) -> Option<HashedText> {
    let rest = text.strip_prefix(kind.prefix)?;
    if rest.len() != RANDOM_DIGITS + CHECK_DIGITS || !rest.bytes().all(|byte| DIGITS.contains(&byte)) {
        return None;
    }
    let (random, check) = rest.split_at(RANDOM_DIGITS);
    (check_digits(random) == check).then(|| hash_whole(text))
}

fn write_text(kind: &KeyKind, random: &[u8]) -> String {
    let random = write_digits(random, RANDOM_DIGITS);
    let check = check_digits(&random);
    format!("{}{random}{check}", kind.prefix)
}

fn hash_whole(text: &str) -> HashedText {
    let hash = Sha256::digest(text.as_bytes()).into();
    HashedText { prefix: write_id(&hash), hash }
}

/// Returns the id that names a key in logs, lists and dead letters: 8 hexadecimal digits of its SHA-256.
fn write_id(hash: &[u8; 32]) -> String {
    hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

fn write_digits(bytes: &[u8], number: usize) -> String {
    encode_with(DIGITS, bytes).chars().take(number).collect()
}

fn check_digits(random: &str) -> String {
    write_digits(&Sha256::digest(random.as_bytes()), CHECK_DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::API_KEYS;
    use crate::keys::kinds::KeyPlace;

    const TEST_KEYS: KeyKind =
        KeyKind { name: "test", prefix: "tst_", place: KeyPlace::Path("/test/"), ..API_KEYS };

    #[test]
    fn a_text_with_any_changed_digit_is_no_key() {
        let (secret, made) = make_text(&TEST_KEYS, &[0xa7; KEY_BYTES]);
        let parse = |text: &str| hash_text(&TEST_KEYS, text).map(|read| (read.prefix, read.hash));
        let text = secret.reveal();
        assert_eq!((text.len(), made.prefix.len()), (30, 8));
        assert_eq!(parse(text), Some((made.prefix, made.hash)));
        for at in TEST_KEYS.prefix.len()..text.len() {
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

//! SHA-1 hashes, by which these clients name files and chunks.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha1::{Digest, Sha1};
use std::fmt;
use std::str::FromStr;

/// The bytes of a SHA-1 hash.
pub const SHA1_BYTES: usize = 20;

/// The SHA-1 hash of a file or a chunk. It names content and proves nothing: what is stored has a SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha1Hash(pub [u8; SHA1_BYTES]);

/// Reports a text that is not 40 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSha1;

impl Sha1Hash {
    /// Returns the hash of the bytes that `hash` has seen.
    pub fn from_digest(hash: Sha1) -> Sha1Hash {
        Sha1Hash(hash.finalize().into())
    }

    /// Returns the hash of bytes from the database.
    pub fn from_bytes(bytes: &[u8]) -> Option<Sha1Hash> {
        bytes.try_into().ok().map(Sha1Hash)
    }
}

impl fmt::Display for NotSha1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a SHA-1 in 40 hexadecimal digits")
    }
}

impl fmt::Display for Sha1Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Sha1Hash {
    type Err = NotSha1;

    fn from_str(text: &str) -> Result<Sha1Hash, NotSha1> {
        let digits: Vec<u32> = text.chars().map_while(|digit| digit.to_digit(16)).collect();
        if digits.len() != 2 * SHA1_BYTES || text.len() != digits.len() {
            return Err(NotSha1);
        }
        let mut bytes = [0; SHA1_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::try_from(pair[0] << 4 | pair[1]).unwrap_or_default();
        }
        Ok(Sha1Hash(bytes))
    }
}

impl<'de> Deserialize<'de> for Sha1Hash {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Sha1Hash, D::Error> {
        let text = String::deserialize(reader)?;
        text.parse().map_err(|error| de::Error::custom(format!("{text:.60}: {error}")))
    }
}

impl Serialize for Sha1Hash {
    fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        writer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_written_as_it_was_read() {
        let text = "fccecd4b2bad5c7e1021dbc0a0b4a1470daad577";
        assert_eq!(text.parse::<Sha1Hash>().unwrap().to_string(), text);
        assert_eq!(text.to_uppercase().parse::<Sha1Hash>().unwrap().to_string(), text);
        for wrong in ["", "fcce", &format!("{text}0"), &text.replace('f', "g"), &text.replace("fc", "ä")] {
            assert_eq!(wrong.parse::<Sha1Hash>(), Err(NotSha1), "{wrong}");
        }
    }

    #[test]
    fn the_hash_of_bytes_is_known() {
        let hash = Sha1Hash::from_digest(Sha1::new_with_prefix(b"abc"));
        assert_eq!(hash.to_string(), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }
}

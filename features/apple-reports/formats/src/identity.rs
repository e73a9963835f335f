//! Ids of documents that have none.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Returns an id made from the bytes of a document, in the form of a UUID: the same document twice is one report.
pub fn text_id(bytes: &[u8]) -> String {
    named_id(&[bytes])
}

/// Returns an id made from several texts, as a UUID of version 8, which is for ids that are made in other ways.
pub fn named_id(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut bytes: Vec<u8> = hash.finalize().iter().take(16).copied().collect();
    if let [_, _, _, _, _, _, version, _, variant, ..] = bytes.as_mut_slice() {
        *version = *version & 0x0F | 0x80;
        *variant = *variant & 0x3F | 0x80;
    }
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // A string has no write that fails.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_parts_have_equal_ids() {
        let id = named_id(&[b"payload", b"crash", b"0"]);
        assert_eq!(id, named_id(&[b"payload", b"crash", b"0"]));
        assert_ne!(id, named_id(&[b"payload", b"crash", b"1"]));
        assert_ne!(named_id(&[b"ab", b"c"]), named_id(&[b"a", b"bc"]));
        assert!(id.len() == 36 && id.as_bytes()[14] == b'8', "{id}");
    }
}

//! Ids of crashes, for forms that have none.

use sha2::{Digest, Sha256};
use uuid::Builder;

/// Returns an id made from several texts, as a UUID of version 8: the same record twice is one report.
pub fn id_for_texts(texts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash.finalize()).for_each(|(to, from)| *to = from);
    Builder::from_custom_bytes(bytes).into_uuid().hyphenated().to_string()
}

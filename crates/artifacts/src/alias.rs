//! The user metadata of a symcache alias.

use std::collections::BTreeMap;
use unslide_model::{ContentHash, Quality};

/// Metadata of an alias object about the symcache in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AliasMeta {
    /// Increases when other symbols answer for the debug id. The slot in Postgres and the symbol
    /// event have the same number.
    pub generation: u64,
    /// Kinds of names and lines in the object.
    pub quality: Quality,
    /// The SHA-256 of the symcache's bytes, which are this object's body.
    pub sha256: ContentHash,
    /// The SHA-256 of the Mach-O slice that the symcache was built from.
    pub object: ContentHash,
}

impl AliasMeta {
    /// Returns the user metadata.
    #[must_use]
    pub fn to_metadata(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("generation".into(), self.generation.to_string()),
            ("quality".into(), self.quality.rank().to_string()),
            ("sha256".into(), self.sha256.to_string()),
            ("object".into(), self.object.to_string()),
        ])
    }

    /// Parses user metadata; `None` if a field is missing or invalid.
    #[must_use]
    pub fn from_metadata(metadata: &BTreeMap<String, String>) -> Option<AliasMeta> {
        Some(AliasMeta {
            generation: metadata.get("generation")?.parse().ok()?,
            quality: Quality::from_rank(metadata.get("quality")?.parse().ok()?)?,
            sha256: metadata.get("sha256")?.parse().ok()?,
            object: metadata.get("object")?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_back_and_half_of_it_is_nothing() {
        let meta = AliasMeta {
            generation: 7,
            quality: Quality::Dwarf,
            sha256: ContentHash([1; 32]),
            object: ContentHash([2; 32]),
        };
        let mut map = meta.to_metadata();
        assert_eq!(AliasMeta::from_metadata(&map), Some(meta));
        map.remove("object");
        assert_eq!(AliasMeta::from_metadata(&map), None);
    }
}

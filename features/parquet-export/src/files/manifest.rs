//! The manifest of a day: the files of its newest generation. It is replaced by one request, so that a reader finds a complete set.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use unslide_model::ContentHash;

/// The version of the manifest's form and of the columns. Columns are only added within one.
const MANIFEST_FORMAT: u32 = 1;

/// The manifest of a day.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DayManifest {
    pub format: u32,
    pub tenant: String,
    pub day: String,
    pub generation: i64,
    /// RFC 3339.
    #[serde(with = "time::serde::rfc3339")]
    pub written_at: OffsetDateTime,
    pub rows: u64,
    pub files: Vec<DayFile>,
}

/// A file that a manifest names.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DayFile {
    /// The path behind the prefix.
    pub path: String,
    pub app: String,
    pub rows: u64,
    pub bytes: u64,
    pub sha256: ContentHash,
}

impl DayManifest {
    /// Makes the manifest of these files.
    pub fn new(
        tenant: String,
        day: String,
        generation: i64,
        written_at: OffsetDateTime,
        files: Vec<DayFile>,
    ) -> DayManifest {
        let rows = files.iter().map(|file| file.rows).sum();
        DayManifest { format: MANIFEST_FORMAT, tenant, day, generation, written_at, rows, files }
    }

    /// Returns the bytes of all files.
    pub fn count_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

//! Uploaded files unpacked: zip, tar and gzip in any nesting, with the Mach-O files in them.
//!
//! What a file is, its first bytes say; names are only shown. Nothing is ever written to a path that an archive
//! names, so a path that leaves the archive does no harm: its file is read, and shown with a path inside. Links and
//! devices are skipped. Memory is bounded whatever the input: an archive within an
//! archive is held in a temporary file, and directories are read entry by entry.

mod budget;
mod describe;
mod error;
mod magic;
mod member;
mod tar_header;
mod walk;

use serde::{Deserialize, Serialize};

pub use describe::{describe, recognise};
pub use error::ArchiveError;
pub use magic::{Binary, FileKind, PEEK, detect};
pub use member::{Member, MemberSink, ToFolder};
pub use walk::unpack;

/// What an upload may cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UnpackLimits {
    /// Archives within one another; a gzip around a tar counts as two.
    pub depth: usize,
    /// Entries of all archives together.
    pub entries: u64,
    /// Bytes of one entry, unpacked.
    pub member_bytes: u64,
    /// Bytes of everything that is unpacked.
    pub total_bytes: u64,
    /// Unpacked bytes for one byte of the upload, on top of [`UnpackLimits::free_bytes`].
    pub ratio: u64,
    /// Bytes that may be unpacked whatever the ratio.
    pub free_bytes: u64,
    /// Bytes of an entry's path, those of the archives around it included.
    pub path_bytes: usize,
    /// Mach-O files that are kept.
    pub members: usize,
}

impl Default for UnpackLimits {
    fn default() -> UnpackLimits {
        UnpackLimits {
            depth: 8,
            entries: 500_000,
            member_bytes: 8 << 30,
            total_bytes: 32 << 30,
            ratio: 100,
            free_bytes: 64 << 20,
            path_bytes: 1024,
            members: 20_000,
        }
    }
}

/// What was found besides the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Entries of all archives together, folders included.
    pub entries: u64,
    /// Bytes that were unpacked.
    pub unpacked_bytes: u64,
    /// Entries that were not looked into though they might have been meant, the first
    /// [`Contents::SKIPPED_SHOWN`] of them; those that may hide symbols come before others.
    pub skipped: Vec<SkippedEntry>,
    /// How many were skipped.
    pub skipped_count: u64,
}

impl Contents {
    /// How many skipped entries are named.
    pub const SKIPPED_SHOWN: usize = 100;

    fn skip(&mut self, path: &str, reason: SkipReason) {
        self.skipped_count += 1;
        if self.skipped.len() == Self::SKIPPED_SHOWN {
            let harmless = self.skipped.iter().rposition(|s| !s.reason.may_hide_symbols());
            let Some(at) = harmless.filter(|_| reason.may_hide_symbols()) else { return };
            self.skipped.remove(at);
        }
        let path = path.chars().take(1024).collect();
        self.skipped.push(SkippedEntry { path, reason });
    }
}

/// An entry that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedEntry {
    /// Where it lies, archives and folders joined by `/`.
    pub path: String,
    /// Why.
    pub reason: SkipReason,
}

/// Why an entry was skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// A path longer than [`UnpackLimits::path_bytes`].
    #[error("the path is too long")]
    PathTooLong,
    /// A symbolic or hard link.
    #[error("links are not followed")]
    Link,
    /// A device, a pipe or a socket.
    #[error("not a regular file")]
    Special,
    /// A zip entry that needs a password.
    #[error("encrypted")]
    Encrypted,
    /// A zip entry packed in a way that is not supported; the number is the format's.
    #[error("compression method {0} is not supported")]
    Method(u16),
    /// A kind of tar entry that is not supported, such as a file's part from another volume.
    #[error("tar entries of kind {0:?} are not supported")]
    Kind(char),
    /// A sparse tar entry with a map that contradicts itself, the file's size or the bytes that are there.
    #[error("the map of its holes {0}")]
    Holes(&'static str),
    /// An archive in a format that is not supported.
    #[error("{0} archives are not supported")]
    Format(&'static str),
    /// A static library, which has no debug id.
    #[error("a static library has no debug id")]
    StaticLibrary,
    /// An archive within more archives than [`UnpackLimits::depth`].
    #[error("archives within one another are too deep")]
    TooDeep,
    /// An archive within the archive that is cut off or damaged.
    #[error("{0}")]
    Broken(String),
}

impl SkipReason {
    /// What holds no symbols, or none that are not found elsewhere as well.
    pub const HARMLESS: [SkipReason; 3] = [SkipReason::Link, SkipReason::Special, SkipReason::StaticLibrary];

    /// A short name that never changes.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            SkipReason::PathTooLong => "path_too_long",
            SkipReason::Link => "link",
            SkipReason::Special => "special",
            SkipReason::Encrypted => "encrypted",
            SkipReason::Method(_) => "method",
            SkipReason::Kind(_) => "kind",
            SkipReason::Holes(_) => "holes",
            SkipReason::Format(_) => "format",
            SkipReason::StaticLibrary => "static_library",
            SkipReason::TooDeep => "too_deep",
            SkipReason::Broken(_) => "broken",
        }
    }

    fn may_hide_symbols(&self) -> bool {
        !Self::HARMLESS.contains(self)
    }
}

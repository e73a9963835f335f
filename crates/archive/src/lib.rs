//! Unpacks uploaded files: zip, tar, gzip and zstd in any nesting, with the Mach-O files in them.
//!
//! The first bytes of a file decide its kind; names are only shown. No file is ever written to a path from an
//! archive. A path that leaves the archive is harmless: its file is read, and shown with a path inside. Links
//! and devices are skipped. Memory is limited for any input: a nested archive is held in a temporary file, and
//! directories are read entry by entry.

#![warn(missing_docs)]

mod budget;
mod describe;
mod error;
mod magic;
mod mapped;
mod member;
mod tar_header;
mod walk;

use serde::{Deserialize, Serialize};

pub use describe::{describe_format, recognise_format};
pub use error::ArchiveError;
pub use magic::{Binary, DETECTION_HEAD_BYTES, FileKind, detect_file_kind};
pub use mapped::map_file;
pub use member::{ManifestFile, Member, MemberSink, ToFolder};
pub use walk::unpack_upload;

/// Limits for unpacking one upload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UnpackLimits {
    /// Depth of nested archives; a gzip or zstd around a tar counts as two.
    pub depth: usize,
    /// Entries of all archives together.
    pub entries: u64,
    /// Unpacked bytes of one entry.
    pub member_bytes: u64,
    /// Unpacked bytes of the whole upload.
    pub total_bytes: u64,
    /// Unpacked bytes per byte of the upload, on top of [`UnpackLimits::free_bytes`].
    pub ratio: u64,
    /// Bytes that may be unpacked at any ratio.
    pub free_bytes: u64,
    /// Bytes of an entry's path, including those of the archives around it.
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

/// Statistics of an upload, besides its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Entries of all archives together, including folders.
    pub entries: u64,
    /// Bytes that were unpacked.
    pub unpacked_bytes: u64,
    /// Skipped entries that may have been meant as symbols, the first [`Contents::SKIPPED_SHOWN`] of them.
    /// Those that may hide symbols come first.
    pub skipped: Vec<SkippedEntry>,
    /// Number of skipped entries.
    pub skipped_count: u64,
}

impl Contents {
    /// The most skipped entries that are listed.
    pub const SKIPPED_SHOWN: usize = 100;

    /// Adds a skipped entry.
    pub fn record_skipped(&mut self, path: &str, reason: SkipReason) {
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
    /// Its path, with archives and folders joined by `/`.
    pub path: String,
    /// The reason.
    pub reason: SkipReason,
}

/// Reason why an entry was skipped.
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
    /// A program as the App Store delivers it, with instructions and strings that cannot be read.
    #[error(
        "the binary is encrypted, as the App Store delivers it: give the one of the archive (.xcarchive)"
    )]
    EncryptedBinary,
    /// A zip entry with an unsupported compression; the number is the format's.
    #[error("compression method {0} is not supported")]
    Method(u16),
    /// An unsupported kind of tar entry, such as a file's part from another volume.
    #[error("tar entries of kind {0:?} are not supported")]
    Kind(char),
    /// A sparse tar entry with a map that contradicts itself, the file's size or the stored bytes.
    #[error("the map of its holes {0}")]
    Holes(&'static str),
    /// An archive in a format that is not supported.
    #[error("{0} archives are not supported")]
    Format(&'static str),
    /// A static library, which has no debug id.
    #[error("a static library has no debug id")]
    StaticLibrary,
    /// An archive nested deeper than [`UnpackLimits::depth`].
    #[error("archives within one another are too deep")]
    TooDeep,
    /// A nested archive that is truncated or damaged.
    #[error("{0}")]
    Broken(String),
}

impl SkipReason {
    /// Reasons for entries that contain no symbols, or only symbols that are found elsewhere too.
    pub const HARMLESS: [SkipReason; 3] = [SkipReason::Link, SkipReason::Special, SkipReason::StaticLibrary];

    /// Returns a short name that never changes.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            SkipReason::PathTooLong => "path_too_long",
            SkipReason::Link => "link",
            SkipReason::Special => "special",
            SkipReason::Encrypted => "encrypted",
            SkipReason::EncryptedBinary => "encrypted_binary",
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

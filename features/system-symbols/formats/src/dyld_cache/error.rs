//! Errors for dyld shared caches that cannot be read.

/// Reason why a dyld shared cache gives no names. The caller puts the file's path in front.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DyldCacheError {
    /// The file does not begin as a cache does.
    #[error("no dyld shared cache")]
    NotACache,
    /// Its header is older than the table of the images' UUIDs.
    #[error("a dyld shared cache of iOS 9 or earlier, which has no table of UUIDs")]
    TooOld,
    /// It is one of several files, and not the first of them.
    #[error("a part of a dyld shared cache; import {0}")]
    Part(String),
    /// A table or a range leaves its file, or contradicts another one.
    #[error("damaged: {0}")]
    Malformed(&'static str),
    /// A table has more entries than any real cache.
    #[error("too large: {0}")]
    TooLarge(&'static str),
    /// One of the cache's files is absent.
    #[error("{file} is missing beside {main}. Copy all files with names that begin with {main}")]
    MissingFile {
        /// Name of the absent file.
        file: String,
        /// Name of the main file.
        main: String,
    },
    /// One of the files has another UUID than the main file says.
    #[error("{file} belongs to another cache (its UUID is {found}, and {expected} is expected)")]
    ForeignFile {
        file: String,
        found: String,
        /// UUID that the main file names.
        expected: String,
    },
    /// One of the files exists and cannot be read.
    #[error("{file} cannot be read: {reason}")]
    Unreadable {
        file: String,
        /// Reason of the operating system.
        reason: String,
    },
}

pub(super) fn malformed_error(reason: &'static str) -> DyldCacheError {
    DyldCacheError::Malformed(reason)
}

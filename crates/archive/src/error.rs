//! Errors of unpacking an upload.

use std::io;

/// Reason why an upload was refused as a whole.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// No format that this service reads.
    #[error("neither a Mach-O file nor a zip, tar, gzip or zstd archive: {0}")]
    Unrecognised(String),
    /// An empty file.
    #[error("the file is empty")]
    Empty,
    /// A known archive format that is not supported.
    #[error("{0} archives are not supported; send a zip or tar.gz")]
    Unsupported(&'static str),
    /// An archive that ends too early.
    #[error("{} is cut off: {what} at byte {at}", display_container(.container))]
    Truncated {
        /// The path of the archive within the upload; empty for the upload itself.
        container: String,
        /// The structure that was being read.
        what: String,
        /// The offset in the archive, in bytes.
        at: u64,
    },
    /// An archive that contradicts itself.
    #[error("{} is damaged: {what} at byte {at}", display_container(.container))]
    Corrupt {
        /// The path of the archive within the upload; empty for the upload itself.
        container: String,
        /// The problem.
        what: String,
        /// The offset in the archive, in bytes.
        at: u64,
    },
    /// More entries than allowed.
    #[error("more than {0} entries")]
    TooManyEntries(u64),
    /// More Mach-O files than allowed.
    #[error("more than {0} Mach-O files")]
    TooManyMembers(usize),
    /// One entry, or all together, has more bytes than allowed.
    #[error("{path} unpacks to more than {limit} bytes")]
    TooLarge {
        /// The entry.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The upload unpacks to far more than its size justifies.
    #[error("{path} unpacks to more than {ratio} times the size of the upload")]
    Bomb {
        /// The entry that exceeded the ratio.
        path: String,
        /// The largest ratio allowed.
        ratio: u64,
    },
    /// Our own disk failed, not the upload.
    #[error("cannot read or write a temporary file")]
    Disk(#[source] io::Error),
}

fn display_container(container: &str) -> &str {
    if container.is_empty() { "the upload" } else { container }
}

impl ArchiveError {
    /// Returns a short name that never changes.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            ArchiveError::Unrecognised(_) => "unrecognised",
            ArchiveError::Empty => "empty",
            ArchiveError::Unsupported(_) => "unsupported",
            ArchiveError::Truncated { .. } => "truncated",
            ArchiveError::Corrupt { .. } => "corrupt",
            ArchiveError::TooManyEntries(_) | ArchiveError::TooManyMembers(_) => "too_many_entries",
            ArchiveError::TooLarge { .. } => "too_large",
            ArchiveError::Bomb { .. } => "bomb",
            ArchiveError::Disk(_) => "disk",
        }
    }

    /// Returns the broken archive, if an archive is broken.
    pub(super) fn broken_container(&self) -> Option<&str> {
        match self {
            ArchiveError::Truncated { container, .. } | ArchiveError::Corrupt { container, .. } => {
                Some(container)
            }
            _ => None,
        }
    }

    /// Wraps the error, so that a reader can carry it.
    pub(super) fn into_io(self) -> io::Error {
        io::Error::other(self)
    }

    /// Returns true if a reader's error carries one of these.
    pub(super) fn is_inside(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<ArchiveError>)
    }

    /// Returns the error that a reader carried, or converts a plain one with `otherwise`.
    pub(super) fn from_io(
        error: io::Error,
        otherwise: impl FnOnce(io::Error) -> ArchiveError,
    ) -> ArchiveError {
        if ArchiveError::is_inside(&error) {
            let inner = error.into_inner().and_then(|inner| inner.downcast::<ArchiveError>().ok());
            return inner.map_or_else(|| otherwise(io::ErrorKind::Other.into()), |inner| *inner);
        }
        otherwise(error)
    }
}

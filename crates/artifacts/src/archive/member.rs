//! Where the Mach-O files and source maps of an upload go.

use super::{ArchiveError, Binary};
use std::io::{Read, Write};
use std::path::PathBuf;
use tempfile::{SpooledTempFile, TempPath};

/// A Mach-O file or a source map that was found.
#[derive(Debug)]
pub struct Member {
    /// Where it lay, archives and folders joined by `/`; the upload's own name for a bare file.
    pub path: String,
    /// Thin, fat, or a source map.
    pub binary: Binary,
    /// Its bytes; the file goes when this is dropped.
    pub file: TempPath,
    /// Bytes.
    pub size: u64,
}

impl Member {
    /// The bytes, mapped into memory. The map stays valid when the member is dropped.
    ///
    /// # Errors
    /// [`ArchiveError::Disk`].
    pub fn map(&self) -> Result<bytes::Bytes, ArchiveError> {
        crate::mapped::map(&self.file).map_err(ArchiveError::Disk)
    }
}

/// Takes the Mach-O files and source maps of an upload as they are found.
pub trait MemberSink {
    /// A Mach-O file or a source map. What is not read of `content` is skipped.
    ///
    /// # Errors
    /// An error of `content`, made by [`ArchiveError`]'s readers, or [`ArchiveError::Disk`].
    fn member(&mut self, path: &str, binary: Binary, content: &mut dyn Read) -> Result<(), ArchiveError>;

    /// How many members there are.
    fn len(&self) -> usize;

    /// True where there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A file for an archive within an archive, in memory up to `bytes`.
    fn spool(&self, bytes: usize) -> SpooledTempFile {
        SpooledTempFile::new(bytes)
    }

    /// Forgets the members after the first `len`: the archive that they lay in is broken.
    fn truncate(&mut self, len: usize);
}

/// Writes members to temporary files in a folder.
#[derive(Debug)]
pub struct ToFolder {
    folder: PathBuf,
    members: Vec<Member>,
}

impl ToFolder {
    /// Members go to files in `folder`, which must exist.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> ToFolder {
        ToFolder { folder: folder.into(), members: Vec::new() }
    }

    /// What was found.
    #[must_use]
    pub fn into_members(self) -> Vec<Member> {
        self.members
    }
}

impl MemberSink for ToFolder {
    fn member(&mut self, path: &str, binary: Binary, content: &mut dyn Read) -> Result<(), ArchiveError> {
        let temporary = tempfile::Builder::new()
            .prefix("member-")
            .tempfile_in(&self.folder)
            .map_err(ArchiveError::Disk)?;
        let (mut file, temporary) = temporary.into_parts();
        let size = copy(content, &mut file)?;
        self.members.push(Member { path: path.to_owned(), binary, file: temporary, size });
        Ok(())
    }

    fn len(&self) -> usize {
        self.members.len()
    }

    fn spool(&self, bytes: usize) -> SpooledTempFile {
        SpooledTempFile::new_in(bytes, &self.folder)
    }

    fn truncate(&mut self, len: usize) {
        self.members.truncate(len);
    }
}

/// Tells a source that fails from a disk that does.
pub(super) fn copy(source: &mut dyn Read, file: &mut (impl Write + ?Sized)) -> Result<u64, ArchiveError> {
    let mut buffer = vec![0; 64 << 10];
    let mut size = 0;
    loop {
        let read = source.read(&mut buffer).map_err(|e| ArchiveError::from_io(e, ArchiveError::Disk))?;
        if read == 0 {
            return Ok(size);
        }
        file.write_all(&buffer[..read]).map_err(ArchiveError::Disk)?;
        size += read as u64;
    }
}

//! Destinations for the Mach-O files and source maps of an upload.

use super::{ArchiveError, Binary};
use std::io::{Read, Write};
use std::path::PathBuf;
use tempfile::{SpooledTempFile, TempPath};

/// A Mach-O file or a source map that was found.
#[derive(Debug)]
pub struct Member {
    /// Its path, with archives and folders joined by `/`; the upload's own name for a bare file.
    pub path: String,
    /// Thin, fat, or a source map.
    pub binary: Binary,
    /// Its bytes. The file is deleted when this is dropped.
    pub file: TempPath,
    /// Size in bytes.
    pub size: u64,
}

impl Member {
    /// Maps the bytes into memory. The map stays valid when the member is dropped.
    ///
    /// # Errors
    /// Returns [`ArchiveError::Disk`] if the file cannot be mapped.
    pub fn map_file(&self) -> Result<bytes::Bytes, ArchiveError> {
        crate::mapped::map_file(&self.file).map_err(ArchiveError::Disk)
    }
}

/// The most bytes of a manifest that is kept, and the most manifests of an upload.
const MAX_MANIFEST_BYTES: u64 = 8 << 20;
const MAX_MANIFESTS: usize = 16;

/// The manifest of an archive with JavaScript bundles.
#[derive(Debug)]
pub struct ManifestFile {
    /// Its path, as [`Member::path`].
    pub path: String,
    /// The JSON text.
    pub bytes: Vec<u8>,
}

/// Receives the Mach-O files and source maps of an upload as they are found.
pub trait MemberSink {
    /// Receives a Mach-O file or a source map. Unread bytes of `content` are skipped.
    ///
    /// # Errors
    /// Returns an error of `content`, made by [`ArchiveError`]'s readers, or
    /// [`ArchiveError::Disk`].
    fn receive_member(
        &mut self,
        path: &str,
        binary: Binary,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError>;

    /// Receives the manifest of an archive with JavaScript bundles. It is no member.
    ///
    /// # Errors
    /// Returns an error of `content`, made by [`ArchiveError`]'s readers.
    fn receive_manifest(&mut self, _path: &str, _content: &mut dyn Read) -> Result<(), ArchiveError> {
        Ok(())
    }

    /// Returns the number of members.
    fn len(&self) -> usize;

    /// True if there are no members.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a file for a nested archive, in memory up to `bytes`.
    fn create_spool(&self, bytes: usize) -> SpooledTempFile {
        SpooledTempFile::new(bytes)
    }

    /// Drops the members after the first `len`, because their archive is broken.
    fn truncate(&mut self, len: usize);
}

/// Writes members to temporary files in a folder.
#[derive(Debug)]
pub struct ToFolder {
    folder: PathBuf,
    members: Vec<Member>,
    manifests: Vec<ManifestFile>,
}

impl ToFolder {
    /// Writes members to files in `folder`, which must exist.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> ToFolder {
        ToFolder { folder: folder.into(), members: Vec::new(), manifests: Vec::new() }
    }

    /// Returns the manifests that were found, and forgets them.
    #[must_use]
    pub fn take_manifests(&mut self) -> Vec<ManifestFile> {
        std::mem::take(&mut self.manifests)
    }

    /// Returns the members that were found.
    #[must_use]
    pub fn into_members(self) -> Vec<Member> {
        self.members
    }
}

impl MemberSink for ToFolder {
    fn receive_member(
        &mut self,
        path: &str,
        binary: Binary,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        let temporary = tempfile::Builder::new()
            .prefix("member-")
            .tempfile_in(&self.folder)
            .map_err(ArchiveError::Disk)?;
        let (mut file, temporary) = temporary.into_parts();
        let size = copy_to_file(content, &mut file)?;
        self.members.push(Member { path: path.to_owned(), binary, file: temporary, size });
        Ok(())
    }

    /// Keeps a manifest. One that is too large or one too many is skipped: its maps then have their own debug ids only.
    fn receive_manifest(&mut self, path: &str, content: &mut dyn Read) -> Result<(), ArchiveError> {
        let mut bytes = Vec::new();
        let read = content.take(MAX_MANIFEST_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| ArchiveError::from_io(error, ArchiveError::Disk))?;
        if bytes.len() as u64 <= MAX_MANIFEST_BYTES && self.manifests.len() < MAX_MANIFESTS {
            self.manifests.push(ManifestFile { path: path.to_owned(), bytes });
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.members.len()
    }

    fn create_spool(&self, bytes: usize) -> SpooledTempFile {
        SpooledTempFile::new_in(bytes, &self.folder)
    }

    fn truncate(&mut self, len: usize) {
        self.members.truncate(len);
    }
}

/// Copies a stream to a file. Distinguishes errors of the source from errors of the disk.
pub(super) fn copy_to_file(
    source: &mut dyn Read,
    file: &mut (impl Write + ?Sized),
) -> Result<u64, ArchiveError> {
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

//! Packs: archives of names files, small enough to be sent again after a failure.

use super::read::ImageFile;
use std::io;

/// Bytes after which a pack is sent.
const PACK_BYTES: usize = 8 << 20;
/// The most images of one pack, so that a server that stops repeats little work.
const MAX_PACK_IMAGES: usize = 500;
/// Access rights of the files in a pack.
const FILE_MODE: u32 = 0o644;

/// A pack that is being filled. The same images give the same bytes.
#[derive(Default)]
pub struct Pack {
    files: Vec<ImageFile>,
    bytes: usize,
}

impl Pack {
    /// Adds the names of an image.
    pub fn add(&mut self, file: ImageFile) {
        self.bytes += file.bytes.len();
        self.files.push(file);
    }

    /// Returns true if another file would make it too large.
    pub fn is_full(&self, next: usize) -> bool {
        !self.files.is_empty() && (self.bytes + next > PACK_BYTES || self.files.len() >= MAX_PACK_IMAGES)
    }

    /// Returns true if it has no image.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the pack as a tar archive.
    ///
    /// # Errors
    /// Returns an error if a path is too long for an archive.
    pub fn to_tar(&self) -> io::Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::with_capacity(self.bytes + 1_024 * self.files.len()));
        for file in &self.files {
            let mut header = tar::Header::new_gnu();
            header.set_size(file.bytes.len() as u64);
            header.set_mode(FILE_MODE);
            tar.append_data(&mut header, file.path.trim_start_matches('/'), file.bytes.as_slice())?;
        }
        tar.into_inner()
    }
}

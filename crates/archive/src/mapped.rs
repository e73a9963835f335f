//! Files mapped into memory: the only `unsafe` code of this crate.

use bytes::Bytes;
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::path::Path;

/// Maps a file that only this program wrote and that never changes again: a cached symcache after
/// its rename, or a temporary file of an upload's member.
///
/// # Errors
/// Returns an error if the file cannot be opened or mapped.
pub fn map_file(path: &Path) -> io::Result<Bytes> {
    let file = File::open(path)?;
    // An empty file cannot be mapped.
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new());
    }
    #[expect(
        unsafe_code,
        reason = "the mapped file is never written to or cut once it is whole, only unlinked, and its \
                  folder is this program's alone; readers of the map check every index into it"
    )]
    // SAFETY: see the reason above.
    let map = unsafe { Mmap::map(&file)? };
    Ok(Bytes::from_owner(map))
}

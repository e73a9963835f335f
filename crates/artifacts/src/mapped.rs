//! Files mapped into memory, the one place of this crate with `unsafe`.

use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::path::Path;

/// Maps a file that only this program has written, and that nothing changes any more: a cached
/// symcache after its rename, or a temporary file of an upload's member.
///
/// # Errors
/// Where the file cannot be opened or mapped.
pub fn map(path: &Path) -> io::Result<Mmap> {
    let file = File::open(path)?;
    #[expect(
        unsafe_code,
        reason = "the mapped file is never written to or cut once it is whole, only unlinked, and its \
                  folder is this program's alone; whoever reads the map checks every index into it"
    )]
    // SAFETY: see the reason above.
    unsafe {
        Mmap::map(&file)
    }
}

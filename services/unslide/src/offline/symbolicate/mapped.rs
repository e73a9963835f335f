//! Files of symbols mapped into memory.

use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::path::Path;

/// The bytes of a file.
///
/// # Errors
/// Where it cannot be read.
#[expect(unsafe_code, reason = "a memory map; files of debug information are too large to be read whole")]
pub fn map(path: &Path) -> io::Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: the map is read-only, and dropped before the command ends. A file that is cut off
    // meanwhile ends the process by a signal, as it does every tool that maps its input.
    unsafe { Mmap::map(&file) }
}

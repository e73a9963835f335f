//! Files that are too large to be read whole, mapped into memory.

use crate::input::{is_packed, unpack_input};
use memmap2::Mmap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// Unpacked bytes of one file at most. They lie in a temporary file.
const MOST_UNPACKED: u64 = 16 << 30;

/// Maps the bytes of a file.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn map_path(path: &Path) -> io::Result<Mmap> {
    map_file(&File::open(path)?)
}

/// Maps the bytes of a file, unpacked if it is packed. Also reads a pipe, and standard input if the path is
/// `-`.
///
/// # Errors
/// Returns an error if the input cannot be read, or is too large.
pub fn map_unpacked(path: &Path) -> io::Result<Mmap> {
    if path.as_os_str() == "-" {
        return map_spooled(io::stdin(), MOST_UNPACKED);
    }
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return map_spooled(file, MOST_UNPACKED);
    }
    let mut head = Vec::new();
    (&mut file).take(4).read_to_end(&mut head)?;
    file.rewind()?;
    if is_packed(&head) { map_spooled(file, MOST_UNPACKED) } else { map_file(&file) }
}

/// Maps the bytes of a source, unpacked into a temporary file.
fn map_spooled(source: impl Read + Send + 'static, most: u64) -> io::Result<Mmap> {
    let mut spool = tempfile::tempfile()?;
    let bytes = io::copy(&mut unpack_input(source)?.take(most + 1), &mut spool)?;
    if bytes > most {
        let text = format!("it has more than {} MiB unpacked", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    map_file(&spool)
}

#[expect(unsafe_code, reason = "a memory map; files of debug information are too large to be read whole")]
fn map_file(file: &File) -> io::Result<Mmap> {
    // SAFETY: the map is read-only, and dropped before the command ends. If the file is truncated at the same
    // time, a signal ends the process, as in every tool that maps its input.
    unsafe { Mmap::map(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_files_are_mapped_unpacked_within_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let text = b"an event ".repeat(1_000);
        let packed = zstd::encode_all(&text[..], 1).unwrap();
        for (name, bytes) in [("plain", &text), ("packed", &packed), ("empty", &Vec::new())] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let wanted = if bytes.is_empty() { &[][..] } else { &text };
            assert_eq!(&*map_unpacked(&path).unwrap(), wanted, "{name}");
        }
        let bytes = |most| map_spooled(io::Cursor::new(packed.clone()), most).map(|map| map.len());
        assert_eq!(bytes(9_000).unwrap(), 9_000);
        assert_eq!(bytes(8_999).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}

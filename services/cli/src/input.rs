//! Input that is packed: gzip and zstd are detected by how they begin. Archives of symbols.

use crate::CommandError;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use tempfile::TempDir;
use unslide_archive::{ArchiveError, Member, SkippedEntry, ToFolder, UnpackLimits, unpack_upload};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Returns true if a file that begins like this is packed.
pub fn is_packed(head: &[u8]) -> bool {
    head.starts_with(GZIP) || head.starts_with(ZSTD)
}

/// Returns the input, unpacked if it is packed. Reads only the bytes that show it.
///
/// # Errors
/// Returns an error if the input cannot be read.
pub fn unpack_input(mut source: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::with_capacity(ZSTD.len());
    let may_be = |head: &[u8], mark: &[u8]| head.len() < mark.len() && mark.starts_with(head);
    // A report begins otherwise, so that a pipe that pauses after it holds nothing up.
    while may_be(&head, GZIP) || may_be(&head, ZSTD) {
        let mut byte = [0];
        match source.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => head.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let (gzip, zstd) = (head == GZIP, head == ZSTD);
    let whole = Cursor::new(head).chain(source);
    Ok(match (gzip, zstd) {
        (true, _) => Box::new(MultiGzDecoder::new(BufReader::new(whole))),
        (_, true) => Box::new(zstd::Decoder::new(whole)?),
        _ => Box::new(whole),
    })
}

/// Reads the input, unpacked. Reads at most one byte more than `most`, so that the caller sees that it is too
/// long.
///
/// # Errors
/// Returns an error if the input cannot be read.
pub fn read_unpacked(source: impl Read + Send + 'static, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    unpack_input(source)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file, unpacked, or standard input if the path is `-`.
///
/// # Errors
/// Returns an error if the input cannot be read, or has more than `most` bytes.
pub fn read_input(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let bytes = match path.as_os_str() == "-" {
        true => read_unpacked(io::stdin(), most)?,
        false => read_unpacked(File::open(path)?, most)?,
    };
    if bytes.len() > most {
        let text = format!("it has more than {} MiB", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// Reads a file of text that may have a number of bytes at most.
///
/// # Errors
/// Returns an error if the file cannot be read, has more bytes, or is not UTF-8.
pub fn read_text_file(path: &Path, bytes_limit: u64) -> Result<String, CommandError> {
    let mut text = String::new();
    let reading = File::open(path).and_then(|file| file.take(bytes_limit + 1).read_to_string(&mut text));
    let bytes = reading.map_err(|error| CommandError::cannot_read(path, error))?;
    if bytes as u64 > bytes_limit {
        let problem = format!("it has more than {bytes_limit} bytes");
        return Err(CommandError::cannot_read(path, io::Error::new(io::ErrorKind::FileTooLarge, problem)));
    }
    Ok(text)
}

/// The content of an archive.
pub struct UnpackedArchive {
    pub members: Vec<Member>,
    /// The entries that were skipped.
    pub skipped: Vec<SkippedEntry>,
    /// Deleted after the files in it.
    _folder: TempDir,
}

/// Unpacks an archive as an upload of it would be unpacked.
///
/// # Errors
/// Returns an error if the file is no archive, or is damaged, or if the disk fails.
pub fn unpack_archive(path: &Path) -> Result<UnpackedArchive, ArchiveError> {
    let folder = tempfile::tempdir().map_err(ArchiveError::Disk)?;
    let file = File::open(path).map_err(ArchiveError::Disk)?;
    let mut sink = ToFolder::new(folder.path());
    let contents = unpack_upload(file, "", &UnpackLimits::default(), &mut sink)?;
    Ok(UnpackedArchive { members: sink.into_members(), skipped: contents.skipped, _folder: folder })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn read(bytes: Vec<u8>) -> Vec<u8> {
        let mut out = Vec::new();
        unpack_input(Cursor::new(bytes)).unwrap().read_to_end(&mut out).unwrap();
        out
    }

    #[test]
    fn a_text_that_is_too_long_is_refused_and_never_cut() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "secret").unwrap();
        assert_eq!(read_text_file(file.path(), 6).unwrap(), "secret");
        let error = unslide_model::format_causes(&read_text_file(file.path(), 5).unwrap_err());
        assert!(error.contains("it has more than 5 bytes"), "{error}");
    }

    #[test]
    fn what_is_packed_is_unpacked_and_all_else_is_as_it_is() {
        let text = b"{\"crash\":{}}\n".repeat(1_000);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(read(gzip.clone()), text);
        assert_eq!(read([gzip.clone(), gzip].concat()), text.repeat(2));
        assert_eq!(read(zstd::encode_all(&text[..], 1).unwrap()), text);
        for plain in [&b""[..], b"{", b"(", b"\x1f", b"\x28\xb5\x2f", b"{}\n", &text] {
            assert_eq!(read(plain.to_vec()), plain);
        }
    }

    #[test]
    fn an_input_that_is_too_long_is_refused_and_not_cut() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&zstd::encode_all(&b"{} ".repeat(100)[..], 1).unwrap()).unwrap();
        assert_eq!(read_input(file.path(), 300).unwrap().len(), 300);
        assert_eq!(read_input(file.path(), 299).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}

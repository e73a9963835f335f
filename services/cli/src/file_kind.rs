//! Kinds of files, by their first bytes.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use unslide_archive::{Binary, DETECTION_HEAD_BYTES, FileKind, describe_format, detect_file_kind};

/// Returns the kind of a file by its first bytes.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn file_kind(path: &Path) -> std::io::Result<FileKind> {
    Ok(detect_file_kind(&head(path)?))
}

fn head(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(DETECTION_HEAD_BYTES);
    File::open(path)?.take(DETECTION_HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Describes a file that gives no symbols, by its first bytes, with what to give instead.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn describe_file(path: &Path) -> std::io::Result<String> {
    Ok(describe_format(&head(path)?))
}

/// Returns true for a file that begins as a Mach-O file does.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn starts_as_mach_o(path: &Path) -> std::io::Result<bool> {
    Ok(matches!(file_kind(path)?, FileKind::Binary(Binary::Thin | Binary::Fat)))
}

/// Returns true for a file that begins as a source map does.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn starts_as_source_map(path: &Path) -> std::io::Result<bool> {
    Ok(matches!(file_kind(path)?, FileKind::Binary(Binary::SourceMap)))
}

/// Returns true for a file that the archive reader accepts: zip, gzip, zstd or tar.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn is_archive(path: &Path) -> std::io::Result<bool> {
    Ok(matches!(file_kind(path)?, FileKind::Zip | FileKind::Gzip | FileKind::Zstd | FileKind::Tar))
}

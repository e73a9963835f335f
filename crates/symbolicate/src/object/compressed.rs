//! Compressed debug information in sections such as `__zdebug_info`, as Go's linker writes it.
//!
//! Source of the format: Go, `cmd/link/internal/ld/dwarf.go` and `macho_combine_dwarf.go`; GNU binutils calls
//! it `zlib-gnu`. A section begins with `ZLIB` and its unpacked size, eight bytes, big-endian. A zlib stream
//! follows.

use super::ObjectError;
use super::error::malformed_error;
use super::macho::{MachFile, MachSection, UnpackedSection, name_of_section};
use flate2::{Decompress, FlushDecompress, Status};
use std::cmp::Ordering;

/// The sections that are read, without their leading underscores. Others are not unpacked.
const READ_SECTIONS: [&str; 11] = [
    "debug_abbrev",
    "debug_addr",
    "debug_aranges",
    "debug_info",
    "debug_line",
    "debug_line_str",
    "debug_ranges",
    "debug_rnglists",
    "debug_str",
    "debug_str_offsets",
    "debug_types",
];
/// The first bytes of a section that can be unpacked.
const ZLIB_SIGNATURE: &[u8; 4] = b"ZLIB";
/// Size of the signature and the unpacked size.
const HEADER_BYTES: usize = 12;
/// The most unpacked bytes per byte of a zlib stream: deflate stores a match of 258 bytes in two bits.
const MAX_RATIO: u64 = 1032;

/// The unpacked sections of a file.
#[derive(Debug, Default)]
pub(super) struct UnpackedSections {
    pub(super) sections: Vec<UnpackedSection>,
    /// Sections in an unsupported compression.
    unread: Vec<&'static str>,
}

impl UnpackedSections {
    /// Unpacks the compressed sections of debug information, into at most `memory_bytes`.
    pub(super) fn from_file(file: &MachFile<'_>, memory_bytes: u64) -> Result<UnpackedSections, ObjectError> {
        let (mut compressed, mut unread) = (Vec::new(), Vec::new());
        for name in READ_SECTIONS {
            let Some(section) = compressed_section(file, name) else { continue };
            let bytes = file.section_bytes(section)?;
            match Stream::from_section(bytes)? {
                Some(stream) => compressed.push((name, stream)),
                None => unread.push(name),
            }
        }
        // Checked before anything is allocated.
        let unpacked_bytes =
            compressed.iter().fold(0_u64, |sum, (_, stream)| sum.saturating_add(stream.unpacked_bytes));
        if unpacked_bytes > memory_bytes {
            return Err(ObjectError::NeedsMemory(unpacked_bytes));
        }
        let mut sections = Vec::new();
        for (name, stream) in compressed {
            sections.push(UnpackedSection { name, bytes: stream.unpack()? });
        }
        Ok(UnpackedSections { sections, unread })
    }

    /// Returns a warning for each section in an unsupported compression, except that of the functions.
    pub(super) fn list_warnings(&self) -> impl Iterator<Item = String> {
        let others = self.unread.iter().filter(|name| **name != "debug_info");
        others.map(|name| format!("its section __z{name} is compressed in a way that is not read"))
    }

    /// Returns how many bytes were unpacked.
    pub(super) fn unpacked_bytes(&self) -> u64 {
        self.sections.iter().map(|section| section.bytes.len() as u64).sum()
    }
}

/// Compression of a file's functions and lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// They are not compressed, or do not exist.
    None,
    /// Supported: they are unpacked.
    Zlib,
    /// An unsupported compression.
    Unknown,
}

impl Compression {
    /// Returns the compression of the section with a file's functions, by its first bytes.
    pub(super) fn from_file(file: &MachFile<'_>) -> Result<Compression, ObjectError> {
        let Some(section) = compressed_section(file, "debug_info") else { return Ok(Compression::None) };
        let bytes = file.section_bytes(section)?;
        Ok(if bytes.starts_with(ZLIB_SIGNATURE) { Compression::Zlib } else { Compression::Unknown })
    }
}

fn compressed_section<'f, 'a>(file: &'f MachFile<'a>, name: &str) -> Option<&'f MachSection<'a>> {
    let compressed = format!("__z{name}");
    file.debug_sections().find(|section| section.name == name_of_section(&compressed))
}

/// A zlib stream and the size that its section declares.
struct Stream<'a> {
    unpacked_bytes: u64,
    zlib: &'a [u8],
}

impl<'a> Stream<'a> {
    /// Reads the header of a section; returns `None` if it is compressed in another way.
    fn from_section(bytes: &'a [u8]) -> Result<Option<Stream<'a>>, ObjectError> {
        if !bytes.starts_with(ZLIB_SIGNATURE) {
            return Ok(None);
        }
        let Some((header, zlib)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(malformed_error("compressed debug information ends within its header"));
        };
        let mut size = [0; 8];
        size.copy_from_slice(&header[ZLIB_SIGNATURE.len()..]);
        let unpacked_bytes = u64::from_be_bytes(size);
        if unpacked_bytes > (zlib.len() as u64).saturating_mul(MAX_RATIO) {
            return Err(malformed_error(
                "compressed debug information declares more bytes than its stream can hold",
            ));
        }
        Ok(Some(Stream { unpacked_bytes, zlib }))
    }

    fn unpack(&self) -> Result<Vec<u8>, ObjectError> {
        let needs_memory = || ObjectError::NeedsMemory(self.unpacked_bytes);
        let size = usize::try_from(self.unpacked_bytes).map_err(|_| needs_memory())?;
        let mut unpacked = Vec::new();
        // One byte beyond the declared size reveals a longer stream. The buffer does not grow.
        unpacked.try_reserve_exact(size.saturating_add(1)).map_err(|_| needs_memory())?;
        let mut zlib = Decompress::new(true);
        let has_ended = loop {
            let before = (zlib.total_in(), zlib.total_out());
            let rest =
                usize::try_from(before.0).ok().and_then(|read| self.zlib.get(read..)).unwrap_or_default();
            let status = zlib.decompress_vec(rest, &mut unpacked, FlushDecompress::None);
            match status.map_err(|_| malformed_error("compressed debug information is cut off or damaged"))? {
                Status::StreamEnd => break true,
                // The stream is truncated and was read completely, or the buffer is full.
                _ if before == (zlib.total_in(), zlib.total_out()) => break false,
                Status::Ok | Status::BufError => {}
            }
        };
        match unpacked.len().cmp(&size) {
            Ordering::Greater => {
                Err(malformed_error("compressed debug information has more bytes than it declares"))
            }
            // The end of the stream has the checksum.
            _ if !has_ended => Err(malformed_error("compressed debug information is cut off or damaged")),
            Ordering::Less => {
                Err(malformed_error("compressed debug information has fewer bytes than it declares"))
            }
            Ordering::Equal => Ok(unpacked),
        }
    }
}

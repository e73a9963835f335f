//! The header of a cache's file, with its tables.
//!
//! Its version is its size: the first mapping lies directly behind it, and a field exists if the header is larger
//! than the field's offset.

use super::error::{DyldCacheError, malformed_error};
use super::{CacheImage, MAX_IMAGES, MAX_MAPPINGS, MAX_PATH_BYTES, MAX_SUBCACHES};
use std::collections::HashSet;
use unslide_model::DebugId;

/// Smallest header that has the UUID of its file.
const UUID_HEADER_SIZE: u64 = 0x68;
/// Smallest header that has the table of the images' UUIDs.
const IMAGE_TEXT_HEADER_SIZE: u64 = 0x98;
/// Header with entries of subcaches that name the files.
const SUFFIX_HEADER_SIZE: u64 = 0x1c9;
/// Header with 64-bit offsets in the table of local symbols.
const WIDE_LOCALS_HEADER_SIZE: u64 = 0x1c8;
/// The largest header that dyld itself accepts.
const MAX_HEADER_SIZE: u64 = 1024;

const MAPPING_SIZE: u64 = 32;
const IMAGE_TEXT_SIZE: u64 = 32;
const SUFFIX_BYTES: u64 = 32;

/// Architectures of caches, as they are written in the magic.
const ARCHITECTURES: [&str; 5] = ["arm64e", "arm64", "arm64_32", "x86_64h", "x86_64"];

/// A part of one file that lies at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheMapping {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) file_offset: u64,
    /// Index of the file among the files of the cache.
    pub(super) file: usize,
}

/// Another file of the cache, as its main file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubCacheName {
    /// The end of its name, such as `.01` or `.02.dylddata`.
    pub suffix: String,
    /// UUID in its header.
    pub uuid: DebugId,
}

/// Facts in the header of a cache's main file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheHeader {
    /// Architecture in the magic, such as `arm64e`.
    pub arch: &'static str,
    /// UUID of the file.
    pub uuid: DebugId,
    /// Name of the operating system, if the header has it.
    pub platform: Option<&'static str>,
    /// Version of the operating system, such as `26.2`, if the header has it.
    pub os_version: Option<String>,
    /// Other files with parts of the cache.
    pub subcaches: Vec<SubCacheName>,
    /// UUID of the file with the local symbols, if there is one.
    pub symbols_uuid: Option<DebugId>,
    /// True for the variant for development, with subcaches that customers' devices have too.
    pub is_development: bool,
    pub(super) has_wide_locals: bool,
    /// Address that offsets of local symbols are relative to.
    pub(super) base: u64,
}

/// Little-endian numbers and ranges of a file, checked against its end.
#[derive(Clone, Copy)]
pub(super) struct FileBytes<'a>(pub(super) &'a [u8]);

impl<'a> FileBytes<'a> {
    pub(super) fn read_range(self, at: u64, length: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(at).ok()?;
        self.0.get(start..start.checked_add(usize::try_from(length).ok()?)?)
    }

    pub(super) fn read_u32(self, at: u64) -> Option<u32> {
        self.read_range(at, 4)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
    }

    pub(super) fn read_u64(self, at: u64) -> Option<u64> {
        self.read_range(at, 8)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
    }

    pub(super) fn read_uuid(self, at: u64) -> Option<DebugId> {
        self.read_range(at, 16)?.first_chunk().map(|chunk| DebugId(*chunk))
    }

    /// Returns a text up to its NUL, of at most `most` bytes.
    fn read_text(self, at: u64, most: usize) -> Option<&'a str> {
        let rest = self.0.get(usize::try_from(at).ok()?..)?;
        let rest = rest.get(..=most).unwrap_or(rest);
        let end = memchr::memchr(0, rest)?;
        std::str::from_utf8(rest.get(..end)?).ok()
    }

    /// Returns the bytes of a table with `count` records. No record exists without its bytes.
    pub(super) fn read_table(self, at: u64, count: u64, record: u64) -> Option<&'a [u8]> {
        self.read_range(at, count.checked_mul(record)?)
    }
}

/// Returns the architecture in the magic of a cache's file.
pub(super) fn read_arch(file: FileBytes<'_>) -> Option<&'static str> {
    let magic = file.read_range(0, 16)?;
    let arch = magic.strip_prefix(b"dyld_v1")?.strip_suffix(b"\0")?;
    let arch = std::str::from_utf8(arch).ok()?.trim_start_matches(' ');
    ARCHITECTURES.into_iter().find(|known| *known == arch)
}

/// Returns the size of a file's header.
pub(super) fn header_size(file: FileBytes<'_>) -> Result<u64, DyldCacheError> {
    read_arch(file).ok_or(DyldCacheError::NotACache)?;
    let size = u64::from(file.read_u32(0x10).ok_or(DyldCacheError::NotACache)?);
    if !(UUID_HEADER_SIZE..=MAX_HEADER_SIZE).contains(&size) {
        return Err(DyldCacheError::NotACache);
    }
    file.read_range(0, size).ok_or(malformed_error("the file ends in its header"))?;
    Ok(size)
}

/// Returns the mappings of a file.
pub(super) fn read_mappings(file: FileBytes<'_>, index: usize) -> Result<Vec<CacheMapping>, DyldCacheError> {
    let at = header_size(file)?;
    let count = file.read_u32(0x14).unwrap_or_default();
    if count > MAX_MAPPINGS {
        return Err(DyldCacheError::TooLarge("a file has more than 64 mappings"));
    }
    let table = file
        .read_table(at, count.into(), MAPPING_SIZE)
        .ok_or(malformed_error("the mappings leave the file"))?;
    let mut mappings = Vec::new();
    for record in table.chunks_exact(MAPPING_SIZE as usize).map(FileBytes) {
        let number = |at| record.read_u64(at).unwrap_or_default();
        let mapping =
            CacheMapping { address: number(0), size: number(8), file_offset: number(16), file: index };
        file.read_range(mapping.file_offset, mapping.size)
            .ok_or(malformed_error("a mapping leaves its file"))?;
        mapping.address.checked_add(mapping.size).ok_or(malformed_error("a mapping has no end"))?;
        mappings.push(mapping);
    }
    Ok(mappings)
}

impl CacheHeader {
    /// Reads the header of a main file. `main` is its name.
    ///
    /// # Errors
    /// Returns an error if the file is no cache, or none that can be read.
    pub fn read_main(bytes: &[u8], main: &str) -> Result<CacheHeader, DyldCacheError> {
        let file = FileBytes(bytes);
        let size = header_size(file)?;
        let arch = read_arch(file).ok_or(DyldCacheError::NotACache)?;
        if size < IMAGE_TEXT_HEADER_SIZE {
            return Err(DyldCacheError::TooOld);
        }
        // The mappings begin with the one at the lowest address.
        let base = file.read_u64(0xe0).filter(|base| size > 0xe0 && *base > 0).or(file.read_u64(size));
        let platform = file.read_u32(0xd8).filter(|_| size > 0xd8).and_then(platform_name);
        let os_version = file.read_u32(0x16c).filter(|version| size > 0x16c && *version > 0);
        let symbols_uuid = file.read_uuid(0x190).filter(|uuid| size > 0x190 && uuid.0 != [0; 16]);
        Ok(CacheHeader {
            arch,
            uuid: file.read_uuid(0x58).ok_or(malformed_error("the file ends in its header"))?,
            platform,
            os_version: os_version.map(show_version),
            subcaches: if size > 0x18c { read_subcaches(file, size)? } else { Vec::new() },
            symbols_uuid,
            is_development: size >= 0x1c9 && file.read_u32(0x68) == Some(2) && main.ends_with(".development"),
            has_wide_locals: size >= WIDE_LOCALS_HEADER_SIZE,
            base: base.unwrap_or_default(),
        })
    }

    /// Returns the name that suffixes are added to.
    #[must_use]
    pub fn base_name<'n>(&self, main: &'n str) -> &'n str {
        // Subcaches of the variant for development have the names of the other variant.
        main.strip_suffix(".development").filter(|_| self.is_development).unwrap_or(main)
    }
}

/// Returns the name of a platform by the number that load commands have for it.
fn platform_name(number: u32) -> Option<&'static str> {
    Some(match number {
        1 | 6 => "macOS",
        2 => "iOS",
        3 => "tvOS",
        4 => "watchOS",
        7 => "iOS Simulator",
        8 => "tvOS Simulator",
        9 => "watchOS Simulator",
        10 => "DriverKit",
        11 => "visionOS",
        12 => "visionOS Simulator",
        _ => return None,
    })
}

fn show_version(packed: u32) -> String {
    let (major, minor, patch) = (packed >> 16, packed >> 8 & 0xFF, packed & 0xFF);
    if patch == 0 { format!("{major}.{minor}") } else { format!("{major}.{minor}.{patch}") }
}

fn read_subcaches(file: FileBytes<'_>, size: u64) -> Result<Vec<SubCacheName>, DyldCacheError> {
    let at = u64::from(file.read_u32(0x188).unwrap_or_default());
    let count = u64::from(file.read_u32(0x18c).unwrap_or_default());
    if count > MAX_SUBCACHES {
        return Err(DyldCacheError::TooLarge("it has more than 512 other files"));
    }
    let has_suffixes = size >= SUFFIX_HEADER_SIZE;
    let record = if has_suffixes { 24 + SUFFIX_BYTES } else { 24 };
    let table =
        file.read_table(at, count, record).ok_or(malformed_error("the table of files leaves the file"))?;
    let mut names = Vec::new();
    for (number, record) in (1..).zip(table.chunks_exact(record as usize).map(FileBytes)) {
        let suffix = match has_suffixes {
            true => record.read_text(24, SUFFIX_BYTES as usize - 1).unwrap_or_default().to_owned(),
            false => format!(".{number}"),
        };
        if !is_suffix(&suffix) {
            return Err(malformed_error("the table of files has a name that no cache has"));
        }
        names.push(SubCacheName { suffix, uuid: record.read_uuid(0).unwrap_or(DebugId([0; 16])) });
    }
    Ok(names)
}

/// Returns true for the end of a file's name that cannot leave the folder.
fn is_suffix(suffix: &str) -> bool {
    let Some(rest) = suffix.strip_prefix('.') else { return false };
    !rest.is_empty()
        && !suffix.contains("..")
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
}

/// Returns the images of a main file, by path. The table may name one image twice.
pub(super) fn read_images(file: FileBytes<'_>) -> Result<Vec<CacheImage>, DyldCacheError> {
    let at = file.read_u64(0x88).unwrap_or_default();
    let count = file.read_u64(0x90).unwrap_or_default();
    if count > MAX_IMAGES {
        return Err(DyldCacheError::TooLarge("it has more than 16,384 images"));
    }
    let table = file
        .read_table(at, count, IMAGE_TEXT_SIZE)
        .ok_or(malformed_error("the table of images leaves the file"))?;
    let mut addresses = HashSet::new();
    let mut images = Vec::new();
    for record in table.chunks_exact(IMAGE_TEXT_SIZE as usize).map(FileBytes) {
        let address = record.read_u64(16).unwrap_or_default();
        let path = file.read_text(record.read_u32(28).unwrap_or_default().into(), MAX_PATH_BYTES);
        let path =
            path.filter(|path| path.starts_with('/')).ok_or(malformed_error("an image has no path"))?;
        if addresses.insert(address) {
            images.push(CacheImage {
                debug_id: record.read_uuid(0).unwrap_or(DebugId([0; 16])),
                path: path.to_owned(),
                address,
                text_size: record.read_u32(24).unwrap_or_default(),
            });
        }
    }
    images.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(images)
}

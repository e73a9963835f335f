//! Reads the names of system libraries from a dyld shared cache, without I/O.
//!
//! A cache is one file or several: the main file names the others by the ends of their names. Each file maps parts
//! of one address space. An image's load commands, its data and the symbol tables of all images may lie in different
//! files. Local symbols lie apart from the images: [`DyldCache::lacks_locals`] says if they are missing.
//!
//! Every offset, count and sum is checked: a damaged image costs its own names only.

mod error;
mod header;
mod image;
mod locals;
mod merge;
#[cfg(test)]
mod tests;

pub use error::DyldCacheError;
pub use header::{CacheHeader, SubCacheName};

use bytes::Bytes;
use error::malformed_error;
use header::{CacheMapping, FileBytes, header_size, read_arch, read_images, read_mappings};
use locals::CacheLocalSymbols;
use std::io;
use unslide_model::DebugId;
use unslide_symbolicate::object::ImageNames;

/// The most other files of one cache.
const MAX_SUBCACHES: u64 = 512;
/// The most mappings of one file; dyld accepts 20.
const MAX_MAPPINGS: u32 = 64;
/// The most images of one cache.
const MAX_IMAGES: u64 = 16_384;
/// The longest path of an image.
const MAX_PATH_BYTES: usize = 4 << 10;
/// The most symbols of one image.
const MAX_IMAGE_NAMES: u64 = 4 << 20;
/// The most symbols of one cache.
const MAX_NAMES: u64 = 64 << 20;
/// Ending of the file with the local symbols.
const SYMBOLS_SUFFIX: &str = ".symbols";

/// One library of a cache, as the main file's tables describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheImage {
    /// UUID of the library.
    pub debug_id: DebugId,
    /// Path at which programs load it.
    pub path: String,
    /// Address of its header.
    pub address: u64,
    /// Size of `__TEXT`.
    pub text_size: u32,
}

/// Returns true if a file begins as a file of a dyld shared cache does.
#[must_use]
pub fn is_dyld_cache(head: &[u8]) -> bool {
    read_arch(FileBytes(head)).is_some()
}

/// Returns the libraries that a main file lists, without the other files.
///
/// # Errors
/// Returns an error if the file is no cache, or if its tables are damaged.
pub fn list_images(main: &[u8]) -> Result<Vec<CacheImage>, DyldCacheError> {
    header_size(FileBytes(main))?;
    read_images(FileBytes(main))
}

/// A cache with all of its files.
#[derive(Debug)]
pub struct DyldCache {
    header: CacheHeader,
    /// The main file, then the others in the order of its table.
    files: Vec<Bytes>,
    /// By address, without overlap.
    mappings: Vec<CacheMapping>,
    images: Vec<CacheImage>,
    /// The file with the local symbols, and their ranges.
    locals: Option<(Bytes, CacheLocalSymbols)>,
    is_32_bit: bool,
}

impl DyldCache {
    /// Opens the cache with the main file `main`, named `name`. `open` returns another file of the same folder by
    /// its name, or `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if the main file is damaged, or if another file is missing or belongs to another cache.
    /// Missing local symbols are no error.
    pub fn open(
        main: Bytes,
        name: &str,
        mut open: impl FnMut(&str) -> io::Result<Option<Bytes>>,
    ) -> Result<DyldCache, DyldCacheError> {
        let header = CacheHeader::read_main(&main, name)?;
        let images = read_images(FileBytes(&main))?;
        if images.is_empty() {
            return Err(DyldCacheError::Part(main_file_name(name).unwrap_or_else(|| name.to_owned())));
        }
        let mut open = |file: &str| {
            open(file).map_err(|error| {
                let (file, reason) = (file.to_owned(), error.to_string());
                DyldCacheError::Unreadable { file, reason }
            })
        };
        let mut mappings = read_mappings(FileBytes(&main), 0)?;
        let mut files = vec![main];
        for sub in &header.subcaches {
            let file = format!("{}{}", header.base_name(name), sub.suffix);
            let Some(bytes) = open(&file)? else {
                return Err(DyldCacheError::MissingFile { file, main: name.to_owned() });
            };
            check_uuid(&bytes, &file, sub.uuid)?;
            mappings.extend(read_mappings(FileBytes(&bytes), files.len())?);
            files.push(bytes);
        }
        mappings.retain(|mapping| mapping.size > 0);
        mappings.sort_by_key(|mapping| mapping.address);
        if mappings.windows(2).any(|pair| pair[0].address + pair[0].size > pair[1].address) {
            return Err(malformed_error("two of its mappings overlap"));
        }
        let mut cache =
            DyldCache { is_32_bit: header.arch == "arm64_32", header, files, mappings, images, locals: None };
        cache.locals = cache.open_locals(name, &mut open)?;
        Ok(cache)
    }

    fn open_locals(
        &self,
        name: &str,
        open: &mut impl FnMut(&str) -> Result<Option<Bytes>, DyldCacheError>,
    ) -> Result<Option<(Bytes, CacheLocalSymbols)>, DyldCacheError> {
        let file = match self.header.symbols_uuid {
            Some(uuid) => {
                let file = format!("{}{SYMBOLS_SUFFIX}", self.header.base_name(name));
                let Some(bytes) = open(&file)? else { return Ok(None) };
                check_uuid(&bytes, &file, uuid)?;
                Some(bytes)
            }
            None => self.files.first().cloned(),
        };
        let Some(bytes) = file else { return Ok(None) };
        let locals =
            CacheLocalSymbols::read_chunk(FileBytes(&bytes), self.header.has_wide_locals, self.nlist_size())?;
        Ok(locals.map(|locals| (bytes, locals)))
    }

    /// Returns the facts in the main file's header.
    #[must_use]
    pub fn header(&self) -> &CacheHeader {
        &self.header
    }

    /// Returns the libraries, by path.
    #[must_use]
    pub fn images(&self) -> &[CacheImage] {
        &self.images
    }

    /// Returns true if the cache has a file with local symbols, and it was not there.
    #[must_use]
    pub fn lacks_locals(&self) -> bool {
        self.header.symbols_uuid.is_some() && self.locals.is_none()
    }

    /// Returns the names of one library.
    ///
    /// # Errors
    /// Returns an error if the library's load commands or tables are damaged.
    pub fn read_names(&self, image: &CacheImage) -> Result<ImageNames<'_>, DyldCacheError> {
        let read = image::read_tables(self, image)?;
        let locals = self.locals.as_ref().and_then(|(file, locals)| {
            let offset = self.offset_for_locals(image.address)?;
            locals.find_image(FileBytes(file), offset, self.nlist_size())
        });
        merge::merge_names(image, &read, locals.as_ref(), self.is_32_bit)
    }

    /// Returns the number by which the table of local symbols knows the image at an address.
    fn offset_for_locals(&self, address: u64) -> Option<u64> {
        if self.header.has_wide_locals {
            return address.checked_sub(self.header.base);
        }
        let mapping = self.find_mapping(address)?;
        Some(mapping.file_offset + (address - mapping.address))
    }

    fn nlist_size(&self) -> u64 {
        if self.is_32_bit { 12 } else { 16 }
    }

    fn find_mapping(&self, address: u64) -> Option<&CacheMapping> {
        let index = self.mappings.partition_point(|mapping| mapping.address <= address).checked_sub(1)?;
        self.mappings.get(index).filter(|mapping| address - mapping.address < mapping.size)
    }

    /// Returns the bytes from an address to the end of its mapping.
    fn bytes_at(&self, address: u64) -> Option<&[u8]> {
        let mapping = self.find_mapping(address)?;
        let skip = address - mapping.address;
        let file = self.files.get(mapping.file)?;
        FileBytes(file).read_range(mapping.file_offset + skip, mapping.size - skip)
    }

    /// Returns the whole file that maps an address.
    fn file_at(&self, address: u64) -> Option<FileBytes<'_>> {
        self.files.get(self.find_mapping(address)?.file).map(|file| FileBytes(file))
    }
}

fn check_uuid(bytes: &[u8], file: &str, expected: DebugId) -> Result<(), DyldCacheError> {
    header_size(FileBytes(bytes)).map_err(|_| DyldCacheError::Unreadable {
        file: file.to_owned(),
        reason: "it is no part of a dyld shared cache".to_owned(),
    })?;
    match FileBytes(bytes).read_uuid(0x58) {
        Some(found) if found != expected => Err(DyldCacheError::ForeignFile {
            file: file.to_owned(),
            found: found.to_string(),
            expected: expected.to_string(),
        }),
        _ => Ok(()),
    }
}

/// Returns the name of the main file of the cache that a file belongs to, which may be the file itself. `None` if the
/// name is not one of a cache.
#[must_use]
pub fn main_file_name(name: &str) -> Option<String> {
    let start = name.rfind("cache_")? + "cache_".len();
    let end = name.get(start..)?.find('.').map_or(name.len(), |dot| start + dot);
    let (main, rest) = name.split_at_checked(end)?;
    let is_development = rest.split('.').any(|part| part == "development");
    Some(if is_development { format!("{main}.development") } else { main.to_owned() })
}

//! Local symbols, which a cache keeps apart from its images: in a file of their own, or at the end of a single file.

use super::error::{DyldCacheError, malformed_error};
use super::header::FileBytes;
use super::{MAX_IMAGES, MAX_NAMES};
use std::collections::HashMap;

const CHUNK_HEADER_SIZE: u64 = 24;

/// Range of one image's records in the table of local symbols.
#[derive(Clone, Copy, Debug)]
struct LocalRange {
    first: u32,
    count: u32,
}

/// The local symbols of all images.
#[derive(Debug)]
pub(super) struct CacheLocalSymbols {
    /// Offset of the table in its file.
    table: u64,
    /// Records of the table.
    records: u32,
    /// Range of the names in the file.
    names: (u64, u64),
    by_image: HashMap<u64, LocalRange>,
}

/// One image's records, and the names that they refer to.
pub(super) struct ImageLocals<'a> {
    pub(super) table: &'a [u8],
    pub(super) names: &'a [u8],
}

impl CacheLocalSymbols {
    /// Reads the chunk that a header names; `None` if it has none. `nlist` is the size of a record.
    pub(super) fn read_chunk(
        file: FileBytes<'_>,
        is_wide: bool,
        nlist: u64,
    ) -> Result<Option<CacheLocalSymbols>, DyldCacheError> {
        let outside = || malformed_error("the local symbols leave their file");
        let (at, size) = (file.read_u64(0x48).unwrap_or_default(), file.read_u64(0x50).unwrap_or_default());
        if size < CHUNK_HEADER_SIZE {
            return Ok(None);
        }
        let chunk = FileBytes(file.read_range(at, size).ok_or_else(outside)?);
        let field = |field: u64| chunk.read_u32(4 * field).unwrap_or_default();
        let (table, records) = (u64::from(field(0)), field(1));
        let (names, names_size) = (u64::from(field(2)), u64::from(field(3)));
        let (entries, count) = (u64::from(field(4)), u64::from(field(5)));
        if count > 2 * MAX_IMAGES || u64::from(records) > MAX_NAMES {
            return Err(DyldCacheError::TooLarge("it has more local symbols than any real cache"));
        }
        let entry_size = if is_wide { 16 } else { 12 };
        let entries = chunk.read_table(entries, count, entry_size).ok_or_else(outside)?;
        chunk.read_table(table, records.into(), nlist).ok_or_else(outside)?;
        chunk.read_range(names, names_size).ok_or_else(outside)?;
        let mut by_image = HashMap::new();
        for entry in entries.chunks_exact(entry_size as usize).map(FileBytes) {
            let image = if is_wide { entry.read_u64(0) } else { entry.read_u32(0).map(u64::from) };
            let number = |back: u64| entry.read_u32(entry_size - back).unwrap_or_default();
            let range = LocalRange { first: number(8), count: number(4) };
            if range.first.checked_add(range.count).is_none_or(|end| end > records) {
                return Err(outside());
            }
            by_image.insert(image.unwrap_or_default(), range);
        }
        Ok(Some(CacheLocalSymbols { table: at + table, records, names: (at + names, names_size), by_image }))
    }

    /// Returns the symbols of the image at an offset.
    pub(super) fn find_image<'a>(
        &self,
        file: FileBytes<'a>,
        image: u64,
        nlist: u64,
    ) -> Option<ImageLocals<'a>> {
        let range = self.by_image.get(&image)?;
        let table = file.read_table(self.table, self.records.into(), nlist)?;
        let table = FileBytes(table).read_table(u64::from(range.first) * nlist, range.count.into(), nlist)?;
        Some(ImageLocals { table, names: file.read_range(self.names.0, self.names.1)? })
    }
}

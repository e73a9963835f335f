//! The look-up table of a source map, read in place.
//!
//! It is stored as the texts of a [symcache](crate::symcache) without machine code and with the CPU type
//! [`CpuType::JAVASCRIPT`](unslide_model::CpuType::JAVASCRIPT), so that it is stored, fetched, checked and deleted like every
//! symcache.
//!
//! # Format, version 2
//!
//! All numbers are little-endian u32 and need no alignment. `0xFFFF_FFFF` means none.
//!
//! | offset | size | header field |
//! |---|---|---|
//! | 0 | 8 | `UNSLDJSM` |
//! | 8 | 4 | version |
//! | 12 | 4 × 5 | counts: lines, mappings, sources, context lines, bytes of texts |
//!
//! | section | record | meaning |
//! |---|---|---|
//! | lines | u32 × (lines + 1) | number of mappings above each line of the bundle |
//! | mappings | u32 × 6 | column in the bundle, source, line and column in it, name, function; ascending in each line |
//! | sources | u32 × 4 | path, flags, first context line, number of them |
//! | context lines | u32 | text of each line of the sources, cut to [`MOST_CONTEXT_BYTES`] |
//! | texts | u32 length, bytes | UTF-8, escaped for a JSON string, without the quotes |
//! | parts, to the end | u32 × 4 | segment, module or none for the whole segment, first line, end line; ascending |
//!
//! Lines and columns are from 0; an end line is the one after the last. A name, a function, a path and a
//! context line are offsets into the texts. A source has flag 1 if it belongs to a library. It has flag 2 if
//! its functions were found in its text and not in a function map: a position without a function is then in an
//! anonymous function or in none. The path is empty if the map has null instead.

use super::mappings::NO_INDEX;
use std::ops::Range;
use unslide_report::{BundleModule, Text};

pub(super) const TABLE_MAGIC: &[u8; 8] = b"UNSLDJSM";
pub(super) const TABLE_VERSION: u32 = 2;
/// Flags of a source.
pub(super) const SOURCE_IS_LIBRARY: u32 = 1;
pub(super) const SOURCE_HAS_SCOPES: u32 = 2;
pub(super) const HEADER_SIZE: usize = 32;
pub(super) const MAPPING_SIZE: usize = 24;
pub(super) const SOURCE_SIZE: usize = 16;
const PART_SIZE: usize = 16;
/// The most bytes of a name or a path, before escaping; a longer one is cut.
pub(super) const MOST_NAME_BYTES: usize = 1_000;
/// The most bytes of a line of source, before escaping; a longer one is cut.
pub(super) const MOST_CONTEXT_BYTES: usize = 200;

/// A table over its bytes.
#[derive(Clone, Copy)]
pub(crate) struct SourceMapTable<'a> {
    lines: &'a [u8],
    mappings: &'a [u8],
    sources: &'a [u8],
    context: &'a [u8],
    texts: &'a [u8],
    parts: &'a [u8],
}

/// The source position of code in a bundle.
#[derive(Clone, Copy)]
pub(crate) struct MappedPlace<'a> {
    /// None if the map does not name the source.
    pub(crate) file: Option<Text<'a>>,
    /// From 0.
    pub(crate) line: u32,
    /// From 0.
    pub(crate) column: u32,
    /// The name at that position, which is not the function around it.
    pub(crate) name: Option<Text<'a>>,
    /// The function around it.
    pub(crate) function: Option<Text<'a>>,
    /// True if the source's functions were found in its text: without a function, the position is in no named
    /// one.
    pub(crate) has_scopes: bool,
    pub(crate) is_library: bool,
    source: usize,
}

fn read_number(bytes: &[u8], index: usize) -> Option<u32> {
    let at = index.checked_mul(4)?;
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'a> SourceMapTable<'a> {
    /// Checks the header and the length.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<SourceMapTable<'a>> {
        if !bytes.starts_with(TABLE_MAGIC) || read_number(bytes, 2)? != TABLE_VERSION {
            return None;
        }
        let count = |index: usize| Some(read_number(bytes, 3 + index)? as usize);
        let mut rest = bytes.get(HEADER_SIZE..)?;
        let mut section = |count: usize, size: usize| {
            let (own, behind) = rest.split_at_checked(count.checked_mul(size)?)?;
            rest = behind;
            Some(own)
        };
        let lines = section(count(0)?.checked_add(1)?, 4)?;
        let mappings = section(count(1)?, MAPPING_SIZE)?;
        let sources = section(count(2)?, SOURCE_SIZE)?;
        let context = section(count(3)?, 4)?;
        let texts = section(count(4)?, 1)?;
        let parts = rest;
        parts.len().is_multiple_of(PART_SIZE).then_some(SourceMapTable {
            lines,
            mappings,
            sources,
            context,
            texts,
            parts,
        })
    }

    /// Returns the lines of a part of the bundle, or of the bundle without its other segments; `None` if the
    /// map has no such part.
    pub(crate) fn find_part(&self, part: Option<BundleModule>) -> Option<Range<u32>> {
        if part.is_none() && self.parts.is_empty() {
            return Some(0..u32::try_from(self.lines.len() / 4 - 1).ok()?);
        }
        let wanted = part.map_or((0, NO_INDEX), |part| (part.segment, part.module.unwrap_or(NO_INDEX)));
        let field = |place: usize, index: usize| read_number(self.parts, place.checked_mul(4)? + index);
        let (mut low, mut high) = (0, self.parts.len() / PART_SIZE);
        while low < high {
            let middle = low + (high - low) / 2;
            if (field(middle, 0)?, field(middle, 1)?) < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        ((field(low, 0)?, field(low, 1)?) == wanted).then_some(field(low, 2)?..field(low, 3)?)
    }

    /// Returns the source position of a line and a column of the bundle, both from 0: the last mapping of the
    /// same line that begins at or before it.
    pub(crate) fn lookup(&self, line: u32, column: u32) -> Option<MappedPlace<'a>> {
        let bound = |line: usize| Some(read_number(self.lines, line)? as usize);
        let (mut low, mut high) = (bound(line as usize)?, bound(line as usize + 1)?);
        let first = low;
        while low < high {
            let middle = low + (high - low) / 2;
            if read_number(self.mappings, middle.checked_mul(6)?)? <= column {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low == first {
            return None;
        }
        self.read_place(low - 1)
    }

    fn read_place(&self, mapping: usize) -> Option<MappedPlace<'a>> {
        let field = |index: usize| read_number(self.mappings, mapping.checked_mul(6)? + index);
        let source = field(1).filter(|source| *source != NO_INDEX)? as usize;
        let path = read_number(self.sources, source.checked_mul(4)?)?;
        let flags = read_number(self.sources, source * 4 + 1)?;
        Some(MappedPlace {
            file: self.read_text(path).filter(|path| !path.is_empty()),
            line: field(2)?,
            column: field(3)?,
            name: self.read_text(field(4)?),
            function: self.read_text(field(5)?),
            has_scopes: flags & SOURCE_HAS_SCOPES != 0,
            is_library: flags & SOURCE_IS_LIBRARY != 0,
            source,
        })
    }

    /// Returns the line of a position with up to `around` lines on each side, and the number of the first one,
    /// from 0.
    pub(crate) fn find_context(&self, place: &MappedPlace<'a>, around: u32) -> Option<(u32, Vec<Text<'a>>)> {
        let of = |index: usize| read_number(self.sources, place.source.checked_mul(4)? + index);
        let (first, count) = (of(2)?, of(3)?);
        if place.line >= count {
            return None;
        }
        let from = place.line.saturating_sub(around);
        let to = place.line.saturating_add(around).saturating_add(1).min(count);
        let line = |line: u32| self.read_text(read_number(self.context, first.checked_add(line)? as usize)?);
        let lines: Option<Vec<_>> = (from..to).map(line).collect();
        Some((from, lines?))
    }

    fn read_text(&self, at: u32) -> Option<Text<'a>> {
        if at == NO_INDEX {
            return None;
        }
        let rest = self.texts.get(at as usize..)?;
        let length = read_number(rest, 0)? as usize;
        Some(Text::from_escaped(rest.get(4..)?.get(..length)?))
    }
}

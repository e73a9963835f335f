//! Base64 VLQ, the encoding of mappings in source maps: five bits per digit with the lowest first, bit 5 if
//! another digit follows, and the lowest bit of a number for its sign.

use crate::object::error::ObjectError;

/// Represents no source and no name.
pub(super) const NO_INDEX: u32 = u32::MAX;

pub(super) fn malformed_error(reason: impl std::fmt::Display) -> ObjectError {
    ObjectError::Malformed(format!("source map: {reason}").into())
}

/// A position in the bundle and the position in a source that it comes from. All numbers are from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) line: u32,
    pub(super) column: u32,
    /// [`NO_INDEX`] if the code comes from no source.
    pub(super) source: u32,
    pub(super) source_line: u32,
    pub(super) source_column: u32,
    /// The name at that position in the source; [`NO_INDEX`] without one.
    pub(super) name: u32,
}

/// Start of a section's mappings: in the bundle, and in the lists of all sources and names.
#[derive(Clone, Copy)]
pub(super) struct SectionStart {
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) sources: usize,
    pub(super) names: usize,
    /// The lengths of the lists, including this section's entries.
    pub(super) ends: (usize, usize),
}

/// Reads the mappings of a section and adds them to `out`.
pub(super) fn read_mappings(text: &str, at: SectionStart, out: &mut Vec<Mapping>) -> Result<(), ObjectError> {
    let sources = i64::try_from(at.sources).map_err(malformed_error)?;
    let names = i64::try_from(at.names).map_err(malformed_error)?;
    let (mut source, mut line, mut column, mut name) = (sources, 0_i64, 0_i64, names);
    for (index, group) in text.split(';').enumerate() {
        let generated_line = u32::try_from(index)
            .ok()
            .and_then(|index| at.line.checked_add(index))
            .ok_or_else(|| malformed_error("too many lines"))?;
        let mut generated = if index == 0 { i64::from(at.column) } else { 0 };
        for segment in group.split(',').map(str::trim).filter(|segment| !segment.is_empty()) {
            let (numbers, count) = segment_numbers::<5>(segment)?;
            if !matches!(count, 1 | 4 | 5) {
                return Err(malformed_error("a mapping has not 1, 4 or 5 numbers"));
            }
            generated += numbers[0];
            let mut mapping = Mapping {
                line: generated_line,
                column: to_position(generated)?,
                source: NO_INDEX,
                source_line: 0,
                source_column: 0,
                name: NO_INDEX,
            };
            if count >= 4 {
                source += numbers[1];
                line += numbers[2];
                column += numbers[3];
                mapping.source = to_index(source, sources, at.ends.0)?;
                (mapping.source_line, mapping.source_column) = (to_position(line)?, to_position(column)?);
            }
            if count == 5 {
                name += numbers[4];
                mapping.name = to_index(name, names, at.ends.1)?;
            }
            out.push(mapping);
        }
    }
    Ok(())
}

fn to_position(number: i64) -> Result<u32, ObjectError> {
    u32::try_from(number)
        .ok()
        .filter(|number| *number < NO_INDEX)
        .ok_or_else(|| malformed_error("a position below 0"))
}

fn to_index(number: i64, first: i64, end: usize) -> Result<u32, ObjectError> {
    let inside = number >= first && usize::try_from(number).is_ok_and(|number| number < end);
    let number = u32::try_from(number).ok().filter(|_| inside);
    number.ok_or_else(|| malformed_error("a mapping refers to no source or name of the map"))
}

/// Returns the numbers of a segment and their count, at most `MOST`. The others are 0.
fn segment_numbers<const MOST: usize>(segment: &str) -> Result<([i64; MOST], usize), ObjectError> {
    let (mut numbers, mut count) = ([0; MOST], 0);
    let (mut value, mut shift) = (0_i64, 0_u32);
    for byte in segment.bytes() {
        let digit = decode_digit(byte).ok_or_else(|| malformed_error("a mapping is no base64"))?;
        if count == MOST || shift > 32 {
            return Err(malformed_error("a mapping has too many numbers or digits"));
        }
        value |= i64::from(digit & 31) << shift;
        shift += 5;
        if digit & 32 == 0 {
            numbers[count] = if value & 1 == 1 { -(value >> 1) } else { value >> 1 };
            (count, value, shift) = (count + 1, 0, 0);
        }
    }
    if shift > 0 {
        return Err(malformed_error("a mapping ends within a number"));
    }
    Ok((numbers, count))
}

fn decode_digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// The function around each position of a source, by Metro's function map (`x_facebook_sources`) or by the
/// source's text. Metro's mappings are column, name and line; the line counts on over the whole text and begins
/// at 1.
#[derive(Debug)]
pub(super) struct FunctionMap {
    names: Vec<String>,
    /// Line from 1, column from 0, and name, ascending.
    starts: Vec<(u32, u32, u32)>,
}

impl FunctionMap {
    pub(super) fn from_mappings(names: Vec<String>, text: &str) -> Result<FunctionMap, ObjectError> {
        let (mut name, mut line) = (0_i64, 1_i64);
        let mut starts = Vec::new();
        for group in text.split(';') {
            let mut column = 0_i64;
            for segment in group.split(',').filter(|segment| !segment.is_empty()) {
                let (numbers, _) = segment_numbers::<3>(segment)?;
                column += numbers[0];
                name += numbers[1];
                line += numbers[2];
                starts.push((to_position(line)?, to_position(column)?, to_position(name)?));
            }
        }
        starts.sort_unstable();
        Ok(FunctionMap { names, starts })
    }

    /// Returns a map of known functions. Each start has the line from 1, the column from 0 and the name from
    /// which a function begins or continues, ascending. A number beyond the names means no function.
    pub(super) fn from_starts(names: Vec<String>, starts: Vec<(u32, u32, u32)>) -> FunctionMap {
        FunctionMap { names, starts }
    }

    /// Returns the function around a position of the source. The numbers are from 0.
    pub(super) fn find_around(&self, line: u32, column: u32) -> Option<&str> {
        let after =
            self.starts.partition_point(|start| (start.0, start.1) <= (line.saturating_add(1), column));
        let (.., name) = self.starts.get(after.checked_sub(1)?)?;
        self.names.get(*name as usize).map(String::as_str)
    }
}

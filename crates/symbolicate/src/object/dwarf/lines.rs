//! Line tables: for each address the file, line and column that the last row at or before it gives,
//! within the sequence that it lies in.

use super::units::{Dwarf, DwarfSlice, UnitFailure};
use crate::object::MAX_NAME_BYTES;
use crate::object::code::CodeMap;
use crate::symcache::Writer;
use gimli::{ColumnType, Unit};
use std::borrow::Cow;

/// A place in the source from an address on; line 0 is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineRow {
    pub(super) start: u32,
    pub(super) file: u32,
    pub(super) line: u32,
    pub(super) column: u32,
    /// False for the end of a sequence: nothing is known from here on.
    pub(super) known: bool,
}

/// The rows of a unit in order of address, without two at one address.
pub(super) struct Lines<'a> {
    pub(super) rows: Vec<LineRow>,
    files: Files<'a>,
}

struct Files<'a> {
    /// Path by index of the line table, as far as it has files; the inner `None` for an empty path.
    known: Vec<Option<Option<u32>>>,
    program: Option<gimli::IncompleteLineProgram<DwarfSlice<'a>>>,
    directory: &'a [u8],
}

/// Reads the line table of a unit, which is taken out of it.
pub(super) fn read<'a>(unit: &mut Unit<DwarfSlice<'a>>, code: &CodeMap) -> (Lines<'a>, gimli::Result<()>) {
    let directory = unit.comp_dir.map_or(&[][..], |d| d.slice());
    let program = unit.line_program.take();
    let (found, result) = program.clone().map_or((Vec::new(), Ok(())), |program| sequences(program, code));
    (Lines { rows: in_order(found), files: Files { known: Vec::new(), program, directory } }, result)
}

struct Sequence {
    high: u32,
    rows: Vec<LineRow>,
}

/// The sequences as far as the table can be read.
fn sequences<'a>(
    program: gimli::IncompleteLineProgram<DwarfSlice<'a>>,
    code: &CodeMap,
) -> (Vec<Sequence>, gimli::Result<()>) {
    let mut found: Vec<Sequence> = Vec::new();
    let mut current: Vec<LineRow> = Vec::new();
    let mut rows = program.rows();
    let result = loop {
        let row = match rows.next_row() {
            Ok(Some((_, row))) => row,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        if row.end_sequence() {
            let high = code.offset_after(row.address());
            let is_ahead = |high: &u32| current.first().is_some_and(|first| first.start < *high);
            if let Some(high) = high.filter(is_ahead) {
                found.push(Sequence { high, rows: std::mem::take(&mut current) });
            }
            current.clear();
            continue;
        }
        let Some(start) = code.offset(row.address()) else { continue };
        let column = match row.column() {
            ColumnType::LeftEdge => 0,
            ColumnType::Column(column) => u32::try_from(column.get()).unwrap_or(0),
        };
        let row = LineRow {
            start,
            file: u32::try_from(row.file_index()).unwrap_or(u32::MAX),
            line: row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0),
            column,
            known: true,
        };
        match current.last_mut() {
            // The last row at an address counts.
            Some(last) if last.start == start => *last = row,
            _ => current.push(row),
        }
    };
    (found, result)
}

/// The rows of all sequences in order of address, an end behind each sequence.
fn in_order(mut sequences: Vec<Sequence>) -> Vec<LineRow> {
    // An address belongs to the sequence that ends next after it, if that has begun.
    sequences.sort_by_key(|sequence| sequence.high);
    let mut out: Vec<LineRow> = Vec::new();
    let mut covered = 0;
    for mut sequence in sequences {
        sequence.rows.sort_by_key(|row| row.start);
        let first = sequence.rows.partition_point(|row| row.start <= covered).saturating_sub(1);
        let begin = sequence.rows.get(first).map_or(0, |row| row.start.max(covered));
        if begin >= sequence.high {
            continue;
        }
        // The end of the sequence before this one, where this one goes on from it.
        if out.last().is_some_and(|last| last.start == begin) {
            out.pop();
        }
        for (i, row) in sequence.rows[first..].iter().enumerate() {
            let start = if i == 0 { begin } else { row.start };
            if start < sequence.high {
                match out.last_mut() {
                    Some(last) if last.start == start => *last = LineRow { start, ..*row },
                    _ => out.push(LineRow { start, ..*row }),
                }
            }
        }
        out.push(LineRow { start: sequence.high, file: 0, line: 0, column: 0, known: false });
        covered = sequence.high;
    }
    out
}

impl Lines<'_> {
    /// The path at an index of the line table, as the writer knows it.
    pub(super) fn path(
        &mut self,
        index: u64,
        dwarf: &Dwarf<'_>,
        writer: &mut Writer,
    ) -> Result<Option<u32>, UnitFailure> {
        let Some(at) = self.files.place(index) else { return Ok(None) };
        if let Some(Some(known)) = self.files.known.get(at) {
            return Ok(*known);
        }
        let path = self.files.path(at, dwarf);
        let file = match path {
            Some(path) if !path.is_empty() => Some(writer.path(&path)?),
            _ => None,
        };
        if self.files.known.len() <= at {
            self.files.known.resize(at + 1, None);
        }
        self.files.known[at] = Some(file);
        Ok(file)
    }
}

impl Files<'_> {
    /// Where in the table the file of an index is; `None` where there is none.
    fn place(&self, index: u64) -> Option<usize> {
        let header = self.program.as_ref()?.header();
        from_base(header.version(), index).filter(|at| *at < header.file_names().len())
    }

    /// The path as LLVM joins it: directory of the compilation, directory of the file, name.
    fn path(&self, at: usize, dwarf: &Dwarf<'_>) -> Option<String> {
        let header = self.program.as_ref()?.header();
        let entry = header.file_names().get(at)?;
        let text =
            |value| dwarf.attr_line_string(value).map_or(Cow::default(), |text| text.to_string_lossy());
        let name = text(entry.path_name());
        let mut path = String::new();
        if !is_absolute(&name) {
            let directory = from_base(header.version(), entry.directory_index())
                .and_then(|at| header.include_directories().get(at));
            let directory = directory.map_or(Cow::Borrowed(""), |value| text(*value));
            if (header.version() < 5 || entry.directory_index() != 0) && !is_absolute(&directory) {
                let most = self.directory.len().min(MAX_NAME_BYTES);
                append(&mut path, &String::from_utf8_lossy(&self.directory[..most]));
            }
            append(&mut path, &directory);
        }
        append(&mut path, &name);
        truncate(&mut path, MAX_NAME_BYTES);
        Some(path)
    }
}

/// Where in a table the entry of an index is. Up to version 4 indexes begin at 1: 0 is no file, and as a
/// directory that of the compilation.
fn from_base(version: u16, index: u64) -> Option<usize> {
    usize::try_from(if version >= 5 { index } else { index.checked_sub(1)? }).ok()
}

fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    let drive = matches!(bytes, [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    path.starts_with('/') || path.starts_with("\\\\") || drive
}

fn append(path: &mut String, part: &str) {
    if part.is_empty() {
        return;
    }
    if path.ends_with('/') {
        path.push_str(part.trim_start_matches('/'));
        return;
    }
    if !path.is_empty() && !part.starts_with('/') {
        path.push('/');
    }
    path.push_str(part);
}

fn truncate(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_as_llvm_does() {
        let joined = |parts: &[&str]| {
            let mut path = String::new();
            parts.iter().for_each(|part| append(&mut path, part));
            path
        };
        assert_eq!(joined(&["/a", "b", "c.c"]), "/a/b/c.c");
        assert_eq!(joined(&["/a/", "", "/c.c"]), "/a/c.c");
        assert_eq!(joined(&["", "c.c"]), "c.c");
        assert!(is_absolute("C:\\x") && is_absolute("C:/x") && is_absolute("/x") && !is_absolute("C:x"));
    }

    #[test]
    fn a_long_path_is_cut_between_characters() {
        let mut text = "aé".repeat(4);
        truncate(&mut text, 5);
        assert_eq!(text, "aéa");
    }
}

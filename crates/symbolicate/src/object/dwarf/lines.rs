//! Line tables: for each address the file, line and column of the last row at or before it, within its
//! sequence.

use super::sections::{Dwarf, DwarfSlice, UnitFailure};
use super::units::Units;
use crate::object::MAX_NAME_BYTES;
use crate::object::ObjectError;
use crate::object::code::CodeMap;
use crate::object::steps::{ObjectPart, Steps};
use crate::symcache::Writer;
use gimli::{ColumnType, IncompleteLineProgram, Unit};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use unslide_model::first_bytes;

/// A source position that applies from an address on; line 0 is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineRow {
    pub(super) start: u32,
    pub(super) file: u32,
    pub(super) line: u32,
    pub(super) column: u32,
    /// False for the end of a sequence: nothing is known after it.
    pub(super) known: bool,
    /// True if the function has set up its stack frame here.
    pub(super) prologue_end: bool,
    /// True if the function begins to tear down its stack frame here.
    pub(super) epilogue_begin: bool,
}

impl LineRow {
    /// The end of a sequence. The caller sets its address.
    const SEQUENCE_END: LineRow = LineRow {
        start: 0,
        file: 0,
        line: 0,
        column: 0,
        known: false,
        prologue_end: false,
        epilogue_begin: false,
    };
}

/// The rows of a line program in order of address, at most one per address.
pub(super) struct LineTable {
    pub(super) rows: Vec<LineRow>,
    /// Addresses at which functions have set up their stack frames.
    pub(super) prologues: Vec<u32>,
    /// Addresses at which functions begin to tear down their stack frames.
    pub(super) epilogues: Vec<u32>,
    /// The reason why the program ends early.
    failure: Option<gimli::Error>,
}

/// The line table of a unit and the files that it names.
pub(super) struct Lines<'a> {
    pub(super) table: Rc<LineTable>,
    files: Files<'a>,
}

struct Files<'a> {
    /// Paths by index of the line table, for each of its files; the inner `None` is an empty path.
    known: Vec<Option<Option<u32>>>,
    program: Option<gimli::IncompleteLineProgram<DwarfSlice<'a>>>,
    directory: &'a [u8],
}

/// The line programs of an object. A program that several units share runs once.
pub(super) struct LineTables<'p> {
    code: &'p CodeMap,
    steps: &'p Steps,
    /// Offsets of the programs that several units share, ascending.
    shared: &'p [usize],
    /// Their tables, by offset and size of an address.
    tables: HashMap<(usize, u8), Rc<LineTable>>,
}

impl<'p> LineTables<'p> {
    pub(super) fn new(code: &'p CodeMap, shared: &'p [usize], steps: &'p Steps) -> LineTables<'p> {
        LineTables { code, steps, shared, tables: HashMap::new() }
    }

    /// Reads the line table of a unit and takes its line program. Also returns why the table ends early, if it
    /// does.
    ///
    /// # Errors
    /// Returns an error if the object takes too many steps.
    pub(super) fn read_table<'a>(
        &mut self,
        unit: &mut Unit<DwarfSlice<'a>>,
    ) -> Result<(Lines<'a>, Option<gimli::Error>), ObjectError> {
        let directory = unit.comp_dir.map_or(&[][..], |d| d.slice());
        let address_bytes = unit.header.address_size();
        let program = unit.line_program.take();
        let table = match &program {
            None => Rc::new(LineTable::from_sequences(Vec::new(), None)),
            Some(program) => self.find_table(program, address_bytes)?,
        };
        let failure = table.failure;
        Ok((Lines { table, files: Files { known: Vec::new(), program, directory } }, failure))
    }

    fn find_table(
        &mut self,
        program: &gimli::IncompleteLineProgram<DwarfSlice<'_>>,
        address_bytes: u8,
    ) -> Result<Rc<LineTable>, ObjectError> {
        let key = (program.header().offset().0, address_bytes);
        if let Some(known) = self.tables.get(&key) {
            return Ok(Rc::clone(known));
        }
        // Programs may overlap. A row takes at least one byte.
        self.steps.take_steps(ObjectPart::Lines, program.header().raw_program_buf().len())?;
        let (found, failure) = read_sequences(program.clone(), self.code);
        let table = Rc::new(LineTable::from_sequences(found, failure));
        if self.shared.binary_search(&key.0).is_ok() {
            self.tables.insert(key, Rc::clone(&table));
        }
        Ok(table)
    }
}

impl LineTable {
    fn from_sequences(sequences: Vec<Sequence>, failure: Option<gimli::Error>) -> LineTable {
        let rows = in_order(sequences);
        let rows_with = |is_marked: fn(&LineRow) -> bool| {
            rows.iter().filter(|row| is_marked(row)).map(|row| row.start).collect::<Vec<u32>>()
        };
        let (prologues, epilogues) = (rows_with(|row| row.prologue_end), rows_with(|row| row.epilogue_begin));
        LineTable { rows, prologues, epilogues, failure }
    }
}

struct Sequence {
    high: u32,
    rows: Vec<LineRow>,
}

/// Reads sequences as far as possible. Also returns why the table ends early.
fn read_sequences<'a>(
    program: gimli::IncompleteLineProgram<DwarfSlice<'a>>,
    code: &CodeMap,
) -> (Vec<Sequence>, Option<gimli::Error>) {
    let mut found: Vec<Sequence> = Vec::new();
    let mut current: Vec<LineRow> = Vec::new();
    let mut rows = program.rows();
    let failure = loop {
        let row = match rows.next_row() {
            Ok(Some((_, row))) => row,
            Ok(None) => break None,
            Err(error) => break Some(error),
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
        let Some(start) = code.offset_at(row.address()) else { continue };
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
            prologue_end: row.prologue_end(),
            epilogue_begin: row.epilogue_begin(),
        };
        match current.last_mut() {
            // The last row at an address counts, with the marks of the earlier ones.
            Some(last) if last.start == start => {
                let prologue_end = row.prologue_end || last.prologue_end;
                let epilogue_begin = row.epilogue_begin || last.epilogue_begin;
                *last = LineRow { prologue_end, epilogue_begin, ..row };
            }
            _ => current.push(row),
        }
    };
    (found, failure)
}

/// Returns the rows of all sequences in order of address, with an end after each sequence.
fn in_order(mut sequences: Vec<Sequence>) -> Vec<LineRow> {
    // An address belongs to the sequence that ends next after it, if that one has begun.
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
        // The end of the previous sequence is dropped if this one continues from it.
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
        out.push(LineRow { start: sequence.high, ..LineRow::SEQUENCE_END });
        covered = sequence.high;
    }
    out
}

/// Returns the paths of all files that the line tables name. Damaged units name none.
///
/// # Errors
/// Returns an error if the object takes too many steps.
pub(super) fn list_paths(units: &Units<'_>, steps: &Steps) -> Result<BTreeSet<String>, ObjectError> {
    let (mut paths, mut read) = (BTreeSet::new(), HashSet::new());
    for index in 0..units.len() {
        let Some(mut unit) = units.unit_with_lines(index) else { continue };
        let Some(program) = unit.line_program.take() else { continue };
        let directory = unit.comp_dir.map_or(&[][..], |d| d.slice());
        // Units may share a table. A relative path in it depends on the unit.
        if !read.insert((program.header().offset().0, directory)) {
            continue;
        }
        let count = program.header().file_names().len();
        let files = Files { known: Vec::new(), program: Some(program), directory };
        for at in 0..count {
            paths.extend(files.join_path(at, &units.dwarf, steps)?);
        }
    }
    Ok(paths)
}

impl Lines<'_> {
    /// Returns the writer's number of the path at an index of the line table.
    pub(super) fn find_path(
        &mut self,
        index: u64,
        dwarf: &Dwarf<'_>,
        steps: &Steps,
        writer: &mut Writer,
    ) -> Result<Option<u32>, UnitFailure> {
        let Some(at) = self.files.file_position(index) else { return Ok(None) };
        if let Some(Some(known)) = self.files.known.get(at) {
            return Ok(*known);
        }
        let path = self.files.join_path(at, dwarf, steps)?;
        let file = match path {
            Some(path) if !path.is_empty() => Some(writer.add_path(&path)?),
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
    /// Returns the position of an index in the table of files; `None` if it has none.
    fn file_position(&self, index: u64) -> Option<usize> {
        let header = self.program.as_ref()?.header();
        from_base(header.version(), index).filter(|at| *at < header.file_names().len())
    }

    /// Joins the path as LLVM does: directory of the compilation, directory of the file, name.
    fn join_path(&self, at: usize, dwarf: &Dwarf<'_>, steps: &Steps) -> Result<Option<String>, ObjectError> {
        let Some(header) = self.program.as_ref().map(IncompleteLineProgram::header) else { return Ok(None) };
        let Some(entry) = header.file_names().get(at) else { return Ok(None) };
        let read_bytes = Cell::new(self.directory.len().min(MAX_NAME_BYTES));
        let text = |value| {
            let text = dwarf.attr_line_string(value).map_or(&[][..], |text| text.slice());
            read_bytes.set(read_bytes.get() + text.len());
            String::from_utf8_lossy(text.get(..MAX_NAME_BYTES).unwrap_or(text))
        };
        let name = text(entry.path_name());
        let mut path = String::new();
        if !is_absolute(&name) {
            let directory = from_base(header.version(), entry.directory_index())
                .and_then(|at| header.include_directories().get(at));
            let directory = directory.map_or(Cow::Borrowed(""), |value| text(*value));
            if (header.version() < 5 || entry.directory_index() != 0) && !is_absolute(&directory) {
                let most = self.directory.len().min(MAX_NAME_BYTES);
                append_path(&mut path, &String::from_utf8_lossy(&self.directory[..most]));
            }
            append_path(&mut path, &directory);
        }
        append_path(&mut path, &name);
        truncate_text(&mut path, MAX_NAME_BYTES);
        steps.take_bytes(ObjectPart::Lines, read_bytes.get())?;
        Ok(Some(path))
    }
}

/// Returns the position of an index in a table. Up to version 4 indexes begin at 1: index 0 is no file, and as
/// a directory the one of the compilation.
fn from_base(version: u16, index: u64) -> Option<usize> {
    usize::try_from(if version >= 5 { index } else { index.checked_sub(1)? }).ok()
}

fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    let drive = matches!(bytes, [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    path.starts_with('/') || path.starts_with("\\\\") || drive
}

fn append_path(path: &mut String, part: &str) {
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

fn truncate_text(text: &mut String, most: usize) {
    if text.len() > most {
        *text = first_bytes(text, most).to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_as_llvm_does() {
        let joined = |parts: &[&str]| {
            let mut path = String::new();
            parts.iter().for_each(|part| append_path(&mut path, part));
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
        truncate_text(&mut text, 5);
        assert_eq!(text, "aéa");
    }
}

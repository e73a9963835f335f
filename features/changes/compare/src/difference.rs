//! The difference between the code of a function in two builds.

use crate::function_table::{CodeFunction, CodeRow, ComparedCode, FunctionTable, InlinedCall};
use crate::pairing::Pairing;
use std::collections::{BTreeMap, BTreeSet};

/// How far the lines or calls of a function differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DifferenceKind {
    /// Nothing differs, except perhaps empty lines or comments.
    Nothing,
    /// Other calls are inlined, or the code has other bytes; its lines are the same.
    CodeOnly,
    /// One of the builds lacks code of lines or columns that the other has. A change of an inlined call may cause it.
    SomeLines,
    /// Each of the builds has lines that the other lacks: the function was edited.
    Lines,
}

/// What differs between a function in two builds.
#[derive(Clone, Debug)]
pub(crate) struct FunctionDifference {
    pub(crate) kind: DifferenceKind,
    /// The code of both builds that was compared.
    pub(crate) code: ComparedCode,
    /// True if its first line is another one.
    pub(crate) is_moved: bool,
    /// True if its own code has other bytes, and its own lines in it have, too.
    pub(crate) has_other_bytes: bool,
    /// Functions of the build after in whose code the bytes of its own lines differ.
    pub(crate) resized_in: Vec<u32>,
    /// True if these bytes are the same in the code of a further function.
    pub(crate) has_equal_bytes: bool,
    /// Lines from the first to the last one that are more in the build after.
    pub(crate) lines_more: i64,
    /// The first line in the build after that differs.
    pub(crate) changed_line: Option<u32>,
    /// Functions of the build after that are inlined into it there alone.
    pub(crate) new_calls: BTreeSet<u32>,
    /// Functions of the build before that are inlined into it there alone.
    pub(crate) lost_calls: BTreeSet<u32>,
}

/// A row in a part of a function: the number of the part, the line relative to the first one of the part, and the column. Code of
/// other functions lies between parts: closures, and members of the type of a constructor.
type Place = (u32, u32, u16);

/// Compares a function of the build before with that of the build after.
pub(crate) fn compare_functions(
    tables: [&FunctionTable<'_>; 2],
    pairing: &Pairing,
    [before, after]: [&CodeFunction<'_>; 2],
) -> FunctionDifference {
    let [before_table, after_table] = tables;
    let has_own_code = before.size > 0 && after.size > 0;
    let code = if has_own_code { ComparedCode::Own } else { ComparedCode::All };
    let rows = [before_table.rows_of(before, code), after_table.rows_of(after, code)];
    let [old_rows, new_rows] = [rows[0].as_ref(), rows[1].as_ref()];
    let calls = [before_table.calls_of(before, code), after_table.calls_of(after, code)];
    // Calls by the numbers of the build before; a function that it lacks is none of these.
    let pair_of = |callee: u32| match pairing.before.get(callee as usize).copied().flatten() {
        Some(pair) => u64::from(pair),
        None => u64::from(callee) | 1 << 32,
    };
    let [old_starts, new_starts] = find_starts(tables, [before, after], [old_rows, new_rows]);
    let old_call =
        |call: &InlinedCall| (place_of(&old_starts, call.line, call.column), u64::from(call.callee));
    let new_call = |call: &InlinedCall| (place_of(&new_starts, call.line, call.column), pair_of(call.callee));
    let old_calls: BTreeSet<(Place, u64)> = calls[0].iter().map(old_call).collect();
    let new_calls: BTreeSet<(Place, u64)> = calls[1].iter().map(new_call).collect();
    let replaces = |call: &(Place, u64)| {
        !old_calls.contains(call) && old_calls.iter().any(|old| old.0 == call.0 && !new_calls.contains(old))
    };
    let old_callees: BTreeSet<u64> = old_calls.iter().map(|(_, callee)| *callee).collect();
    let new_callees: BTreeSet<u64> = new_calls.iter().map(|(_, callee)| *callee).collect();
    let bytes = compare_bytes(tables, pairing, [before, after]);
    let code_differs = before.size != after.size || !bytes.resized_in.is_empty();
    let lines = compare_places(&place_rows(&old_starts, old_rows), &place_rows(&new_starts, new_rows));
    let is_respaced = || !code_differs && old_callees == new_callees && have_same_columns(old_rows, new_rows);
    let kind = match lines {
        DifferenceKind::Nothing if new_calls.iter().any(replaces) => DifferenceKind::Lines,
        DifferenceKind::Nothing if code_differs || old_calls != new_calls => DifferenceKind::CodeOnly,
        DifferenceKind::Nothing => DifferenceKind::Nothing,
        _ if is_respaced() => DifferenceKind::Nothing,
        kind => kind,
    };
    let came = calls[1].iter().filter(|call| !old_callees.contains(&pair_of(call.callee)));
    let went = calls[0].iter().filter(|call| !new_callees.contains(&u64::from(call.callee)));
    let changed_line = (lines > DifferenceKind::CodeOnly)
        .then(|| find_changed_line(&old_starts, old_rows, &new_starts, new_rows))
        .flatten();
    FunctionDifference {
        kind,
        code,
        is_moved: start_line(old_rows) != start_line(new_rows),
        has_other_bytes: bytes.has_other_bytes && before.size != after.size,
        resized_in: bytes.resized_in,
        has_equal_bytes: bytes.has_equal_bytes,
        lines_more: span_of(new_rows) - span_of(old_rows),
        changed_line,
        new_calls: came.map(|call| call.callee).collect(),
        lost_calls: went.map(|call| call.callee).collect(),
    }
}

/// Returns the first line of a function: its rows are sorted.
pub(crate) fn start_line(rows: &[CodeRow]) -> u32 {
    rows.first().map_or(0, |row| row.line)
}

/// Returns the number of lines after the first one up to the last one.
fn span_of(rows: &[CodeRow]) -> i64 {
    rows.last().map_or(0, |row| i64::from(row.line - start_line(rows)))
}

#[derive(Default)]
struct ByteDifference {
    has_other_bytes: bool,
    has_equal_bytes: bool,
    resized_in: Vec<u32>,
}

/// Compares the bytes of a function's lines in its own code, and in that of each function into which both builds inline it.
fn compare_bytes(
    [before_table, after_table]: [&FunctionTable<'_>; 2],
    pairing: &Pairing,
    [before, after]: [&CodeFunction<'_>; 2],
) -> ByteDifference {
    let old: BTreeMap<u32, u64> =
        before_table.bytes_of(before).iter().map(|(_, owner, bytes)| (*owner, *bytes)).collect();
    let mut found = ByteDifference::default();
    for (function, owner, bytes) in after_table.bytes_of(after) {
        let pair = pairing.before.get(*owner as usize).copied().flatten();
        let Some(before) = pair.and_then(|pair| old.get(&pair)) else { continue };
        if before == bytes {
            found.has_equal_bytes = true;
        } else {
            found.has_other_bytes |= owner == function;
            found.resized_in.push(*owner);
        }
    }
    found
}

/// Returns the first lines of the parts of a function in both builds: one part if the builds have different numbers of them.
fn find_starts(
    tables: [&FunctionTable<'_>; 2],
    functions: [&CodeFunction<'_>; 2],
    rows: [&[CodeRow]; 2],
) -> [Vec<u32>; 2] {
    let starts = |at: usize| {
        let (table, function) = (tables[at], functions[at]);
        let mut starts = vec![start_line(rows[at])];
        for pair in rows[at].windows(2) {
            let [first, next] = pair else { continue };
            if next.line > first.line + 1 && table.has_code_between(function, first.line, next.line) {
                starts.push(next.line);
            }
        }
        starts
    };
    let found = [starts(0), starts(1)];
    if found[0].len() == found[1].len() { found } else { rows.map(|rows| vec![start_line(rows)]) }
}

fn place_of(starts: &[u32], line: u32, column: u16) -> Place {
    let part = starts.partition_point(|start| *start <= line).saturating_sub(1);
    let start = starts.get(part).copied().unwrap_or_default();
    (u32::try_from(part).unwrap_or(u32::MAX), line.saturating_sub(start), column)
}

fn place_rows(starts: &[u32], rows: &[CodeRow]) -> BTreeSet<Place> {
    rows.iter().map(|row| place_of(starts, row.line, row.column)).collect()
}

fn compare_places(old: &BTreeSet<Place>, new: &BTreeSet<Place>) -> DifferenceKind {
    if old == new {
        return DifferenceKind::Nothing;
    }
    let lines = |places: &BTreeSet<Place>| {
        places.iter().map(|(part, line, _)| (*part, *line)).collect::<BTreeSet<(u32, u32)>>()
    };
    let (old, new) = (lines(old), lines(new));
    if old.difference(&new).next().is_some() && new.difference(&old).next().is_some() {
        DifferenceKind::Lines
    } else {
        DifferenceKind::SomeLines
    }
}

/// Returns true if the builds differ by lines without code alone: the lines have the same columns in the same order.
fn have_same_columns(old: &[CodeRow], new: &[CodeRow]) -> bool {
    let lines = |rows: &[CodeRow]| {
        let lines = rows.chunk_by(|a, b| a.line == b.line);
        lines.map(|line| line.iter().map(|row| row.column).collect()).collect::<Vec<Vec<u16>>>()
    };
    old.len() == new.len() && lines(old) == lines(new)
}

/// Returns the line in the build after at the first difference.
fn find_changed_line(
    old_starts: &[u32],
    old: &[CodeRow],
    new_starts: &[u32],
    new: &[CodeRow],
) -> Option<u32> {
    let (old, placed) = (place_rows(old_starts, old), place_rows(new_starts, new));
    let (part, line, _) = old.symmetric_difference(&placed).next()?;
    let start = new_starts.get(*part as usize).copied().unwrap_or_default();
    let line = start.saturating_add(*line);
    Some(line.min(new.last().map_or(line, |row| row.line)))
}

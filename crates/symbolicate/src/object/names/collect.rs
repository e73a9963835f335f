//! Joins the names of one image from several tables.

use super::{NamedStart, StartName};
use std::ops::Range;

/// The most symbols of one address that are kept.
const MAX_ALIASES: usize = 64;

/// Table that a name comes from. Of several names of one address the last one is shown, so the names of the exports
/// come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameTable {
    FunctionStarts,
    Exports,
    Locals,
    SymbolTable,
}

/// A name in one table.
pub(crate) struct FoundName<'a> {
    /// Offset from `__TEXT`.
    pub(crate) offset: u32,
    pub(crate) table: NameTable,
    pub(crate) name: StartName<'a>,
}

/// Returns ascending sections of code without overlap, as offsets from the start of `__TEXT`. Sections outside it are
/// left out.
pub(crate) fn code_in_text(text: &Range<u64>, sections: impl Iterator<Item = Range<u64>>) -> Vec<Range<u32>> {
    let offset = |address: u64| u32::try_from(address.checked_sub(text.start)?).ok();
    let inside = sections.filter(|section| section.start < section.end && section.end <= text.end);
    let mut code: Vec<Range<u32>> =
        inside.filter_map(|section| Some(offset(section.start)?..offset(section.end)?)).collect();
    code.sort_by_key(|section| (section.start, section.end));
    code.dedup_by(|next, last| next.start < last.end);
    code
}

/// Returns the starts in code, ascending: each name once, and a withheld name only if there is no other.
pub(crate) fn collect_starts<'a>(mut found: Vec<FoundName<'a>>, code: &[Range<u32>]) -> Vec<NamedStart<'a>> {
    found.retain(|name| {
        let index = code.partition_point(|section| section.end <= name.offset);
        code.get(index).is_some_and(|section| section.start <= name.offset)
    });
    // Stable: the names of one table stay in its order.
    found.sort_by_key(|name| (name.offset, name.table));
    found.chunk_by(|a, b| a.offset == b.offset).flat_map(join_names).collect()
}

/// Joins the names of one address.
fn join_names<'a>(found: &[FoundName<'a>]) -> Vec<NamedStart<'a>> {
    let is_function_start = found.iter().any(|name| name.table == NameTable::FunctionStarts);
    let mut starts: Vec<NamedStart<'a>> = Vec::new();
    let last = found.get(found.len().saturating_sub(MAX_ALIASES)..).unwrap_or(found);
    for FoundName { offset, name, .. } in last.iter().filter(|found| found.name.as_bytes().is_some()) {
        let before = starts.iter().position(|start| start.name.as_bytes() == name.as_bytes());
        // A name that other images may call stays one.
        let known = before.map(|at| starts.remove(at).name);
        let known = known.filter(|known| matches!(known, StartName::External(_)));
        let name = known.unwrap_or_else(|| name.clone());
        starts.push(NamedStart { offset: *offset, name, is_function_start });
    }
    if let (true, Some(first)) = (starts.is_empty(), found.first()) {
        let is_withheld = found.iter().any(|found| found.name == StartName::Withheld);
        let name = if is_withheld { StartName::Withheld } else { StartName::Unnamed };
        starts.push(NamedStart { offset: first.offset, name, is_function_start });
    }
    starts
}

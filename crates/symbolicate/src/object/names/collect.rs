//! Joins the names of one image from several tables.

use super::{NamedStart, StartName};
use crate::object::exports::{read_uleb, walk_trie};
use crate::object::{ObjectError, Steps};
use std::ops::Range;
use unslide_model::SymbolName;

/// The most symbols of one address that are kept.
const MAX_ALIASES: usize = 64;

/// Table that a name comes from. Of several names of one address the last one is shown, so the names of the exports
/// come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameTable {
    /// `LC_FUNCTION_STARTS`, which has no names.
    FunctionStarts,
    /// The export trie.
    Exports,
    /// The local symbols that a dyld shared cache keeps apart from its images.
    Locals,
    /// The symbol table of the image.
    SymbolTable,
}

/// A name in one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundName<'a> {
    /// Offset from `__TEXT`.
    pub offset: u32,
    /// Table that has it.
    pub table: NameTable,
    /// The name, with the underscore of C names.
    pub name: StartName<'a>,
}

/// Returns the functions of an export trie.
///
/// # Errors
/// Returns an error if the trie is damaged or too complex for its size.
pub fn find_exports(trie: &[u8]) -> Result<Vec<FoundName<'static>>, ObjectError> {
    let exports = walk_trie(trie, 0, &Steps::for_object(trie.len() as u64))?;
    let functions = exports.into_iter().filter(|(name, _)| SymbolName::is_function(name));
    let found = functions.filter_map(|(name, offset)| {
        let name = StartName::External(as_symbol(&name).into());
        Some(FoundName { offset: u32::try_from(offset).ok()?, table: NameTable::Exports, name })
    });
    Ok(found.collect())
}

/// Returns the starts of functions in the table of `LC_FUNCTION_STARTS`, up to the first damaged one.
#[must_use]
pub fn find_function_starts(mut table: &[u8]) -> Vec<FoundName<'static>> {
    let mut starts = Vec::new();
    let mut last = 0_u32;
    while let Some(distance) = read_uleb(&mut table).filter(|distance| *distance > 0) {
        let next = u32::try_from(distance).ok().and_then(|distance| last.checked_add(distance));
        let Some(offset) = next else { break };
        starts.push(FoundName { offset, table: NameTable::FunctionStarts, name: StartName::Unnamed });
        last = offset;
    }
    starts
}

/// Returns ascending sections of code without overlap, as offsets from the start of `__TEXT`. Sections outside it are
/// left out.
pub(super) fn code_in_text(text: &Range<u64>, sections: impl Iterator<Item = Range<u64>>) -> Vec<Range<u32>> {
    let offset = |address: u64| u32::try_from(address.checked_sub(text.start)?).ok();
    let inside = sections.filter(|section| section.start < section.end && section.end <= text.end);
    let mut code: Vec<Range<u32>> =
        inside.filter_map(|section| Some(offset(section.start)?..offset(section.end)?)).collect();
    code.sort_by_key(|section| (section.start, section.end));
    code.dedup_by(|next, last| next.start < last.end);
    code
}

/// Returns the starts in code, ascending: each name once, and a withheld name only if there is no other.
pub(super) fn collect_starts<'a>(mut found: Vec<FoundName<'a>>, code: &[Range<u32>]) -> Vec<NamedStart<'a>> {
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

/// Returns a name as a symbol table has it: with the underscore of C names, which methods of Objective-C lack.
pub(super) fn as_symbol(name: &[u8]) -> Vec<u8> {
    let is_method = name.starts_with(b"-[") || name.starts_with(b"+[");
    if is_method { name.to_vec() } else { [b"_", name].concat() }
}

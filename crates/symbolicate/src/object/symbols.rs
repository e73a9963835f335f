//! Names and extents of functions from the symbol table, the export trie and the function starts.
//!
//! A Mach-O symbol has no size. It ends where the next symbol, the next function start or its section
//! ends, whichever comes first; what that proves is told by [`Extent::approximate`].

use super::code::CodeMap;
use super::macho::MachO;
use super::{Limits, ObjectError};
use crate::memory::Memory;
use crate::symcache::Source;
use std::borrow::Cow;

/// A named stretch of machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extent<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Linkage name, without the leading underscore of C names.
    pub(super) name: Cow<'a, str>,
    pub(super) source: Source,
    /// True where another function, without a name of its own, may lie before `end`.
    pub(super) approximate: bool,
}

/// The named stretches in order of address; they do not overlap, and what no name covers is left out.
/// Every section of code ends the stretches in it.
pub(super) fn extents<'a>(
    file: &MachO<'a>,
    code: &CodeMap,
    limits: &Limits,
    memory: &Memory,
) -> Result<Vec<Extent<'a>>, ObjectError> {
    // What is collected is given back once it is turned into extents.
    let collected = memory.share();
    let mut names: Vec<Name<'a>> = Vec::new();
    let mut has_locals = false;
    let is_code = |address| code.section(address).is_some();
    // Real names hardly overlap in the table.
    let mut name_bytes_left = 4 * file.symbol_names_size() + (1 << 20);
    for symbol in file.symbols(limits.max_name_bytes) {
        name_bytes_left = name_bytes_left
            .checked_sub(symbol.name.len())
            .ok_or_else(|| ObjectError::TooLarge("the names of symbols overlap".into()))?;
        if names.len() >= limits.max_symbols {
            return Err(ObjectError::TooLarge("too many symbols".into()));
        }
        if is_meaningless(symbol.name) || !is_code(symbol.address) {
            continue;
        }
        has_locals |= !symbol.is_external;
        let name = String::from_utf8_lossy(symbol.name);
        collected.take(owned_bytes(&name))?;
        collected.push(&mut names, Name { address: symbol.address, name, source: Source::Symtab })?;
    }
    // The last of the symbols at one address names it, as LLVM has it.
    names.sort_by_key(|name| name.address);
    names.reverse();
    names.dedup_by_key(|name| name.address);
    names.reverse();
    let exports = file.exports(limits, &collected)?;
    let from_table = names.len();
    for (name, address) in exports {
        let known = names[..from_table].binary_search_by_key(&address, |name| name.address).is_ok();
        if !known && !is_meaningless(&name) && is_code(address) {
            let name = Cow::Owned(String::from_utf8_lossy(&name).into_owned());
            collected.take(owned_bytes(&name))?;
            collected.push(&mut names, Name { address, name, source: Source::Exports })?;
        }
    }
    names.sort_by_key(|name| name.address);
    names.dedup_by_key(|name| name.address);

    let starts = file.function_starts(limits, &collected)?;
    memory.take(names.len() * size_of::<Extent<'_>>())?;
    let mut extents = Vec::with_capacity(names.len());
    let mut next_start = 0;
    for (i, name) in names.iter().enumerate() {
        while starts.get(next_start).is_some_and(|start| *start <= name.address) {
            next_start += 1;
        }
        let Some(end) = code.section(name.address).map(|s| s.end) else { continue };
        let next_name = names.get(i + 1).map_or(end, |next| next.address);
        let next_function = starts.get(next_start).copied().unwrap_or(end);
        // With function starts every end is known; without them only a table that still has its local
        // symbols is known to name each function.
        let is_function = next_start > 0 && starts[next_start - 1] == name.address;
        let known = if starts.is_empty() { has_locals && name.source == Source::Symtab } else { is_function };
        memory.take(owned_bytes(&name.name))?;
        extents.push(Extent {
            start: name.address,
            end: end.min(next_name).min(next_function),
            name: name.name.clone(),
            source: name.source,
            approximate: !known,
        });
    }
    Ok(extents)
}

/// Bytes that a name has of its own.
#[expect(clippy::ptr_arg, reason = "whether it is owned is the question")]
fn owned_bytes(name: &Cow<'_, str>) -> usize {
    match name {
        Cow::Borrowed(_) => 0,
        Cow::Owned(name) => name.capacity() + 16,
    }
}

struct Name<'a> {
    address: u64,
    name: Cow<'a, str>,
    source: Source,
}

/// Names that say nothing: none at all, and assemblers' temporary labels (`ltmp0`).
fn is_meaningless(name: &[u8]) -> bool {
    name.strip_prefix(b"ltmp").is_some_and(|rest| rest.iter().all(u8::is_ascii_digit)) || name.is_empty()
}

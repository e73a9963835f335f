//! Names and extents of functions from the symbol table, the export trie and the function starts.
//!
//! A Mach-O symbol has no size. It ends where the next symbol, the next function start or its section
//! ends, whichever comes first; what that proves is told by [`SymbolExtent::approximate`].

use super::code::CodeMap;
use super::macho::MachO;
use super::{MAX_NAME_BYTES, ObjectError};
use crate::symcache::NameSource;
use std::borrow::Cow;

/// A named stretch of machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SymbolExtent<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Linkage name, without the leading underscore of C names.
    pub(super) name: Cow<'a, str>,
    /// The other names of its start, sorted: aliases, and functions whose code the linker has found identical.
    folded: Vec<Cow<'a, str>>,
    pub(super) source: NameSource,
    /// True where another function, without a name of its own, may lie before `end`.
    pub(super) approximate: bool,
}

impl SymbolExtent<'_> {
    /// The name that belongs to what the debug information says of this code: its own, where a symbol has
    /// that name too, so that name and line are of one function; else the symbol table's.
    pub(super) fn name_beside(&self, linkage_name: Option<&[u8]>) -> &str {
        let same = |name: &Cow<'_, str>, own: &[u8]| name.as_bytes().cmp(own);
        let found = linkage_name.and_then(|own| self.folded.binary_search_by(|name| same(name, own)).ok());
        found.and_then(|at| self.folded.get(at)).unwrap_or(&self.name)
    }

    /// The names of this start without the one that is shown.
    pub(super) fn folded_with<'s>(&'s self, shown: &'s str) -> impl Iterator<Item = &'s str> {
        std::iter::once(&self.name).chain(&self.folded).map(|name| &**name).filter(move |name| *name != shown)
    }
}

/// The named stretches in order of address; they do not overlap, and what no name covers is left out.
/// Every section of code ends the stretches in it.
pub(super) fn extents<'a>(file: &MachO<'a>, code: &CodeMap) -> Result<Vec<SymbolExtent<'a>>, ObjectError> {
    let mut names: Vec<Name<'a>> = Vec::new();
    let mut has_locals = false;
    let is_code = |address| code.section(address).is_some();
    for symbol in file.symbols(MAX_NAME_BYTES) {
        if is_meaningless(symbol.name) || !is_code(symbol.address) {
            continue;
        }
        has_locals |= !symbol.is_external;
        let name = String::from_utf8_lossy(symbol.name);
        names.push(Name::new(symbol.address, name, NameSource::Symtab));
    }
    // The last of the symbols at one address names it, as LLVM has it.
    names.reverse();
    let mut names = join(names);
    let mut exported = Vec::new();
    for (name, address) in file.exports()? {
        let known = names.binary_search_by_key(&address, |name| name.address).is_ok();
        if !known && !is_meaningless(&name) && is_code(address) {
            let name = Cow::Owned(String::from_utf8_lossy(&name).into_owned());
            exported.push(Name::new(address, name, NameSource::Exports));
        }
    }
    names.extend(join(exported));
    names.sort_by_key(|name| name.address);

    let starts = file.function_starts();
    let mut extents = Vec::with_capacity(names.len());
    let mut next_start = 0;
    let ends: Vec<u64> = names.iter().skip(1).map(|next| next.address).collect();
    for (i, name) in names.into_iter().enumerate() {
        while starts.get(next_start).is_some_and(|start| *start <= name.address) {
            next_start += 1;
        }
        let Some(end) = code.section(name.address).map(|s| s.end) else { continue };
        let next_name = ends.get(i).copied().unwrap_or(end);
        let next_function = starts.get(next_start).copied().unwrap_or(end);
        // With function starts every end is known; without them only a table that still has its local
        // symbols is known to name each function.
        let is_function = next_start > 0 && starts[next_start - 1] == name.address;
        let known =
            if starts.is_empty() { has_locals && name.source == NameSource::Symtab } else { is_function };
        extents.push(SymbolExtent {
            start: name.address,
            end: end.min(next_name).min(next_function),
            name: name.name,
            folded: name.folded,
            source: name.source,
            approximate: !known,
        });
    }
    Ok(extents)
}

struct Name<'a> {
    address: u64,
    name: Cow<'a, str>,
    folded: Vec<Cow<'a, str>>,
    source: NameSource,
}

impl<'a> Name<'a> {
    fn new(address: u64, name: Cow<'a, str>, source: NameSource) -> Name<'a> {
        Name { address, name, folded: Vec::new(), source }
    }
}

/// One entry an address, in their order: the first name stands for it, and has the others.
fn join(mut names: Vec<Name<'_>>) -> Vec<Name<'_>> {
    names.sort_by_key(|name| name.address);
    let mut joined: Vec<Name<'_>> = Vec::new();
    for name in names {
        match joined.last_mut().filter(|first| first.address == name.address) {
            Some(first) if first.name == name.name => {}
            Some(first) => first.folded.push(name.name),
            None => joined.push(name),
        }
    }
    for name in &mut joined {
        name.folded.sort_unstable();
        name.folded.dedup();
    }
    joined
}

/// Names that say nothing: none at all, and assemblers' temporary labels (`ltmp0`).
fn is_meaningless(name: &[u8]) -> bool {
    name.strip_prefix(b"ltmp").is_some_and(|rest| rest.iter().all(u8::is_ascii_digit)) || name.is_empty()
}

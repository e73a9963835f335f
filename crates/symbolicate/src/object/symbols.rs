//! Names and extents of functions from the symbol table, the export trie and the function starts.
//!
//! A Mach-O symbol has no size. It ends at the next symbol, the next function start or the end of its section,
//! whichever comes first. [`SymbolExtent::approximate`] says how reliable that end is.

use super::code::CodeMap;
use super::macho::MachFile;
use super::steps::{ObjectPart, Steps};
use super::{MAX_NAME_BYTES, ObjectError};
use crate::symcache::NameSource;
use std::borrow::Cow;
use unslide_model::SymbolName;

/// A named stretch of machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SymbolExtent<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Linkage name, without the leading underscore of C names.
    pub(super) name: Cow<'a, str>,
    /// Other names at its start, sorted: aliases, and functions that the linker folded because their code is
    /// identical.
    folded: Vec<Cow<'a, str>>,
    pub(super) source: NameSource,
    /// True if another function, without a name of its own, may lie before `end`.
    pub(super) approximate: bool,
}

impl<'a> SymbolExtent<'a> {
    /// Returns a name with an unknown extent.
    fn new(start: u64, name: Cow<'a, str>, source: NameSource) -> SymbolExtent<'a> {
        SymbolExtent { start, end: start, name, folded: Vec::new(), source, approximate: true }
    }

    /// Returns the name that fits the debug information of this code. Prefers the linkage name if a symbol has
    /// it too, so that name and line belong to one function. Otherwise returns the symbol table's name.
    pub(super) fn name_beside(&self, linkage_name: Option<&[u8]>) -> &str {
        let same = |name: &Cow<'_, str>, own: &[u8]| name.as_bytes().cmp(own);
        let found = linkage_name.and_then(|own| self.folded.binary_search_by(|name| same(name, own)).ok());
        found.and_then(|at| self.folded.get(at)).unwrap_or(&self.name)
    }

    /// Returns the linkage name in the debug information of the function that starts here, if an obfuscator has renamed the
    /// symbol: a mangled name that no symbol has, beside symbols that are no mangled names. Returns `None` for C, in which a
    /// symbol of another name is common. A name that is given to the assembler has one underscore more than its symbol.
    pub(super) fn name_before_obfuscation<'d>(&self, linkage_name: &'d [u8]) -> Option<&'d str> {
        let own = str::from_utf8(linkage_name).ok().filter(|name| is_mangled(name))?;
        let mut known = std::iter::once(&self.name).chain(&self.folded);
        let is_own = |name: &str| is_mangled(name) || own.strip_prefix('_') == Some(name);
        (!known.any(|name| is_own(name))).then_some(own)
    }

    /// Returns the names at this start except the shown one.
    pub(super) fn folded_with<'s>(&'s self, shown: &'s str) -> impl Iterator<Item = &'s str> {
        std::iter::once(&self.name).chain(&self.folded).map(|name| &**name).filter(move |name| *name != shown)
    }
}

/// True for a name of C++, Swift, Rust or Objective-C, which says what it names.
fn is_mangled(name: &str) -> bool {
    const PREFIXES: [&str; 9] = ["_Z", "__Z", "___Z", "$s", "$S", "_T", "_R", "-[", "+["];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the named stretches in order of address. They do not overlap, and code without a name is left out.
/// Stretches end at each section of code and at each function without a name (`<redacted>`).
pub(super) fn read_extents<'a>(
    file: &MachFile<'a>,
    code: &CodeMap,
    steps: &Steps,
) -> Result<Vec<SymbolExtent<'a>>, ObjectError> {
    let mut symbols = Vec::new();
    let mut nameless = Vec::new();
    let mut has_locals = false;
    let is_code = |address| code.find_section(address).is_some();
    for symbol in file.defined_symbols(MAX_NAME_BYTES).filter(|symbol| is_code(symbol.address)) {
        // Symbols may share the bytes of a long name.
        steps.take_bytes(ObjectPart::Symbols, symbol.name.len())?;
        let kind = if symbol.is_private { SymbolName::Label } else { SymbolName::from_name(symbol.name) };
        match kind {
            SymbolName::Label => {}
            SymbolName::Placeholder => nameless.push(symbol.address),
            SymbolName::Function => {
                has_locals |= !symbol.is_external;
                let name = String::from_utf8_lossy(symbol.name);
                symbols.push(SymbolExtent::new(symbol.address, name, NameSource::Symtab));
            }
        }
    }
    // The last of the symbols at one address names it, as in LLVM.
    symbols.reverse();
    let mut extents = join_symbols(symbols);
    let mut exported = Vec::new();
    for (name, address) in file.read_exports(steps)? {
        let known = extents.binary_search_by_key(&address, |extent| extent.start).is_ok();
        if known || !is_code(address) {
            continue;
        }
        match SymbolName::from_name(&name) {
            SymbolName::Label => {}
            SymbolName::Placeholder => nameless.push(address),
            SymbolName::Function => {
                let name = Cow::Owned(String::from_utf8_lossy(&name).into_owned());
                exported.push(SymbolExtent::new(address, name, NameSource::Exports));
            }
        }
    }
    extents.extend(join_symbols(exported));
    extents.sort_by_key(|extent| extent.start);
    nameless.sort_unstable();

    let functions = file.function_starts();
    let mut next_name = u64::MAX;
    for extent in extents.iter_mut().rev() {
        let end = code.find_section(extent.start).map_or(extent.start, |section| section.end);
        let next = functions.partition_point(|start| *start <= extent.start);
        let next_function = functions.get(next).copied().unwrap_or(end);
        let is_function = functions[..next].last() == Some(&extent.start);
        let next_nameless = nameless.get(nameless.partition_point(|start| *start <= extent.start));
        extent.end = end.min(next_name).min(next_function).min(next_nameless.copied().unwrap_or(end));
        // With function starts every end is known. Without them, only a table that still has its local symbols
        // is known to name each function.
        let named = if functions.is_empty() {
            has_locals && extent.source == NameSource::Symtab
        } else {
            is_function
        };
        extent.approximate = !named;
        next_name = extent.start;
    }
    Ok(extents)
}

/// Joins the symbols of each address into one, in their order. The first name is kept, with the others as
/// folded names.
fn join_symbols(mut symbols: Vec<SymbolExtent<'_>>) -> Vec<SymbolExtent<'_>> {
    symbols.sort_by_key(|symbol| symbol.start);
    let mut joined: Vec<SymbolExtent<'_>> = Vec::new();
    for symbol in symbols {
        match joined.last_mut().filter(|first| first.start == symbol.start) {
            Some(first) if first.name == symbol.name => {}
            Some(first) => first.folded.push(symbol.name),
            None => joined.push(symbol),
        }
    }
    for symbol in &mut joined {
        symbol.folded.sort_unstable();
        symbol.folded.dedup();
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_information_names_a_function_that_an_obfuscator_has_renamed() {
        let named = |name: &'static str, folded: &[&'static str], linkage: &'static [u8]| {
            let mut extent = SymbolExtent::new(0x1000, Cow::Borrowed(name), NameSource::Symtab);
            extent.folded = folded.iter().map(|name| Cow::Borrowed(*name)).collect();
            extent.name_before_obfuscation(linkage)
        };
        for linkage in
            ["_ZN4shop4Cart5totalEv", "$s4Shop4CartV5totalyyF", "-[Cart total]", "_RNvC4shop5total"]
        {
            assert_eq!(named("a1b2", &[], linkage.as_bytes()), Some(linkage));
            assert_eq!(named("a1b2", &["c3d4"], linkage.as_bytes()), Some(linkage));
        }
        // The symbol table has the name, or another one of a compiler: a folded function, an alias.
        assert_eq!(named("_ZN4shop4Cart5totalEv", &[], b"_ZN4shop4Cart5totalEv"), None);
        assert_eq!(named("total_alias", &["_ZN4shop4Cart5totalEv"], b"_ZN4shop4Cart5totalEv"), None);
        assert_eq!(named("_ZN4shop5Order5totalEv", &[], b"_ZN4shop4Cart5totalEv"), None);
        // Names of C say nothing about their making, also those that begin as mangled ones do.
        assert_eq!(named("ThrowNullPointerException", &[], b"_ThrowNullPointerException"), None);
        assert_eq!(named("RunLoop", &[], b"_RunLoop"), None);
        assert_eq!(named("read$NOCANCEL", &[], b"read"), None);
        assert_eq!(named("a1b2", &[], b"\xff_Z"), None);
    }
}

//! The names of a library in a cache, from its symbol table, the local symbols and the exports.

use super::CacheImage;
use super::error::{DyldCacheError, malformed_error};
use super::header::FileBytes;
use super::image::ImageTables;
use super::locals::ImageLocals;
use unslide_model::SymbolName;
use unslide_symbolicate::object::{
    FoundName, ImageNames, MAX_NAME_BYTES, NameTable, StartName, find_exports, find_function_starts,
};

/// Bits of `n_type` that mark a symbol for a debugger.
const DEBUGGER_BITS: u8 = 0xE0;
const KIND_BITS: u8 = 0x0E;
/// The symbol lies in a section.
const IN_SECTION: u8 = 0x0E;
/// Other images may refer to the symbol.
const IS_EXTERNAL: u8 = 0x01;

/// A table of symbols, and the names that they refer to.
struct Symbols<'a> {
    table: &'a [u8],
    names: &'a [u8],
    kind: NameTable,
    is_32_bit: bool,
}

pub(super) fn merge_names<'a>(
    image: &CacheImage,
    tables: &ImageTables<'a>,
    locals: Option<&ImageLocals<'a>>,
    is_32_bit: bool,
) -> Result<ImageNames<'a>, DyldCacheError> {
    let mut found = find_function_starts(tables.function_starts);
    found.extend(find_exports(tables.exports).map_err(|_| malformed_error("its exports"))?);
    let kind = NameTable::SymbolTable;
    let own = Symbols { table: tables.symbols, names: tables.symbol_names, kind, is_32_bit };
    let kind = NameTable::Locals;
    let locals = locals.map(|locals| Symbols { table: locals.table, names: locals.names, kind, is_32_bit });
    for symbols in locals.iter().chain([&own]) {
        add_symbols(symbols, tables.text.start, &mut found);
    }
    let code = tables.code.iter().cloned();
    Ok(ImageNames::from_tables(image.debug_id, tables.cpu, tables.text.clone(), code, found))
}

/// Adds the symbols of a table that lie in sections. `text` is the address of `__TEXT`.
fn add_symbols<'a>(symbols: &Symbols<'a>, text: u64, found: &mut Vec<FoundName<'a>>) {
    let size = if symbols.is_32_bit { 12 } else { 16 };
    for record in symbols.table.chunks_exact(size) {
        let kind = record.get(4).copied().unwrap_or_default();
        if kind & DEBUGGER_BITS != 0 || kind & KIND_BITS != IN_SECTION {
            continue;
        }
        let record = FileBytes(record);
        let address = match symbols.is_32_bit {
            true => record.read_u32(8).map(u64::from),
            false => record.read_u64(8),
        };
        let offset =
            address.and_then(|at| at.checked_sub(text)).and_then(|offset| u32::try_from(offset).ok());
        let name = record.read_u32(0).and_then(|at| name_at(symbols.names, at));
        let (Some(offset), Some(name)) = (offset, name) else { continue };
        let name = match SymbolName::from_name(name) {
            SymbolName::Label => continue,
            SymbolName::Placeholder => StartName::Withheld,
            SymbolName::Function if kind & IS_EXTERNAL != 0 => StartName::External(name.into()),
            SymbolName::Function => StartName::Local(name.into()),
        };
        found.push(FoundName { offset, table: symbols.kind, name });
    }
}

/// Returns a name up to its NUL, cut to the longest name.
fn name_at(names: &[u8], at: u32) -> Option<&[u8]> {
    let rest = names.get(at as usize..)?;
    let rest = rest.get(..MAX_NAME_BYTES).unwrap_or(rest);
    rest.get(..memchr::memchr(0, rest).unwrap_or(rest.len()))
}

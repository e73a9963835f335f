//! The names of a library that is a file of its own.

use super::collect::{FoundName, NameTable, as_symbol};
use super::{ImageNames, StartName};
use crate::object::error::malformed_error;
use crate::object::macho::MachFile;
use crate::object::{MAX_NAME_BYTES, ObjectError, Steps};
use unslide_model::SymbolName;

/// Reads the names of one slice of a Mach-O file, without its code and its debug information.
///
/// # Errors
/// Returns an error if the slice is damaged, has no UUID, or is too complex for its size.
pub fn read_library_names(slice: &[u8]) -> Result<ImageNames<'static>, ObjectError> {
    let file = MachFile::parse(slice)?;
    let debug_id = file.debug_id.ok_or_else(|| ObjectError::Unsupported("no UUID".into()))?;
    let text = file.text.clone().ok_or_else(|| malformed_error("no __TEXT segment"))?;
    let sections = file.sections.iter().filter(|section| section.is_code);
    let code = sections.map(|section| section.addresses.clone());
    let steps = Steps::for_object(slice.len() as u64);
    let mut found = Vec::new();
    let mut add = |address: u64, table, name| {
        let offset = address.checked_sub(text.start).and_then(|offset| u32::try_from(offset).ok());
        found.extend(offset.map(|offset| FoundName { offset, table, name }));
    };
    for start in file.function_starts() {
        add(start, NameTable::FunctionStarts, StartName::Unnamed);
    }
    for (name, address) in file.read_exports(&steps)? {
        if SymbolName::is_function(&name) {
            add(address, NameTable::Exports, StartName::External(as_symbol(&name).into()));
        }
    }
    for symbol in file.defined_symbols(MAX_NAME_BYTES).filter(|symbol| !symbol.is_private) {
        steps.take_bytes(crate::object::steps::ObjectPart::Symbols, symbol.name.len())?;
        let name = match SymbolName::from_name(symbol.name) {
            SymbolName::Label => continue,
            SymbolName::Placeholder => StartName::Withheld,
            SymbolName::Function if symbol.is_external => StartName::External(as_symbol(symbol.name).into()),
            SymbolName::Function => StartName::Local(as_symbol(symbol.name).into()),
        };
        add(symbol.address, NameTable::SymbolTable, name);
    }
    Ok(ImageNames::from_tables(debug_id, file.cpu, text, code, found))
}

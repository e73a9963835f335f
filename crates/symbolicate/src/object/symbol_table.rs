//! How much of a file's code its symbol table names.

use super::code::CodeMap;
use super::macho::MachFile;
use super::steps::{ObjectPart, Steps};
use super::{MAX_NAME_BYTES, ObjectError};
use std::collections::HashSet;
use unslide_model::{SymbolName, is_hidden_symbol};

/// How much of a file's code its symbol table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SymbolTable {
    /// None of it.
    Empty,
    /// Functions that other images may call: `strip -x` leaves these.
    External,
    /// Its functions.
    Whole,
}

impl SymbolTable {
    /// Reads the symbol table. A table of external names alone is `Whole` if each function start has one.
    pub(super) fn from_file(
        file: &MachFile<'_>,
        code: &CodeMap,
        steps: &Steps,
    ) -> Result<SymbolTable, ObjectError> {
        let mut external = HashSet::new();
        for symbol in file.defined_symbols(MAX_NAME_BYTES) {
            steps.take_bytes(ObjectPart::Symbols, symbol.name.len())?;
            if !names_function(symbol.name) || code.find_section(symbol.address).is_none() {
                continue;
            }
            if !symbol.is_external {
                return Ok(SymbolTable::Whole);
            }
            external.insert(symbol.address);
        }
        if external.is_empty() {
            return Ok(SymbolTable::Empty);
        }
        let starts = file.function_starts();
        let names_all = !starts.is_empty() && starts.iter().all(|start| external.contains(start));
        Ok(if names_all { SymbolTable::Whole } else { SymbolTable::External })
    }
}

/// True for a name that identifies a function.
fn names_function(name: &[u8]) -> bool {
    SymbolName::is_function(name) && !is_hidden_symbol(name)
}

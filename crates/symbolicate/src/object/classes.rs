//! The symbols of classes. Instances begin with a class's address: Objective-C classes, Swift metadata, C++
//! vtables.

use super::code::CodeMap;
use super::macho::MachFile;
use super::steps::Steps;
use super::{MAX_NAME_BYTES, ObjectError};
use crate::symcache::{NoSymcache, Writer};
use std::borrow::Cow;

/// Upper bound of the offsets that a symcache can hold for classes.
const CLASS_OFFSET_LIMIT: u64 = 1 << 31;

/// Pointers between a vtable's symbol and the address in the objects of its class: the offset to the top and
/// the type.
const FIRST_ADDRESS_POINT: u64 = 2;

/// Adds the symbols of classes, from the symbol table and the exports. Each ends at the next symbol or with its
/// section. In a stripped image it ends after its first address point: the next symbol may have been removed.
pub(super) fn add_classes(
    file: &MachFile<'_>,
    base: u64,
    writer: &mut Writer,
    steps: &Steps,
) -> Result<(), ObjectError> {
    let data = CodeMap::for_data(file);
    let mut symbols = data_symbols(file, &data, steps)?;
    symbols.sort_unstable_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let is_stripped = file.defined_symbols(1).all(|symbol| symbol.is_external);
    let pointer = if file.cpu.family().is_32_bit() { 4 } else { 8 };
    let reach = if is_stripped { FIRST_ADDRESS_POINT * pointer + 1 } else { u64::MAX };
    let mut end = None;
    for at_one in symbols.chunk_by(|a, b| a.0 == b.0) {
        let Some((address, _)) = at_one.first() else { continue };
        let Some(offset) = address.checked_sub(base).filter(|offset| *offset < CLASS_OFFSET_LIMIT) else {
            continue;
        };
        let name = at_one.iter().find_map(|(_, name)| class_name(name));
        add_end(&mut end, offset, name.is_some(), writer)?;
        if let Some(name) = name {
            writer.add_class(offset as u32, Some(name))?;
            let section_end = data.find_section(*address).map(|section| section.end.saturating_sub(base));
            end = section_end.map(|end| end.min(offset.saturating_add(reach)));
        }
    }
    Ok(add_end(&mut end, u64::MAX, false, writer)?)
}

/// Ends the class before `next`, unless another class begins at that end.
fn add_end(end: &mut Option<u64>, next: u64, is_class: bool, writer: &mut Writer) -> Result<(), NoSymcache> {
    let Some(at) = end.take().map(|end| end.min(next)) else { return Ok(()) };
    if (is_class && at == next) || at >= CLASS_OFFSET_LIMIT {
        Ok(())
    } else {
        writer.add_class(at as u32, None)
    }
}

/// Returns the names and addresses of symbols in sections without code.
fn data_symbols<'a>(
    file: &MachFile<'a>,
    data: &CodeMap,
    steps: &Steps,
) -> Result<Vec<(u64, Cow<'a, str>)>, ObjectError> {
    let is_data = |address: u64| data.find_section(address).is_some();
    let mut symbols: Vec<(u64, Cow<'a, str>)> = file
        .defined_symbols(MAX_NAME_BYTES)
        .filter(|symbol| !symbol.name.is_empty() && is_data(symbol.address))
        .map(|symbol| (symbol.address, String::from_utf8_lossy(symbol.name)))
        .collect();
    for (name, address) in file.read_exports(steps)? {
        if is_data(address) {
            symbols.push((address, Cow::Owned(String::from_utf8_lossy(&name).into_owned())));
        }
    }
    Ok(symbols)
}

/// Returns the name of a class symbol: without its prefix for an Objective-C class, else the symbol itself.
fn class_name(symbol: &str) -> Option<&str> {
    if let Some(class) = symbol.strip_prefix("OBJC_CLASS_$_") {
        return Some(class).filter(|class| !class.is_empty());
    }
    let is_metadata = symbol.starts_with("$s") && symbol.ends_with('N');
    (is_metadata || symbol.starts_with("_ZTV")).then_some(symbol)
}

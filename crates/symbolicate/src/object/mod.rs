//! Objects: the slices of a file, and the symcache of one of them.

mod build;
mod classes;
mod code;
mod compressed;
mod debug_info;
mod dwarf;
pub(crate) mod error;
mod exports;
pub(crate) mod facts;
mod macho;
mod names;
mod sources;
mod steps;
mod symbol_table;
mod symbols;

use crate::javascript::{self, SourceMapFacts};
pub use debug_info::DebugInfo;
pub use error::ObjectError;
pub use facts::{BuiltSymCache, MAX_SYMCACHE_BYTES, ObjectFacts, ObjectKind};
pub use names::{
    FoundName, ImageNames, NameTable, NamedStart, StartName, find_exports, find_function_starts,
    read_library_names,
};
pub use sources::list_source_paths;
use std::ops::Range;
use steps::Steps;
pub use steps::max_steps;
use symbol_table::SymbolTable;
use unslide_model::CpuType;

/// The longest name or path, in bytes; a longer one is cut.
pub const MAX_NAME_BYTES: usize = 16 << 10;

/// One slice of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEntry {
    /// Range of the slice in the file, in bytes.
    pub range: Range<usize>,
    /// Facts about the slice, or why it cannot be read.
    pub object: Result<ObjectFacts, ObjectError>,
}

/// Returns the slices of a thin or fat Mach-O file (program, library, dSYM, …), or a source map or a names file
/// as the only one. A slice that cannot be read does not hide the others.
///
/// # Errors
/// Returns an error if the file is neither, or if its fat header is damaged.
pub fn list_objects(bytes: &[u8]) -> Result<Vec<ObjectEntry>, ObjectError> {
    if let Some(facts) = javascript::read_facts(bytes) {
        let object = facts.map(facts_from_source_map);
        return Ok(vec![ObjectEntry { range: 0..bytes.len(), object }]);
    }
    if names::is_names_file(bytes) {
        return Ok(vec![ObjectEntry { range: 0..bytes.len(), object: read_names_facts(bytes) }]);
    }
    let ranges = macho::find_slices(bytes)?;
    Ok(ranges
        .into_iter()
        .map(|range| {
            let object = read_facts(bytes.get(range.clone()).unwrap_or_default());
            ObjectEntry { range, object }
        })
        .collect())
}

fn facts_from_source_map(facts: SourceMapFacts) -> ObjectFacts {
    ObjectFacts {
        debug_id: facts.debug_id,
        cpu: CpuType::JAVASCRIPT,
        kind: ObjectKind::SourceMap,
        has_dwarf: false,
        has_symtab: false,
        has_exports: false,
        has_sources: facts.has_sources,
        is_encrypted: false,
    }
}

fn read_facts(slice: &[u8]) -> Result<ObjectFacts, ObjectError> {
    let file = macho::MachFile::parse(slice)?;
    let compression = compressed::Compression::from_file(&file)?;
    let has_dwarf =
        compression == compressed::Compression::Zlib || !file.debug_section("__debug_info")?.is_empty();
    let steps = Steps::for_object(slice.len() as u64);
    let table = SymbolTable::from_file(&file, &code::CodeMap::new(&file), &steps)?;
    Ok(ObjectFacts {
        debug_id: file.debug_id,
        cpu: file.cpu,
        kind: file.kind,
        has_dwarf,
        has_symtab: has_symtab(table, has_dwarf),
        has_exports: has_exports(&file, table),
        has_sources: sources::has_embedded_sources(&file),
        is_encrypted: file.is_encrypted,
    })
}

fn read_names_facts(file: &[u8]) -> Result<ObjectFacts, ObjectError> {
    let names = names::unpack_names(file, u64::MAX)?;
    let facts = read_facts(&names::to_mach_o(&names.read_names()?))?;
    Ok(ObjectFacts { kind: ObjectKind::Names, ..facts })
}

/// True if the symbol table names the functions of the file. If DWARF names the rest, the names that `strip`
/// leaves are enough.
fn has_symtab(table: SymbolTable, has_dwarf: bool) -> bool {
    match table {
        SymbolTable::Whole => true,
        SymbolTable::External => has_dwarf,
        SymbolTable::Empty => false,
    }
}

/// True if the export trie or the symbol table names functions that other images may call.
fn has_exports(file: &macho::MachFile<'_>, table: SymbolTable) -> bool {
    file.has_exports() || table == SymbolTable::External
}

/// Builds the symcache of one slice. The same slice always gives the same bytes.
///
/// The work is at most proportional to the size of the slice: see [`max_steps`]. A hostile slice can still take
/// much time and memory, so a service builds in a process with limits from the operating system.
///
/// # Errors
/// Returns an error if the slice is damaged, useless for symbolication, too large, or too complex for its size.
pub fn build_symcache(slice: &[u8]) -> Result<BuiltSymCache, ObjectError> {
    build_within(slice, u64::MAX)
}

/// Does the same as [`build_symcache`], if the slice's unpacked sections fit into `memory_bytes`.
///
/// # Errors
/// Returns the errors of [`build_symcache`], and [`ObjectError::NeedsMemory`].
pub fn build_within(slice: &[u8], memory_bytes: u64) -> Result<BuiltSymCache, ObjectError> {
    if javascript::is_json(slice) {
        return javascript::build_for_own_debug_id(slice);
    }
    if names::is_names_file(slice) {
        let image = names::to_mach_o(&names::unpack_names(slice, memory_bytes)?.read_names()?);
        let built = build::build_symcache(&image, memory_bytes, Steps::for_object(image.len() as u64))?;
        return Ok(BuiltSymCache { kind: ObjectKind::Names, ..built });
    }
    build::build_symcache(slice, memory_bytes, Steps::for_object(slice.len() as u64))
}

/// Does the same as [`build_symcache`] for a Mach-O slice, with an unlimited step count.
#[cfg(test)]
pub(crate) fn build_without_limit(slice: &[u8]) -> Result<BuiltSymCache, ObjectError> {
    build::build_symcache(slice, u64::MAX, Steps::unlimited())
}

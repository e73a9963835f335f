//! Objects: which slices a file has, and the symcache of one of them.

mod build;
mod classes;
mod code;
mod dwarf;
pub(crate) mod error;
mod exports;
pub(crate) mod facts;
mod macho;
mod sources;
mod symbols;

use crate::javascript::{self, SourceMapFacts};
pub use error::ObjectError;
pub use facts::{BuiltSymCache, MAX_SYMCACHE_BYTES, ObjectFacts, ObjectKind};
use std::ops::Range;
use unslide_model::CpuType;

/// The longest name or path, in bytes; a longer one is cut.
const MAX_NAME_BYTES: usize = 16 << 10;

/// One slice of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEntry {
    /// Where the slice lies in the file, in bytes.
    pub range: Range<usize>,
    /// What the slice is.
    pub object: Result<ObjectFacts, ObjectError>,
}

/// The slices of a thin or fat Mach-O file (program, library, dSYM, …), or a source map as the only one. A slice
/// that cannot be read does not hide the others.
///
/// # Errors
/// Where the file is neither, or its fat header is damaged.
pub fn objects(bytes: &[u8]) -> Result<Vec<ObjectEntry>, ObjectError> {
    if let Some(facts) = javascript::facts(bytes) {
        let object = facts.map(of_source_map);
        return Ok(vec![ObjectEntry { range: 0..bytes.len(), object }]);
    }
    let ranges = macho::slices(bytes)?;
    Ok(ranges
        .into_iter()
        .map(|range| {
            let object = facts(bytes.get(range.clone()).unwrap_or_default());
            ObjectEntry { range, object }
        })
        .collect())
}

fn of_source_map(facts: SourceMapFacts) -> ObjectFacts {
    ObjectFacts {
        debug_id: facts.debug_id,
        cpu: CpuType::JAVASCRIPT,
        kind: ObjectKind::SourceMap,
        has_dwarf: false,
        has_symtab: false,
        has_exports: false,
        has_sources: facts.has_sources,
    }
}

fn facts(slice: &[u8]) -> Result<ObjectFacts, ObjectError> {
    let file = macho::MachFile::parse(slice)?;
    Ok(ObjectFacts {
        debug_id: file.debug_id,
        cpu: file.cpu,
        kind: file.kind,
        has_dwarf: !file.debug_section("__debug_info")?.is_empty(),
        has_symtab: has_symbols(&file, &code::CodeMap::new(&file)),
        has_exports: file.has_exports(),
        has_sources: sources::embedded(&file),
    })
}

/// True where the symbol table names machine code.
fn has_symbols(file: &macho::MachFile<'_>, code: &code::CodeMap) -> bool {
    file.symbols(0).any(|symbol| code.section(symbol.address).is_some())
}

/// Builds the symcache of one slice. The same slice always gives the same bytes.
///
/// A hostile slice can take any time and memory: a service builds in a process that has limits of the
/// operating system.
///
/// # Errors
/// Where the slice is damaged, of no use for symbolication, or too large.
pub fn build(slice: &[u8]) -> Result<BuiltSymCache, ObjectError> {
    if javascript::is_json(slice) { javascript::build(slice) } else { build::build(slice) }
}

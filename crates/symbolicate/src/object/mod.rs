//! Objects: which slices a file has, and the symcache of one of them.

mod build;
mod classes;
mod code;
mod dwarf;
mod error;
mod exports;
mod macho;
mod sources;
mod symbols;

use crate::javascript::{self, SourceMapFacts};
pub use error::ObjectError;
use std::ops::Range;
use unslide_model::{CpuType, DebugId, Quality};

/// The largest symcache, in bytes.
pub const MAX_SYMCACHE_BYTES: usize = 1 << 30;
/// The longest name or path, in bytes; a longer one is cut.
const MAX_NAME_BYTES: usize = 16 << 10;

/// What a Mach-O file is for (`filetype`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// The output of a compiler, not linked.
    Relocatable,
    /// A program.
    Executable,
    /// A dynamic library or framework.
    Dylib,
    /// A plug-in.
    Bundle,
    /// Debug information for another file.
    Dsym,
    /// A kernel extension.
    Kext,
    /// The dynamic linker.
    Dylinker,
    /// The source map of a bundle of JavaScript, which is no Mach-O file.
    SourceMap,
    /// Another kind, by its number.
    Other(u32),
}

impl ObjectKind {
    fn from_file_type(file_type: u32) -> ObjectKind {
        match file_type {
            1 => ObjectKind::Relocatable,
            2 => ObjectKind::Executable,
            6 => ObjectKind::Dylib,
            7 => ObjectKind::Dylinker,
            8 => ObjectKind::Bundle,
            10 => ObjectKind::Dsym,
            11 => ObjectKind::Kext,
            other => ObjectKind::Other(other),
        }
    }

    /// A short lower-case name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ObjectKind::Relocatable => "relocatable",
            ObjectKind::Executable => "executable",
            ObjectKind::Dylib => "dylib",
            ObjectKind::Bundle => "bundle",
            ObjectKind::Dsym => "dsym",
            ObjectKind::Kext => "kext",
            ObjectKind::Dylinker => "dylinker",
            ObjectKind::SourceMap => "source_map",
            ObjectKind::Other(_) => "other",
        }
    }
}

/// One slice of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEntry {
    /// Where the slice lies in the file, in bytes.
    pub range: Range<usize>,
    /// What the slice is.
    pub object: Result<ObjectFacts, ObjectError>,
}

/// What a slice is and offers, without reading its debug information through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// `LC_UUID`; `None` where there is none, or it is all zeros.
    pub debug_id: Option<DebugId>,
    /// The CPU type of the header.
    pub cpu: CpuType,
    /// What the file is for.
    pub kind: ObjectKind,
    /// There is DWARF.
    pub has_dwarf: bool,
    /// The symbol table names machine code.
    pub has_symtab: bool,
    /// There is an export trie.
    pub has_exports: bool,
    /// The debug information carries source files.
    pub has_sources: bool,
}

impl ObjectFacts {
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

    /// What names and lines the slice can give.
    #[must_use]
    pub fn quality(&self) -> Quality {
        // A source map says of its bundle what DWARF says of machine code.
        if self.kind == ObjectKind::SourceMap {
            return Quality::Dwarf;
        }
        Quality::of(self.has_dwarf, self.has_symtab, self.has_exports)
    }
}

/// A symcache and what was learned while it was built.
#[derive(Clone, Debug)]
pub struct BuiltSymCache {
    /// `LC_UUID` of the slice.
    pub debug_id: DebugId,
    /// The CPU type of the slice.
    pub cpu: CpuType,
    /// What the file is for.
    pub kind: ObjectKind,
    /// What the slice offered.
    pub quality: Quality,
    /// The symcache: see [`crate::symcache`].
    pub symcache: Vec<u8>,
    /// What was left out and why, for the uploader.
    pub warnings: Vec<String>,
}

/// The slices of a thin or fat Mach-O file (program, library, dSYM, …), or a source map as the only one. A slice
/// that cannot be read does not hide the others.
///
/// # Errors
/// Where the file is neither, or its fat header is damaged.
pub fn objects(bytes: &[u8]) -> Result<Vec<ObjectEntry>, ObjectError> {
    if let Some(facts) = javascript::facts(bytes) {
        let object = facts.map(ObjectFacts::of_source_map);
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

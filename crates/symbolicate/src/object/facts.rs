//! Facts about an object, and the symcache that is built from it.

use unslide_model::{CpuType, DebugId, Quality};

/// The largest symcache, in bytes.
pub const MAX_SYMCACHE_BYTES: usize = 1 << 30;
/// Purpose of a Mach-O file (`filetype`).
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
    /// The source map of a JavaScript bundle, which is not a Mach-O file.
    SourceMap,
    /// The names of an image, which are no Mach-O file.
    Names,
    /// Another kind, by its number.
    Other(u32),
}

impl ObjectKind {
    pub(super) fn from_file_type(file_type: u32) -> ObjectKind {
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

    /// Returns a short lower-case name.
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
            ObjectKind::Names => "names",
            ObjectKind::Other(_) => "other",
        }
    }
}

/// Facts about a slice, found without reading its debug information completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// `LC_UUID`; `None` if it is absent or all zeros.
    pub debug_id: Option<DebugId>,
    /// The CPU type of the header.
    pub cpu: CpuType,
    /// Purpose of the file.
    pub kind: ObjectKind,
    /// True if it has DWARF, uncompressed or in a supported compression.
    pub has_dwarf: bool,
    /// True if the symbol table names the functions; beside DWARF, true if it names any functions.
    pub has_symtab: bool,
    /// True if functions that other images may call are named.
    pub has_exports: bool,
    /// True if the debug information contains source files.
    pub has_sources: bool,
    /// True if the instructions are encrypted (`cryptid`), as in a program that the App Store delivers.
    pub is_encrypted: bool,
}

impl ObjectFacts {
    /// Returns the kinds of names and lines that the slice can give.
    #[must_use]
    pub fn quality(&self) -> Quality {
        // A source map describes its bundle as DWARF describes machine code.
        if self.kind == ObjectKind::SourceMap {
            return Quality::Dwarf;
        }
        Quality::from_parts(self.has_dwarf, self.has_symtab, self.has_exports)
    }
}

/// A symcache and the facts learned during its build.
#[derive(Clone, Debug)]
pub struct BuiltSymCache {
    /// `LC_UUID` of the slice.
    pub debug_id: DebugId,
    /// The CPU type of the slice.
    pub cpu: CpuType,
    /// Purpose of the file.
    pub kind: ObjectKind,
    /// Kinds of names and lines that the slice contained.
    pub quality: Quality,
    /// The symcache: see [`crate::symcache`].
    pub symcache: Vec<u8>,
    /// Parts that were left out and why, for the uploader.
    pub warnings: Vec<String>,
    /// Steps that the build took, at most [`crate::object::max_steps`]; 0 for a source map.
    pub steps: u64,
}

//! What an object is, and the symcache that is built of it.

use unslide_model::{CpuType, DebugId, Quality};

/// The largest symcache, in bytes.
pub const MAX_SYMCACHE_BYTES: usize = 1 << 30;
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

/// What a slice is and offers, without reading its debug information through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// `LC_UUID`; `None` where there is none, or it is all zeros.
    pub debug_id: Option<DebugId>,
    /// The CPU type of the header.
    pub cpu: CpuType,
    /// What the file is for.
    pub kind: ObjectKind,
    /// There is DWARF, plain or in a compression that is read.
    pub has_dwarf: bool,
    /// The symbol table names the functions; beside DWARF, functions.
    pub has_symtab: bool,
    /// Functions that other images may call are named.
    pub has_exports: bool,
    /// The debug information carries source files.
    pub has_sources: bool,
}

impl ObjectFacts {
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
    /// Steps that the build took, of at most [`crate::object::max_steps`]; 0 for a source map.
    pub steps: u64,
}

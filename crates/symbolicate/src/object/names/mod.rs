//! Names files: the names and the starts of the functions of one image, without its code.
//!
//! An operating system's libraries lie in gigabytes of dyld shared caches. A names file keeps the part that
//! symbolication needs, in a tenth of the bytes of a symbol table. It is built as a library with that table:
//! [`super::build`] makes a Mach-O file of it, so that both have the same rules.
//!
//! Version 1, numbers in little-endian order:
//! ```text
//!  0  UNSLNAME
//!  8  version of the format
//! 12  UUID
//! 28  CPU type, CPU subtype
//! 36  address of __TEXT, size of __TEXT      (64 bits each)
//! 52  bytes of the body
//! 56  CRC-32 of the body
//! 60  the body, compressed (zlib)
//! ```
//! The body has LEB128 numbers, and names at its end:
//! ```text
//! number of code sections;  each: distance from the end of the one before, size
//! number of starts;         each: distance from the start before × 8 + kind (+ 4: a function begins there)
//! names of the starts of the kinds 1 and 2, each with a NUL behind it
//! ```
//! Kinds: 0 without a name, 1 a local symbol, 2 a symbol that other images may call, 3 a name that is withheld.

mod collect;
mod image;
mod library;
mod read;
mod write;

pub use collect::{FoundName, NameTable, find_exports, find_function_starts};
pub(super) use image::to_mach_o;
pub use library::read_library_names;
pub(super) use read::{is_names_file, unpack_names};

use super::ObjectError;
use std::borrow::Cow;
use std::ops::Range;
use unslide_model::{CpuType, DebugId};

const MAGIC: &[u8; 8] = b"UNSLNAME";
const VERSION: u32 = 1;
const HEADER_SIZE: usize = 60;
/// The largest body.
const MAX_BODY_BYTES: usize = 64 << 20;
/// Bytes of a body for each byte of its file.
const MAX_BODY_RATIO: usize = 50;
/// Bytes that a body may have at any ratio.
const MAX_FREE_BODY_BYTES: usize = 1 << 20;
/// The most code sections: a symbol refers to its section with one byte.
const MAX_CODE_SECTIONS: usize = 255;
/// The most starts of one image.
const MAX_STARTS: usize = 4 << 20;

const LOCAL: u64 = 1;
const EXTERNAL: u64 = 2;
const WITHHELD: u64 = 3;
const KIND_MASK: u64 = 3;
const FUNCTION_START: u64 = 4;
/// Bits of a start that are not its distance.
const START_BITS: u32 = 3;

/// The names of one image, with where their code lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageNames<'a> {
    /// `LC_UUID` of the image.
    pub debug_id: DebugId,
    /// The CPU type of the image.
    pub cpu: CpuType,
    /// Addresses of `__TEXT`.
    pub text: Range<u64>,
    /// Sections of machine code as offsets from `__TEXT`, ascending.
    pub code: Vec<Range<u32>>,
    /// Starts of functions, ascending. Of several names of one start, the last one is shown.
    pub starts: Vec<NamedStart<'a>>,
}

/// A place in machine code at which a function begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedStart<'a> {
    /// Offset from `__TEXT`.
    pub offset: u32,
    /// Its name, with the underscore of C names.
    pub name: StartName<'a>,
    /// True if the image lists the start of a function there.
    pub is_function_start: bool,
}

/// The name of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartName<'a> {
    /// The image lists the start of a function, and no symbol.
    Unnamed,
    /// A symbol of this image alone.
    Local(Cow<'a, [u8]>),
    /// A symbol that other images may call.
    External(Cow<'a, [u8]>),
    /// A symbol with a placeholder for its name.
    Withheld,
}

impl StartName<'_> {
    /// Returns the name, if there is one.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            StartName::Local(name) | StartName::External(name) => Some(name),
            StartName::Unnamed | StartName::Withheld => None,
        }
    }
}

impl<'a> ImageNames<'a> {
    /// Joins the names of one image from several tables. `text` has the addresses of `__TEXT`, and `code` those of machine
    /// code in any order. Names outside of code are left out.
    #[must_use]
    pub fn from_tables(
        debug_id: DebugId,
        cpu: CpuType,
        text: Range<u64>,
        code: impl Iterator<Item = Range<u64>>,
        found: Vec<FoundName<'a>>,
    ) -> ImageNames<'a> {
        let code = collect::code_in_text(&text, code);
        ImageNames { debug_id, cpu, text, starts: collect::collect_starts(found, &code), code }
    }

    /// Returns the names as a file.
    ///
    /// # Errors
    /// Returns [`ObjectError::TooLarge`] if there are more names than a file holds, and
    /// [`ObjectError::Malformed`] if a section or a start is out of order.
    pub fn to_file(&self) -> Result<Vec<u8>, ObjectError> {
        write::to_file(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{ObjectKind, build_symcache, list_objects};
    use crate::symcache::SymCache;
    use unslide_model::{Quality, RelativeAddress};

    fn start(offset: u32, name: StartName<'static>) -> NamedStart<'static> {
        NamedStart { offset, name, is_function_start: true }
    }

    fn local(name: &'static str) -> StartName<'static> {
        StartName::Local(name.as_bytes().into())
    }

    fn sample() -> ImageNames<'static> {
        ImageNames {
            debug_id: DebugId([7; 16]),
            cpu: CpuType::new(0x0100_000C, 2),
            text: 0x1_8000_0000..0x1_8000_4000,
            code: vec![0x1000..0x1100, 0x1200..0x1220],
            starts: vec![
                start(0x1000, local("_first")),
                NamedStart { is_function_start: false, ..start(0x1000, local("_alias")) },
                start(0x1040, StartName::Withheld),
                start(0x1060, StartName::External(b"__ZN4demo5QueueC2Ev"[..].into())),
                start(0x1080, StartName::Unnamed),
                start(0x1200, local("_objc_msgSend$reload")),
            ],
        }
    }

    #[test]
    fn a_names_file_builds_as_a_library_with_that_symbol_table() {
        let file = sample().to_file().unwrap();
        assert_eq!(unpack_names(&file, u64::MAX).unwrap().read_names().unwrap(), sample());
        let [entry] = &list_objects(&file).unwrap()[..] else { panic!("one slice") };
        let facts = entry.object.as_ref().unwrap();
        assert_eq!((facts.kind, facts.debug_id), (ObjectKind::Names, Some(DebugId([7; 16]))));
        assert_eq!(facts.quality(), Quality::Symtab);
        let built = build_symcache(&file).unwrap();
        assert_eq!((built.kind, built.quality), (ObjectKind::Names, Quality::Symtab));
        let cache = SymCache::parse(built.symcache).unwrap();
        let name = |offset| {
            let found = cache.lookup(RelativeAddress(offset)).into_answer()?;
            found.calls().next().map(|call| call.function.decode().into_owned())
        };
        assert_eq!(name(0x103C).as_deref(), Some("alias"), "the last name of a start is shown");
        assert_eq!(name(0x1044), None, "a withheld name ends the function before it");
        assert_eq!(name(0x1060).as_deref(), Some("demo::Queue::Queue()"));
        assert_eq!(name(0x1084), None, "a function without a name");
        assert_eq!(name(0x121C).as_deref(), Some("objc_msgSend$reload"));
    }

    #[test]
    fn names_that_other_images_may_call_are_exports() {
        let mut names = sample();
        names.starts.retain(|start| !matches!(start.name, StartName::Local(_)));
        let built = build_symcache(&names.to_file().unwrap()).unwrap();
        assert_eq!(built.quality, Quality::Exports);
        assert!(built.warnings[0].contains("stripped"), "{:?}", built.warnings);
    }

    #[test]
    fn a_damaged_file_is_refused_with_a_reason() {
        let file = sample().to_file().unwrap();
        for end in 0..file.len() {
            assert!(build_symcache(&file[..end]).is_err(), "{end}");
        }
        let changed = |at: usize, byte: u8| {
            let mut file = file.clone();
            file[at] = byte;
            build_symcache(&file).unwrap_err().to_string()
        };
        assert!(changed(8, 2).contains("version 2"), "{}", changed(8, 2));
        assert!(changed(56, !file[56]).contains("checksum"));
        assert!(changed(55, 0xFF).contains("body"));
        let mut without_id = file.clone();
        without_id[12..28].fill(0);
        assert!(build_symcache(&without_id).unwrap_err().to_string().contains("UUID"));
        assert!(matches!(super::super::build_within(&file, 16), Err(ObjectError::NeedsMemory(_))));
    }

    #[test]
    fn starts_and_sections_out_of_order_are_refused() {
        let mut names = sample();
        names.starts.swap(0, 2);
        assert!(matches!(names.to_file(), Err(ObjectError::Malformed(_))));
        let mut names = sample();
        names.code.swap(0, 1);
        assert!(matches!(names.to_file(), Err(ObjectError::Malformed(_))));
    }
}

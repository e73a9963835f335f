//! The symcache: all data that a worker needs to turn addresses of one object into functions, files and lines.
//! It is built once from the object and read in place, from a buffer or a memory map.
//!
//! Names are demangled, paths are joined and every text is already escaped for JSON, so that a look-up is a
//! short search and the caller copies bytes.
//!
//! # Format, version 1
//!
//! All numbers are little-endian and need no alignment. A header of [`HEADER_SIZE`] bytes is
//! followed by seven sections without gaps. Their lengths follow from the header's counts; the
//! file ends with the last of them.
//!
//! | offset | size | header field |
//! |---|---|---|
//! | 0 | 8 | `UNSLDSYM` |
//! | 8 | 4 | version |
//! | 12 | 4 | CRC-32 (IEEE) of everything else in the file |
//! | 16 | 16 | debug id |
//! | 32 | 4 + 4 | CPU type and subtype |
//! | 40 | 8 | vm address of `__TEXT` |
//! | 48 | 8 | vm size of `__TEXT` |
//! | 56 | 4 | extent: offsets at or above it are outside the image |
//! | 60 | 4 | quality rank |
//! | 64 | 4 | bucket shift |
//! | 68 | 4 × 6 | counts: buckets, ranges, calls, scopes, functions, bytes of texts |
//! | 92 | 4 | count of folds |
//!
//! | section | record | meaning |
//! |---|---|---|
//! | buckets | u32 × (buckets + 1) | number of ranges that start below `bucket << shift` |
//! | starts | u32 | start of each range as an offset from `__TEXT`, ascending; a range ends at the next start |
//! | places | u32 scope, u24 line, u16 column | the place of each range; scope `0xFFFF_FFFF` in a gap |
//! | calls | u32 scope, u24 line, u16 column | a place at which a function was inlined |
//! | scopes | u32, u32 | a function, or one inlined copy of it: see below |
//! | functions | u32 text, u32 text, u32 text | linkage name, demangled name, path; `0xFFFF_FFFF` for a demangled name that is the same and for a path that is not known |
//! | texts | LEB128 length, bytes | UTF-8, escaped for a JSON string, without the quotes |
//!
//! The last bytes of the texts are the folds, which are counted as texts:
//!
//! | folds | u32 scope, u32 function | another function that has the same code as the one that owns the scope, by scope; at most [`MOST_FOLDED`] a scope |
//! | no return | u32, u32 | how many functions never return, if any; see below. Counted as a fold: no scope has bit 30 set |
//! | classes | u32 offset, u32 function | the symbol of a class, see below. Counted as folds: no scope has bit 31 set |
//!
//! Functions that never return come first in their section. The first number of their record has bit 30 set;
//! the bits below it count the functions that are declared so ([`NoReturn::Declared`]). The second number also
//! counts the functions after them that never return by their code ([`NoReturn::Inferred`]).
//!
//! The offset of a class is the offset of its symbol from `__TEXT`, with bit 31 set. The function is
//! `0xFFFF_FFFF` at the end of the class before.
//!
//! If the CPU type is [`CpuType::JAVASCRIPT`](unslide_model::CpuType::JAVASCRIPT), there is no machine code,
//! and the texts are the table of a source map, which `javascript::table` describes.
//!
//! A line or column of 0 is unknown. A function with code from several files has one record per file.
//!
//! The first number of a scope has the function's index in bits 0–27. With bit 31 set the scope owns its
//! machine code: bit 28 says that the answer is approximate, bits 29 and 30 hold the [`NameSource`], and the
//! second number is the offset of the symbol's start from `__TEXT`. With bit 31 clear the scope was inlined,
//! and the second number is the index of the call. The call at which a call's own scope was inlined always has
//! a lower index, so every chain ends.
//!
//! # History
//!
//! * 1: first version. Folds were added later: older readers take them for texts that nothing
//!   refers to, and older symcaches have none, so old and new work together. Source maps and classes
//!   were added later too: to older readers they are symcaches without code, and folds of scopes that
//!   do not exist. The same holds for the record of functions that never return, added last.

mod index;
mod prefetch;
mod read;
mod view;
mod walk;
mod write;

pub(crate) use prefetch::prefetch_lookups;
pub use read::{CodeLookup, SymCache, SymCacheError};
pub(crate) use view::{CallRecord, FunctionTexts};
pub use view::{ClassSymbol, CodeAnswer, CodeCall, NameSource, NoReturn};
pub(crate) use walk::{RangeWalk, WalkedPlace};
pub(crate) use write::{CodeOwner, CodePlace, CodeRanges, CodeScope, NoSymcache, ObjectHeader, Writer};

/// The version of the format. A symcache of another version is not read, but rebuilt.
pub const SYMCACHE_VERSION: u32 = 1;
/// The versions that this build reads, the newest first. During a format change there are two, so that workers
/// answer from either until every symcache is rebuilt.
pub const READ_SYMCACHE_VERSIONS: &[u32] = &[SYMCACHE_VERSION];
/// The versions that this build writes, the newest first.
pub const WRITTEN_SYMCACHE_VERSIONS: &[u32] = &[SYMCACHE_VERSION];
/// Size of the header, in bytes.
pub const HEADER_SIZE: usize = 96;
/// The most functions of one chain of inlined calls. The builder cuts longer chains, keeping the innermost
/// functions and the owner.
pub const MAX_CALLS: usize = 256;

/// The most other functions that are named for code that the linker merged as identical.
pub const MOST_FOLDED: usize = 8;

const SYMCACHE_MAGIC: &[u8; 8] = b"UNSLDSYM";
const NO_POSITION: u32 = u32::MAX;
const OWNER_FLAG: u32 = 1 << 31;
const CLASS_FLAG: u32 = 1 << 31;
const NO_RETURN: u32 = 1 << 30;
const APPROXIMATE_FLAG: u32 = 1 << 28;
const SOURCE_SHIFT: u32 = 29;
const FUNCTION_MASK: u32 = APPROXIMATE_FLAG - 1;
const PLACE_SIZE: usize = 9;
const SCOPE_SIZE: usize = 8;
const FUNCTION_SIZE: usize = 12;
const FOLD_SIZE: usize = 8;

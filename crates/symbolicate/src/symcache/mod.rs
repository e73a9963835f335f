//! The symcache: everything that a worker needs to turn addresses of one object into functions,
//! files and lines, built once from the object and read in place, from a buffer or a memory map.
//!
//! Names are demangled, paths are joined and every text is already escaped for JSON, so that a
//! lookup is a short search and the caller copies bytes.
//!
//! # Format, version 1
//!
//! All numbers are little-endian and need no alignment. A header of [`HEADER_SIZE`] bytes is
//! followed by eight sections without gaps, whose lengths follow from the header's counts; the
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
//! | 68 | 4 × 7 | counts: buckets, ranges, locations, scopes, functions, files, bytes of texts |
//!
//! | section | record | meaning |
//! |---|---|---|
//! | buckets | u32 × (buckets + 1) | number of ranges that start below `bucket << shift` |
//! | starts | u32 | start of each range as an offset from `__TEXT`, ascending; a range ends where the next starts |
//! | answers | u32 | the location of each range; `0xFFFF_FFFF` where no function is |
//! | locations | u32 scope, u24 file, u24 line, u16 column | a place in the source; file `0xFF_FFFF`, line 0, column 0: unknown |
//! | scopes | u32, u32 | a function, or one inlined copy of it: see below |
//! | functions | u32 text, u32 text | linkage name, demangled name (`0xFFFF_FFFF` where it is the same) |
//! | files | u32 text | joined path |
//! | texts | LEB128 length, bytes | UTF-8, escaped for a JSON string, without the quotes |
//!
//! The first number of a scope has the function's index in bits 0–27. With bit 31 set the scope
//! owns its machine code: bit 28 says that the answer is approximate, bits 29 and 30 hold the
//! [`Source`], and the second number is the offset of the symbol's start from `__TEXT`. With bit 31
//! clear the scope was inlined, and the second number is the location of the call. A call's
//! location always has a lower index than the location that it leads to, so every chain ends.
//!
//! # History
//!
//! * 1: first version.

mod read;
mod text;
mod write;

pub use read::{Answer, Call, Calls, Lookup, Source, SymCache, SymCacheError};
pub use text::JsonStr;
pub(crate) use text::escape;
pub(crate) use write::{Facts, Owner, Scope, TooLarge, Writer};

/// The version of the format. A symcache of another version is not read, but built anew.
pub const VERSION: u32 = 1;
/// Bytes of the header.
pub const HEADER_SIZE: usize = 96;
/// The most functions that one chain of inlined calls may have. Deeper ones are cut by the builder,
/// keeping the innermost functions and the owner.
pub const MAX_CALLS: usize = 256;

const MAGIC: &[u8; 8] = b"UNSLDSYM";
const NONE: u32 = u32::MAX;
const NO_FILE: u32 = 0x00FF_FFFF;
const OWNER: u32 = 1 << 31;
const APPROXIMATE: u32 = 1 << 28;
const SOURCE_SHIFT: u32 = 29;
const FUNCTION_MASK: u32 = APPROXIMATE - 1;
const LOCATION_SIZE: usize = 12;

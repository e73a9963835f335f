//! Reads symcaches. The header is checked once, every index and length on each use, so that no input makes a
//! look-up panic or loop forever.

use super::view::{ClassSymbol, CodeAnswer, CodeCall, Layout, SectionRange, View};
use super::walk::RangeWalk;
use super::{
    CLASS_FLAG, FOLD_SIZE, FUNCTION_SIZE, HEADER_SIZE, MAX_CALLS, MOST_FOLDED, NO_RETURN, PLACE_SIZE,
    SCOPE_SIZE, SYMCACHE_MAGIC, SYMCACHE_VERSION,
};
use crate::javascript::SourceMapTable;
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use unslide_model::{CpuType, DebugId, FileAddress, Quality, RelativeAddress};
use unslide_report::Text;

/// Why bytes are not a symcache that this build reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SymCacheError {
    /// Too short for a header, or not beginning with the format's mark.
    #[error("not a symcache")]
    NotASymCache,
    /// Another version of the format: the symcache has to be rebuilt.
    #[error("symcache of version {0}, expected {SYMCACHE_VERSION}")]
    Version(u32),
    /// The length differs from the one that the header's counts require.
    #[error("symcache of {found} bytes, but its header calls for {expected}")]
    Length {
        /// Length according to the header's counts, in bytes.
        expected: u64,
        /// Actual length, in bytes.
        found: u64,
    },
    /// A header field has a value that the format does not know.
    #[error("symcache header: bad {0}")]
    Header(&'static str),
    /// The bytes differ from those that were written.
    #[error("symcache checksum is {found:#010x}, expected {expected:#010x}")]
    Checksum {
        /// The checksum in the header.
        expected: u32,
        /// The checksum of the bytes.
        found: u32,
    },
}

/// A symcache over its bytes: a buffer, or a memory map through [`Bytes::from_owner`]. Reading copies nothing.
#[derive(Clone)]
pub struct SymCache {
    bytes: Bytes,
    layout: Layout,
    /// A number that no other symcache has in this process, from 1.
    number: u64,
}

/// Result of a look-up.
#[derive(Clone, Copy, Debug)]
pub enum CodeLookup<'a> {
    /// A function.
    Found(CodeAnswer<'a>),
    /// Inside the image, but in no named function.
    Gap,
    /// Past the end of the image.
    Outside,
}

impl<'a> CodeLookup<'a> {
    /// Returns the answer, if there is one.
    #[must_use]
    pub fn into_answer(self) -> Option<CodeAnswer<'a>> {
        match self {
            CodeLookup::Found(answer) => Some(answer),
            CodeLookup::Gap | CodeLookup::Outside => None,
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(u32_at(bytes, at)?) | u64::from(u32_at(bytes, at + 4)?) << 32)
}

impl Layout {
    fn from_bytes(bytes: &[u8]) -> Result<Layout, SymCacheError> {
        use SymCacheError::{Header, NotASymCache};
        if bytes.len() < HEADER_SIZE || !bytes.starts_with(SYMCACHE_MAGIC) {
            return Err(NotASymCache);
        }
        let field = |at| u32_at(bytes, at).ok_or(NotASymCache);
        let version = field(8)?;
        if version != SYMCACHE_VERSION {
            return Err(SymCacheError::Version(version));
        }
        let mut debug_id = [0; 16];
        debug_id.copy_from_slice(&bytes[16..32]);
        let mut end = HEADER_SIZE as u64;
        let mut section = |count: u64, size: u64| {
            let at = end;
            end += count * size;
            SectionRange {
                at: usize::try_from(at).unwrap_or(usize::MAX),
                len: usize::try_from(count).unwrap_or(usize::MAX),
            }
        };
        let mut counts = [0; 6];
        for (i, count) in counts.iter_mut().enumerate() {
            *count = u64::from(field(68 + 4 * i)?);
        }
        let [buckets, ranges, calls, scopes, functions, texts] = counts;
        let folds = u64::from(field(92)?);
        let text_bytes = texts.checked_sub(folds * FOLD_SIZE as u64).ok_or(Header("folds"))?;
        let layout = Layout {
            debug_id: DebugId(debug_id),
            cpu: CpuType::new(field(32)?, field(36)?),
            text_address: u64_at(bytes, 40).ok_or(NotASymCache)?,
            text_size: u64_at(bytes, 48).ok_or(NotASymCache)?,
            extent: field(56)?,
            quality: i16::try_from(field(60)?).ok().and_then(Quality::from_rank).ok_or(Header("quality"))?,
            shift: Some(field(64)?).filter(|shift| *shift < 32).ok_or(Header("shift"))?,
            buckets: section(buckets + 1, 4),
            starts: section(ranges, 4),
            places: section(ranges, PLACE_SIZE as u64),
            calls: section(calls, PLACE_SIZE as u64),
            scopes: section(scopes, SCOPE_SIZE as u64),
            functions: section(functions, FUNCTION_SIZE as u64),
            texts: section(text_bytes, 1),
            folds: section(folds, FOLD_SIZE as u64),
            scope_folds: 0,
            declared_no_return: 0,
            no_return: 0,
        };
        let found = bytes.len() as u64;
        if end != found {
            return Err(SymCacheError::Length { expected: end, found });
        }
        let view = View { bytes, layout: &layout };
        let scope_folds = view.first_fold(NO_RETURN, layout.folds.len);
        let counts = view
            .read_fold(scope_folds)
            .filter(|(declared, _)| declared & (CLASS_FLAG | NO_RETURN) == NO_RETURN);
        let (declared, no_return) = counts.unwrap_or((NO_RETURN, 0));
        Ok(Layout { scope_folds, declared_no_return: declared & !NO_RETURN, no_return, ..layout })
    }
}

impl std::fmt::Debug for SymCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "symcache of {}", self.layout.debug_id)
    }
}

impl SymCache {
    /// Checks the header and the length. Takes the same time for a small and a large symcache.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a whole symcache of [`SYMCACHE_VERSION`]. The contents are not checked:
    /// [`SymCache::verify_checksum`] does that.
    pub fn parse(bytes: impl Into<Bytes>) -> Result<SymCache, SymCacheError> {
        let bytes = bytes.into();
        let layout = Layout::from_bytes(&bytes)?;
        static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);
        Ok(SymCache { bytes, layout, number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed) })
    }

    /// Returns a number that no other symcache has in this process, from 1. A clone has the same.
    pub(crate) fn process_number(&self) -> u64 {
        self.number
    }

    /// Reads every byte and compares the checksum. Useful once after a download.
    ///
    /// # Errors
    /// Returns [`SymCacheError::Checksum`] if the bytes differ from those that were written.
    pub fn verify_checksum(&self) -> Result<(), SymCacheError> {
        let expected = u32_at(&self.bytes, 12).ok_or(SymCacheError::NotASymCache)?;
        let found = compute_checksum(&self.bytes);
        if found == expected { Ok(()) } else { Err(SymCacheError::Checksum { expected, found }) }
    }

    /// Returns the `LC_UUID` of the object.
    #[must_use]
    pub fn debug_id(&self) -> DebugId {
        self.layout.debug_id
    }

    /// Returns the CPU type of the object.
    #[must_use]
    pub fn cpu(&self) -> CpuType {
        self.layout.cpu
    }

    /// Returns the vm address of the object's `__TEXT`, the base of relative addresses.
    #[must_use]
    pub fn text_address(&self) -> FileAddress {
        FileAddress(self.layout.text_address)
    }

    /// Returns the vm size of the object's `__TEXT`, in bytes.
    #[must_use]
    pub fn text_size(&self) -> u64 {
        self.layout.text_size
    }

    /// Returns the kinds of names and lines that the object contained.
    #[must_use]
    pub fn quality(&self) -> Quality {
        self.layout.quality
    }

    /// Returns the table of a source map; `None` for a symcache of machine code, or if the table is broken.
    pub(crate) fn source_map(&self) -> Option<SourceMapTable<'_>> {
        let SectionRange { at, len } = self.layout.texts;
        let own = self.layout.cpu == CpuType::JAVASCRIPT;
        own.then(|| SourceMapTable::parse(self.bytes.get(at..)?.get(..len)?)).flatten()
    }

    /// Describes for people how many records of each kind there are.
    #[must_use]
    pub fn describe_contents(&self) -> String {
        let layout = &self.layout;
        format!(
            "{} ranges, {} calls, {} scopes, {} functions, {} bytes of texts",
            layout.starts.len, layout.calls.len, layout.scopes.len, layout.functions.len, layout.texts.len
        )
    }

    /// Returns the bytes of this symcache.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Looks up the function at an address, and the calls inlined there.
    #[must_use]
    pub fn lookup(&self, address: RelativeAddress) -> CodeLookup<'_> {
        let view = self.view();
        let Some(offset) = view.to_offset(address) else { return CodeLookup::Outside };
        let found = view.find_range(offset).and_then(|range| view.answer_of(range));
        found.map_or(CodeLookup::Gap, CodeLookup::Found)
    }

    pub(super) fn view(&self) -> View<'_> {
        View { bytes: &self.bytes, layout: &self.layout }
    }

    /// Returns the class of an instance that begins with this address. The address is that of the class's
    /// symbol, or lies in a vtable.
    #[must_use]
    pub fn class_symbol(&self, address: RelativeAddress) -> Option<ClassSymbol<'_>> {
        let view = self.view();
        let offset = u32::try_from(address.0).ok().filter(|offset| *offset < CLASS_FLAG - 1)?;
        let after = view.first_fold((offset | CLASS_FLAG) + 1, self.layout.folds.len);
        let (start, function) = view.read_fold(after.checked_sub(1)?)?;
        let texts = view.function_texts(function).filter(|_| start >= CLASS_FLAG)?;
        let symbol = texts.raw.unwrap_or(texts.name);
        let is_inside = start == offset | CLASS_FLAG || symbol.raw().starts_with(b"_ZTV");
        is_inside.then_some(ClassSymbol { symbol, name: texts.name })
    }

    /// Starts a walk over the ranges for ascending addresses.
    pub(crate) fn walk_ranges(&self) -> RangeWalk<'_> {
        RangeWalk::new(self.view())
    }

    /// Returns the start and the answer of every range, in order of address. A range ends at the start of the
    /// next.
    pub fn ranges(&self) -> impl Iterator<Item = (RelativeAddress, Option<CodeAnswer<'_>>)> {
        let view = self.view();
        (0..self.layout.starts.len).map_while(move |i| {
            let start = view.read_number(self.layout.starts, i)?;
            Some((RelativeAddress(u64::from(start)), view.answer_of(i)))
        })
    }
}

/// Computes the CRC-32 of all bytes except the four of the checksum itself.
pub(super) fn compute_checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(bytes.get(..12).unwrap_or_default());
    hasher.update(bytes.get(16..).unwrap_or_default());
    hasher.finalize()
}

impl<'a> CodeAnswer<'a> {
    /// Returns the names of other functions that the linker merged because their code is identical, at most
    /// [`MOST_FOLDED`]. Any of them may be the one that ran.
    pub fn folded_with(&self) -> impl Iterator<Item = Text<'a>> {
        let (view, owner) = (self.view, self.owner);
        let folds = view.layout.scope_folds;
        let folds = (view.first_fold(owner, folds)..folds).map_while(move |index| view.read_fold(index));
        let own = folds.take_while(move |(scope, _)| *scope == owner).take(MOST_FOLDED);
        own.filter_map(move |(_, function)| view.readable_name(function))
    }

    /// True if [`CodeAnswer::folded_with`] has a name.
    #[must_use]
    pub fn is_folded(&self) -> bool {
        self.view.layout.scope_folds > 0 && self.folded_with().next().is_some()
    }

    /// Returns the calls from the innermost inlined function to the owner of the machine code: at least one,
    /// and at most [`MAX_CALLS`].
    pub fn calls(&self) -> impl Iterator<Item = CodeCall<'a>> + use<'a> {
        let (view, mut next) = (self.view, Some(self.place));
        let calls = std::iter::from_fn(move || {
            let (call, caller) = view.read_call(next.take()?)?;
            next = caller;
            Some(call)
        });
        calls.take(MAX_CALLS)
    }
}

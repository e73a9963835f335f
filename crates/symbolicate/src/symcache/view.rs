//! The records of a symcache. Each index and length is checked on use.

use super::{
    APPROXIMATE_FLAG, FOLD_SIZE, FUNCTION_MASK, FUNCTION_SIZE, MAX_CALLS, NO_POSITION, OWNER_FLAG,
    PLACE_SIZE, SCOPE_SIZE, SOURCE_SHIFT,
};
use unslide_model::{CpuType, DebugId, Quality, RelativeAddress, words};
use unslide_report::Text;

/// Source of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameSource {
    /// DWARF, perhaps with the linkage name from the symbol table.
    Dwarf,
    /// The symbol table.
    Symtab,
    /// The export trie.
    Exports,
}

impl NameSource {
    pub(crate) fn code(self) -> u32 {
        match self {
            NameSource::Dwarf => 0,
            NameSource::Symtab => 1,
            NameSource::Exports => 2,
        }
    }
}

words! {
    /// Evidence that a function never returns.
    pub enum NoReturn {
        /// The source declares it: `DW_AT_noreturn`.
        Declared = "declared",
        /// Its code sets up a stack frame and never tears it down.
        Inferred = "inferred",
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SectionRange {
    pub(super) at: usize,
    pub(super) len: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) debug_id: DebugId,
    pub(super) cpu: CpuType,
    pub(super) text_address: u64,
    pub(super) text_size: u64,
    pub(super) extent: u32,
    pub(super) quality: Quality,
    pub(super) shift: u32,
    pub(super) buckets: SectionRange,
    pub(super) starts: SectionRange,
    pub(super) places: SectionRange,
    pub(super) calls: SectionRange,
    pub(super) scopes: SectionRange,
    pub(super) functions: SectionRange,
    pub(super) texts: SectionRange,
    pub(super) folds: SectionRange,
    /// Number of folds that belong to scopes; the others are classes and functions that never return.
    pub(super) scope_folds: usize,
    /// Functions below this index are declared to never return.
    pub(super) declared_no_return: u32,
    /// Functions below this index never return.
    pub(super) no_return: u32,
}

/// The function at an address, and the calls inlined there.
#[derive(Clone, Copy, Debug)]
pub struct CodeAnswer<'a> {
    /// Source of the name of the function that owns the code.
    pub source: NameSource,
    /// True if the function's extent is unknown, so that the name is only the nearest one.
    pub approximate: bool,
    /// Linkage name of the function that owns the machine code, if it has a name.
    pub symbol: Option<Text<'a>>,
    /// Start of that function or symbol, if known.
    pub symbol_address: Option<RelativeAddress>,
    pub(super) view: View<'a>,
    pub(super) place: PlaceRecord,
    /// The scope that owns the code.
    pub(super) owner: u32,
}

/// The symbol of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSymbol<'a> {
    /// The name of an Objective-C class, or the linkage name of Swift metadata or a C++ vtable.
    pub symbol: Text<'a>,
    /// Its demangled form.
    pub name: Text<'a>,
}

/// One call of the chain at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeCall<'a> {
    /// The function's demangled name; empty if the debug information gives none.
    pub function: Text<'a>,
    /// Its linkage name, only if it differs from `function`.
    pub raw: Option<Text<'a>>,
    /// The path of the source file, joined with its directories.
    pub file: Option<Text<'a>>,
    /// Line, from 1; `None` if the compiler gave none.
    pub line: Option<u32>,
    /// Column, from 1; `None` if the compiler gave none.
    pub column: Option<u32>,
    /// True for a function that was inlined into the next call.
    pub inlined: bool,
    /// Evidence that the function never returns; `None` if it may return.
    pub no_return: Option<NoReturn>,
}

#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) layout: &'a Layout,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "symcache of {}", self.layout.debug_id)
    }
}

/// A record of the sections `places` or `calls`.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceRecord {
    pub(super) scope: u32,
    line: u32,
    column: u32,
    /// Upper bound of the indexes of calls that this place leads to.
    before: u32,
}

/// A call of a chain, without its texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallRecord {
    pub(crate) function: u32,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
    pub(crate) inlined: bool,
}

/// The names and the source path of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionTexts<'a> {
    pub(crate) name: Text<'a>,
    pub(crate) raw: Option<Text<'a>>,
    pub(crate) file: Option<Text<'a>>,
}

pub(super) struct ScopeRecord {
    pub(super) function: u32,
    /// The index of the call for an inlined scope; `None` for an owner.
    pub(super) caller: Option<u32>,
    flags: u32,
    start: u32,
}

impl CallRecord {
    #[inline]
    fn from_place(place: PlaceRecord, scope: &ScopeRecord) -> CallRecord {
        CallRecord {
            function: scope.function,
            line: Some(place.line).filter(|n| *n != 0),
            column: Some(place.column).filter(|n| *n != 0),
            inlined: scope.caller.is_some(),
        }
    }
}

/// The function that owns code, without its texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnerRecord {
    pub(crate) function: u32,
    pub(crate) source: NameSource,
    pub(crate) approximate: bool,
    pub(crate) symbol_address: Option<RelativeAddress>,
}

impl ScopeRecord {
    /// Returns the owner for a scope that owns code; `None` if the record is damaged.
    #[inline]
    fn owner_record(&self) -> Option<OwnerRecord> {
        let source = match self.flags >> SOURCE_SHIFT & 3 {
            0 => NameSource::Dwarf,
            1 => NameSource::Symtab,
            2 => NameSource::Exports,
            _ => return None,
        };
        let start = Some(self.start).filter(|start| *start != NO_POSITION);
        Some(OwnerRecord {
            function: self.function,
            source,
            approximate: self.flags & APPROXIMATE_FLAG != 0,
            symbol_address: start.map(|start| RelativeAddress(u64::from(start))),
        })
    }
}

impl<'a> View<'a> {
    /// Returns record `index` of a section of records of this size; `None` past the section's end.
    #[inline]
    fn read_record<const SIZE: usize>(&self, section: SectionRange, index: usize) -> Option<&'a [u8; SIZE]> {
        if index >= section.len {
            return None;
        }
        self.bytes.get(section.at + index * SIZE..)?.first_chunk()
    }

    /// Returns record `index` of a section of numbers.
    #[inline]
    pub(super) fn read_number(&self, section: SectionRange, index: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.read_record(section, index)?))
    }

    /// Returns an address as the records store it; `None` past the end of the image.
    #[inline]
    pub(super) fn to_offset(self, address: RelativeAddress) -> Option<u32> {
        u32::try_from(address.0).ok().filter(|offset| *offset < self.layout.extent)
    }

    /// Returns the number of an offset's bucket.
    #[inline]
    pub(super) fn bucket_index(&self, offset: u32) -> usize {
        (offset >> self.layout.shift) as usize
    }

    /// Returns the number of the range that contains an offset; `None` before the first one.
    #[inline]
    pub(super) fn find_range(&self, offset: u32) -> Option<usize> {
        let bucket = self.bucket_index(offset);
        let ranges = self.layout.starts.len;
        let last = self.layout.buckets.len - 1;
        let bound =
            |i: usize| self.read_number(self.layout.buckets, i.min(last)).map(|n| (n as usize).min(ranges));
        let (mut low, mut high) = (bound(bucket)?, if bucket < last { bound(bucket + 1)? } else { ranges });
        while low < high {
            let middle = low + (high - low) / 2;
            if self.read_number(self.layout.starts, middle)? <= offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.checked_sub(1)
    }

    /// Returns the place of a range; `None` for a gap.
    #[inline]
    pub(super) fn place_of(&self, range: usize) -> Option<PlaceRecord> {
        self.read_place(self.layout.places, range, NO_POSITION).filter(|place| place.scope != NO_POSITION)
    }

    pub(super) fn answer_of(&self, range: usize) -> Option<CodeAnswer<'a>> {
        let (place, scope, owner) = self.walk_chain(range, |_| {})?;
        let [linkage, ..] = self.read_function(owner.function)?;
        let symbol = self.read_text(linkage)?;
        Some(CodeAnswer {
            source: owner.source,
            approximate: owner.approximate,
            symbol: Some(symbol).filter(|s| !s.is_empty()),
            symbol_address: owner.symbol_address,
            view: *self,
            place,
            owner: scope,
        })
    }

    /// Returns the place of a range, and the owner of its code with its scope. Passes each call on the way
    /// to `call`, the innermost first. `None` for a gap.
    #[inline]
    pub(super) fn walk_chain(
        &self,
        range: usize,
        mut call: impl FnMut(CallRecord),
    ) -> Option<(PlaceRecord, u32, OwnerRecord)> {
        let place = self.place_of(range)?;
        let mut at = place;
        for _ in 0..MAX_CALLS {
            let scope = self.read_scope(at.scope)?;
            call(CallRecord::from_place(at, &scope));
            match scope.caller {
                Some(caller) => at = self.find_caller(caller, at)?,
                None => return Some((place, at.scope, scope.owner_record()?)),
            }
        }
        None
    }

    #[inline]
    fn read_place(&self, section: SectionRange, index: usize, before: u32) -> Option<PlaceRecord> {
        let [s0, s1, s2, s3, l0, l1, l2, c0, c1] = *self.read_record::<PLACE_SIZE>(section, index)?;
        Some(PlaceRecord {
            scope: u32::from_le_bytes([s0, s1, s2, s3]),
            line: u32::from_le_bytes([l0, l1, l2, 0]),
            column: u32::from(u16::from_le_bytes([c0, c1])),
            before,
        })
    }

    /// Returns the place at which the function at `inner` was inlined.
    #[inline]
    fn find_caller(&self, index: u32, inner: PlaceRecord) -> Option<PlaceRecord> {
        if index < inner.before { self.call_at(index) } else { None }
    }

    /// Returns a place at which a function was inlined.
    #[inline]
    pub(super) fn call_at(&self, index: u32) -> Option<PlaceRecord> {
        self.read_place(self.layout.calls, index as usize, index)
    }

    #[inline]
    pub(super) fn read_scope(&self, index: u32) -> Option<ScopeRecord> {
        let [f0, f1, f2, f3, s0, s1, s2, s3] =
            *self.read_record::<SCOPE_SIZE>(self.layout.scopes, index as usize)?;
        let flags = u32::from_le_bytes([f0, f1, f2, f3]);
        let second = u32::from_le_bytes([s0, s1, s2, s3]);
        let owner = flags & OWNER_FLAG != 0;
        Some(ScopeRecord {
            function: flags & FUNCTION_MASK,
            caller: (!owner).then_some(second),
            flags,
            start: second,
        })
    }

    /// Returns the positions of a function's texts: linkage name, demangled name and path.
    #[inline]
    pub(super) fn read_function(&self, index: u32) -> Option<[u32; 3]> {
        let record = self.read_record::<FUNCTION_SIZE>(self.layout.functions, index as usize)?;
        let [r0, r1, r2, r3, d0, d1, d2, d3, p0, p1, p2, p3] = *record;
        Some([[r0, r1, r2, r3], [d0, d1, d2, d3], [p0, p1, p2, p3]].map(u32::from_le_bytes))
    }

    /// Returns the first of this many folds with a scope at or above this one.
    pub(super) fn first_fold(&self, scope: u32, folds: usize) -> usize {
        let (mut low, mut high) = (0, folds);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.read_fold(middle) {
                Some((other, _)) if other < scope => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// Returns a scope, and a function that it is folded with.
    pub(super) fn read_fold(&self, index: usize) -> Option<(u32, u32)> {
        let [s0, s1, s2, s3, f0, f1, f2, f3] = *self.read_record::<FOLD_SIZE>(self.layout.folds, index)?;
        Some((u32::from_le_bytes([s0, s1, s2, s3]), u32::from_le_bytes([f0, f1, f2, f3])))
    }

    /// Returns the readable name of a function.
    pub(super) fn readable_name(&self, function: u32) -> Option<Text<'a>> {
        let [raw, demangled, _] = self.read_function(function)?;
        self.read_text(if demangled == NO_POSITION { raw } else { demangled })
    }

    #[inline]
    fn read_text(&self, offset: u32) -> Option<Text<'a>> {
        let texts = self.bytes.get(self.layout.texts.at.checked_add(offset as usize)?..)?;
        // Nearly every length has one byte.
        match texts.split_first()? {
            (length @ 0..0x80, text) => Some(Text::from_escaped(text.get(..usize::from(*length))?)),
            _ => long_text(texts),
        }
    }

    /// Returns the call at a place without its texts, and the place at which it was inlined.
    #[inline]
    fn call_record(&self, place: PlaceRecord) -> Option<(CallRecord, Option<PlaceRecord>)> {
        let scope = self.read_scope(place.scope)?;
        let caller = scope.caller.and_then(|caller| self.find_caller(caller, place));
        Some((CallRecord::from_place(place, &scope), caller))
    }

    #[inline]
    pub(super) fn read_call(&self, place: PlaceRecord) -> Option<(CodeCall<'a>, Option<PlaceRecord>)> {
        let (record, caller) = self.call_record(place)?;
        let texts = self.function_texts(record.function)?;
        let call = CodeCall {
            function: texts.name,
            raw: texts.raw,
            file: texts.file,
            line: record.line,
            column: record.column,
            inlined: record.inlined,
            no_return: self.no_return(record.function),
        };
        Some((call, caller))
    }

    /// Returns the evidence that a function never returns; `None` if it may return.
    #[inline]
    fn no_return(&self, function: u32) -> Option<NoReturn> {
        if function >= self.layout.no_return {
            return None;
        }
        let is_declared = function < self.layout.declared_no_return;
        Some(if is_declared { NoReturn::Declared } else { NoReturn::Inferred })
    }

    /// Returns the texts of a function.
    #[inline]
    pub(super) fn function_texts(&self, index: u32) -> Option<FunctionTexts<'a>> {
        let [linkage, demangled, path] = self.read_function(index)?;
        let raw = self.read_text(linkage)?;
        let optional = |text| Some(text).filter(|text| *text != NO_POSITION);
        let demangled = match optional(demangled) {
            Some(text) => Some(self.read_text(text)?),
            None => None,
        };
        Some(FunctionTexts {
            name: demangled.unwrap_or(raw),
            raw: demangled.map(|_| raw),
            file: optional(path).and_then(|text| self.read_text(text)),
        })
    }
}

/// Returns a text with a length of several bytes.
fn long_text(texts: &[u8]) -> Option<Text<'_>> {
    let mut length = 0_usize;
    for (i, byte) in texts.iter().take(5).enumerate() {
        length |= usize::from(byte & 0x7F) << (7 * i);
        if byte & 0x80 == 0 {
            return Some(Text::from_escaped(texts.get(i + 1..)?.get(..length)?));
        }
    }
    None
}

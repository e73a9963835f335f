//! Writes symcaches. Equal values are stored once, in the order of first use, so that an object always gives
//! the same bytes.

use super::index::Index;
use super::read::compute_checksum;
use super::{
    APPROXIMATE_FLAG, CLASS_FLAG, FOLD_SIZE, FUNCTION_MASK, FUNCTION_SIZE, HEADER_SIZE, MOST_FOLDED,
    NO_POSITION, NO_RETURN, NameSource, NoReturn, OWNER_FLAG, PLACE_SIZE, SCOPE_SIZE, SOURCE_SHIFT,
    SYMCACHE_MAGIC, SYMCACHE_VERSION,
};
use crate::demangle::{SwiftNames, Unavailable, demangle, is_swift};
use crate::json::escape_text;
use std::collections::{BTreeMap, HashMap};
use unslide_model::{CpuType, DebugId, Quality};

/// A function that owns machine code.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CodeOwner {
    pub(crate) function: u32,
    pub(crate) start: Option<u32>,
    pub(crate) source: NameSource,
    pub(crate) approximate: bool,
}

/// The function to which a place's code belongs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CodeScope {
    Owner(CodeOwner),
    /// A copy of `function`, inlined at the call `caller`.
    Inlined {
        function: u32,
        caller: u32,
    },
}

/// A scope with a position in its source. A line or column too large for its field is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CodePlace {
    pub(crate) scope: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl CodePlace {
    fn to_record(self) -> [u8; PLACE_SIZE] {
        let line = if self.line > 0x00FF_FFFF { 0 } else { self.line };
        let column = if line == 0 { 0 } else { u16::try_from(self.column).unwrap_or(0) };
        let ([s0, s1, s2, s3], [l0, l1, l2, _]) = (self.scope.to_le_bytes(), line.to_le_bytes());
        let [c0, c1] = column.to_le_bytes();
        [s0, s1, s2, s3, l0, l1, l2, c0, c1]
    }
}

/// Ascending starts of ranges with their places, in the written form.
#[derive(Default)]
pub(crate) struct CodeRanges {
    starts: Vec<u32>,
    places: Vec<[u8; PLACE_SIZE]>,
}

impl CodeRanges {
    /// Adds a start higher than those before, with its place if it has one.
    pub(crate) fn push(&mut self, start: u32, place: Option<CodePlace>) {
        let nothing = CodePlace { scope: NO_POSITION, line: 0, column: 0 };
        self.starts.push(start);
        self.places.push(place.unwrap_or(nothing).to_record());
    }
}

impl FromIterator<(u32, Option<CodePlace>)> for CodeRanges {
    fn from_iter<I: IntoIterator<Item = (u32, Option<CodePlace>)>>(ranges: I) -> CodeRanges {
        let mut list = CodeRanges::default();
        ranges.into_iter().for_each(|(start, place)| list.push(start, place));
        list
    }
}

/// Facts about the object for the header.
pub(crate) struct ObjectHeader {
    pub(crate) debug_id: DebugId,
    pub(crate) cpu: CpuType,
    pub(crate) text_address: u64,
    pub(crate) text_size: u64,
    pub(crate) extent: u32,
    pub(crate) quality: Quality,
}

/// Placeholder of a demangled name that is not computed yet.
const WAITING_FOR_DEMANGLER: u32 = NO_POSITION - 1;
/// Batch size of Swift names that are demangled together, in bytes.
const WAITING_BYTES: usize = 32 << 10;

/// Reason why there is no symcache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSymcache {
    /// It would be larger than allowed, or than the format can hold.
    TooLarge,
    /// Swift's demangler is unavailable.
    NoNames,
}

impl From<Unavailable> for NoSymcache {
    fn from(_: Unavailable) -> NoSymcache {
        NoSymcache::NoNames
    }
}

/// Collects the contents of a symcache.
#[derive(Default)]
pub(crate) struct Writer {
    texts: Vec<u8>,
    /// Positions of texts, by text.
    text_index: Index,
    /// Escaped form of a text during its look-up.
    escaped: Vec<u8>,
    functions: Vec<[u32; 3]>,
    /// Functions by linkage name and path.
    function_index: Index,
    /// Demangled names by linkage name.
    demangled: HashMap<u32, u32>,
    scopes: Vec<(u32, u32)>,
    scope_index: Index,
    calls: Vec<CodePlace>,
    call_index: Index,
    /// A scope that owns its code, with another function that has the same code; by scope.
    folds: Vec<(u32, u32)>,
    /// Functions that never return, by index.
    no_return: BTreeMap<u32, NoReturn>,
    /// The marked start of a class, with the function that has its name; by address.
    classes: Vec<(u32, u32)>,
    swift: SwiftNames<'static>,
    /// Swift names to be demangled together, with the positions of their texts.
    waiting: Vec<(u32, Box<str>)>,
    waiting_bytes: usize,
    limit: usize,
}

fn check_count(len: usize) -> Result<u32, NoSymcache> {
    u32::try_from(len).ok().filter(|n| *n < FUNCTION_MASK).ok_or(NoSymcache::TooLarge)
}

impl Writer {
    /// Returns an empty symcache that may grow to `limit` bytes.
    pub(crate) fn new(limit: usize) -> Writer {
        Writer { limit, ..Writer::default() }
    }

    /// Returns a symcache without machine code. Its texts are a table of another kind.
    pub(crate) fn from_table(table: Vec<u8>, limit: usize) -> Writer {
        Writer { texts: table, limit, ..Writer::default() }
    }

    fn size(&self) -> usize {
        HEADER_SIZE
            + self.texts.len()
            + FUNCTION_SIZE * self.functions.len()
            + SCOPE_SIZE * self.scopes.len()
            + PLACE_SIZE * self.calls.len()
            + FOLD_SIZE * (self.folds.len() + self.classes.len())
    }

    fn add_text(&mut self, text: &str) -> Result<u32, NoSymcache> {
        self.escaped.clear();
        escape_text(text, &mut self.escaped);
        let (texts, escaped) = (&self.texts, &self.escaped[..]);
        if let Some(at) = self.text_index.find(escaped, |at| text_at(texts, at) == escaped) {
            return Ok(at);
        }
        let at = u32::try_from(self.texts.len()).map_err(|_| NoSymcache::TooLarge)?;
        let mut length = u32::try_from(self.escaped.len()).map_err(|_| NoSymcache::TooLarge)?;
        while length >= 0x80 {
            self.texts.push((length & 0x7F) as u8 | 0x80);
            length >>= 7;
        }
        self.texts.push((length & 0x7F) as u8);
        self.texts.extend_from_slice(&self.escaped);
        if self.size() > self.limit || self.texts.len() >= WAITING_FOR_DEMANGLER as usize {
            return Err(NoSymcache::TooLarge);
        }
        let texts = &self.texts;
        self.text_index.insert(at, |at| text_at(texts, at));
        Ok(at)
    }

    /// Returns the index of the function with a linkage name and a path. Demangles each name once.
    pub(crate) fn add_function(&mut self, linkage_name: &str, path: Option<u32>) -> Result<u32, NoSymcache> {
        let raw = self.add_text(linkage_name)?;
        let path = path.unwrap_or(NO_POSITION);
        let functions = &self.functions;
        let key = |index: u32| functions.get(index as usize).map(|[raw, _, path]| [*raw, *path]);
        let known = self.function_index.find(&Some([raw, path]), |index| key(index) == Some([raw, path]));
        if let Some(index) = known {
            return Ok(index);
        }
        let demangled = match self.demangled.get(&raw) {
            Some(known) => *known,
            None => {
                let demangled = if is_swift(linkage_name) {
                    self.waiting.push((raw, linkage_name.into()));
                    self.waiting_bytes += linkage_name.len();
                    WAITING_FOR_DEMANGLER
                } else {
                    self.add_readable(demangle(linkage_name))?
                };
                self.demangled.insert(raw, demangled);
                if self.waiting_bytes >= WAITING_BYTES {
                    self.demangle_waiting()?;
                }
                demangled
            }
        };
        let index = check_count(self.functions.len())?;
        self.functions.push([raw, demangled, path]);
        let functions = &self.functions;
        self.function_index
            .insert(index, |index| functions.get(index as usize).map(|[raw, _, path]| [*raw, *path]));
        Ok(index)
    }

    /// Limits the cost of demangling Swift names to an amount that fits an object of this size.
    pub(crate) fn limit_swift(&mut self, object_bytes: u64) {
        self.swift = SwiftNames::for_object(object_bytes);
    }

    fn add_readable(&mut self, name: Option<String>) -> Result<u32, NoSymcache> {
        name.map_or(Ok(NO_POSITION), |name| self.add_text(&name))
    }

    /// Demangles the Swift names that are waiting.
    fn demangle_waiting(&mut self) -> Result<(), NoSymcache> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let names: Vec<&str> = waiting.iter().map(|(_, name)| &**name).collect();
        for ((raw, _), name) in waiting.iter().zip(self.swift.demangle(&names)?) {
            let readable = self.add_readable(name)?;
            self.demangled.insert(*raw, readable);
        }
        Ok(())
    }

    /// Records that a function never returns. A declaration has precedence over evidence from its code.
    pub(crate) fn never_returns(&mut self, function: u32, known: NoReturn) {
        if known == NoReturn::Declared || !self.no_return.contains_key(&function) {
            self.no_return.insert(function, known);
        }
    }

    /// Returns the number that represents a path in [`Writer::add_function`].
    pub(crate) fn add_path(&mut self, path: &str) -> Result<u32, NoSymcache> {
        self.add_text(path)
    }

    /// Returns the index of a scope.
    pub(crate) fn add_scope(&mut self, scope: CodeScope) -> Result<u32, NoSymcache> {
        let record = match scope {
            CodeScope::Owner(owner) => {
                let approximate = if owner.approximate { APPROXIMATE_FLAG } else { 0 };
                let flags = OWNER_FLAG | owner.source.code() << SOURCE_SHIFT | approximate;
                (owner.function | flags, owner.start.unwrap_or(NO_POSITION))
            }
            CodeScope::Inlined { function, caller } => (function, caller),
        };
        let scopes = &self.scopes;
        if let Some(index) =
            self.scope_index.find(&Some(&record), |index| scopes.get(index as usize) == Some(&record))
        {
            return Ok(index);
        }
        let index = check_count(self.scopes.len())?;
        self.scopes.push(record);
        let scopes = &self.scopes;
        self.scope_index.insert(index, |index| scopes.get(index as usize));
        Ok(index)
    }

    /// Returns the index of a scope that owns its code and shares it with the functions of these linkage names.
    pub(crate) fn add_owner<'n>(
        &mut self,
        owner: CodeOwner,
        folded_with: impl Iterator<Item = &'n str>,
    ) -> Result<u32, NoSymcache> {
        let known = self.scopes.len();
        let scope = self.add_scope(CodeScope::Owner(owner))?;
        if self.scopes.len() > known {
            for name in folded_with.take(MOST_FOLDED) {
                let function = self.add_function(name, None)?;
                self.folds.push((scope, function));
            }
        }
        Ok(scope)
    }

    /// Adds the symbol of a class, or the end of the one before. They come in the order of their offsets from
    /// `__TEXT`, which are below 2^31.
    pub(crate) fn add_class(&mut self, start: u32, name: Option<&str>) -> Result<(), NoSymcache> {
        let function = name.map_or(Ok(NO_POSITION), |name| self.add_function(name, None))?;
        self.classes.push((start | CLASS_FLAG, function));
        if self.size() > self.limit { Err(NoSymcache::TooLarge) } else { Ok(()) }
    }

    /// Returns the index of a call, for the scopes of the functions inlined there.
    pub(crate) fn add_call(&mut self, place: CodePlace) -> Result<u32, NoSymcache> {
        let calls = &self.calls;
        if let Some(index) =
            self.call_index.find(&Some(&place), |index| calls.get(index as usize) == Some(&place))
        {
            return Ok(index);
        }
        let index = check_count(self.calls.len())?;
        self.calls.push(place);
        let calls = &self.calls;
        self.call_index.insert(index, |index| calls.get(index as usize));
        if self.size() > self.limit { Err(NoSymcache::TooLarge) } else { Ok(index) }
    }

    /// Returns the bytes of the symcache.
    pub(crate) fn into_bytes(
        mut self,
        facts: &ObjectHeader,
        ranges: CodeRanges,
    ) -> Result<Vec<u8>, NoSymcache> {
        self.demangle_waiting()?;
        for index in
            [&mut self.text_index, &mut self.function_index, &mut self.scope_index, &mut self.call_index]
        {
            *index = Index::default();
        }
        self.put_no_return_first()?;
        self.folds.append(&mut self.classes);
        for [raw, demangled, _] in &mut self.functions {
            if *demangled == WAITING_FOR_DEMANGLER {
                *demangled = self.demangled.get(raw).copied().unwrap_or(NO_POSITION);
            }
        }
        // About eight ranges per bucket: the search reads the index once and one or two cache lines of starts.
        let wanted = (ranges.starts.len() / 8).max(1) as u64;
        let shift = (0..31).find(|s| u64::from(facts.extent) >> s < wanted).unwrap_or(31);
        let buckets = (facts.extent >> shift) + 1;
        let size = self.size() + 4 * (buckets as usize + 1) + (4 + PLACE_SIZE) * ranges.starts.len();
        if size > self.limit {
            return Err(NoSymcache::TooLarge);
        }
        let mut out = Vec::with_capacity(size);
        self.write_header(facts, ranges.starts.len(), shift, buckets, &mut out)?;
        write_ranges(ranges, shift, buckets, &mut out)?;
        self.write_tables(&mut out);
        let crc = compute_checksum(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        Ok(out)
    }

    /// Moves the functions that never return to the front, first those that are declared so. Then the index
    /// alone identifies them.
    fn put_no_return_first(&mut self) -> Result<(), NoSymcache> {
        let no_return = std::mem::take(&mut self.no_return);
        if no_return.is_empty() {
            return Ok(());
        }
        let mut order: Vec<u32> = (0..check_count(self.functions.len())?).collect();
        order.sort_by_key(|index| {
            let known = no_return.get(index).copied();
            (known.is_none(), known == Some(NoReturn::Inferred))
        });
        let mut moved = vec![0; order.len()];
        for (to, from) in (0..).zip(&order) {
            moved[*from as usize] = to;
        }
        self.functions = order.iter().map(|from| self.functions[*from as usize]).collect();
        for (first, _) in &mut self.scopes {
            *first = *first & !FUNCTION_MASK | moved[(*first & FUNCTION_MASK) as usize];
        }
        for (_, function) in self.folds.iter_mut().chain(&mut self.classes) {
            *function = moved.get(*function as usize).copied().unwrap_or(*function);
        }
        let declared = no_return.values().filter(|known| **known == NoReturn::Declared).count();
        self.folds.push((NO_RETURN | check_count(declared)?, check_count(no_return.len())?));
        Ok(())
    }

    fn write_header(
        &self,
        object: &ObjectHeader,
        ranges: usize,
        shift: u32,
        buckets: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), NoSymcache> {
        out.extend_from_slice(SYMCACHE_MAGIC);
        write_word(out, SYMCACHE_VERSION);
        write_word(out, 0);
        out.extend_from_slice(&object.debug_id.0);
        write_word(out, object.cpu.cpu_type);
        write_word(out, object.cpu.cpu_subtype);
        out.extend_from_slice(&object.text_address.to_le_bytes());
        out.extend_from_slice(&object.text_size.to_le_bytes());
        write_word(out, object.extent);
        write_word(out, u32::from(object.quality.rank().unsigned_abs()));
        write_word(out, shift);
        write_word(out, buckets);
        for len in [ranges, self.calls.len(), self.scopes.len(), self.functions.len()] {
            write_word(out, check_count(len)?);
        }
        let text_bytes = self.texts.len() + FOLD_SIZE * self.folds.len();
        write_word(out, u32::try_from(text_bytes).map_err(|_| NoSymcache::TooLarge)?);
        write_word(out, check_count(self.folds.len())?);
        debug_assert_eq!(out.len(), HEADER_SIZE);
        Ok(())
    }

    /// Writes calls, scopes, functions, texts and folds, and frees each after it is written.
    fn write_tables(self, out: &mut Vec<u8>) {
        for call in self.calls {
            out.extend_from_slice(&call.to_record());
        }
        for (first, second) in self.scopes {
            write_word(out, first);
            write_word(out, second);
        }
        for text in self.functions.into_iter().flatten() {
            write_word(out, text);
        }
        out.extend_from_slice(&self.texts);
        for (scope, function) in self.folds {
            write_word(out, scope);
            write_word(out, function);
        }
    }
}

/// Writes buckets, starts and places.
fn write_ranges(ranges: CodeRanges, shift: u32, buckets: u32, out: &mut Vec<u8>) -> Result<(), NoSymcache> {
    let mut below = 0;
    for bucket in 0..=u64::from(buckets) {
        while ranges.starts.get(below).is_some_and(|start| u64::from(*start) < bucket << shift) {
            below += 1;
        }
        write_word(out, check_count(below)?);
    }
    for start in ranges.starts {
        write_word(out, start);
    }
    out.extend_from_slice(ranges.places.as_flattened());
    Ok(())
}

/// Returns the text at an offset. Its length comes first, seven bits per byte.
fn text_at(texts: &[u8], at: u32) -> &[u8] {
    let (mut at, mut length, mut shift) = (at as usize, 0, 0);
    loop {
        let byte = texts.get(at).copied().unwrap_or(0);
        length |= usize::from(byte & 0x7F) << shift;
        (at, shift) = (at + 1, shift + 7);
        if byte < 0x80 {
            return texts.get(at..at + length).unwrap_or_default();
        }
    }
}

fn write_word(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

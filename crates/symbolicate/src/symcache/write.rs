//! Writing: equal things are stored once, in the order in which they first come, so that one object
//! always gives the same bytes.

use super::read::checksum;
use super::text::escape;
use super::{
    APPROXIMATE, FUNCTION_MASK, HEADER_SIZE, MAGIC, NO_FILE, NONE, OWNER, SOURCE_SHIFT, Source, VERSION,
};
use crate::demangle::Demangler;
use std::collections::HashMap;
use unslide_model::{CpuType, DebugId, Quality};

/// A function that owns machine code.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) function: u32,
    pub(crate) start: Option<u32>,
    pub(crate) source: Source,
    pub(crate) approximate: bool,
}

/// Whose code a location is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    Owner(Owner),
    /// A copy of `function`, inlined at the location `caller`.
    Inlined {
        function: u32,
        caller: u32,
    },
}

/// What the header says of the object.
pub(crate) struct Facts {
    pub(crate) debug_id: DebugId,
    pub(crate) cpu: CpuType,
    pub(crate) text_address: u64,
    pub(crate) text_size: u64,
    pub(crate) extent: u32,
    pub(crate) quality: Quality,
}

/// The symcache would be larger than allowed, or than the format can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Collects what a symcache holds.
#[derive(Default)]
pub(crate) struct Writer {
    texts: Vec<u8>,
    text_index: HashMap<Box<str>, u32>,
    functions: Vec<(u32, u32)>,
    function_index: HashMap<u32, u32>,
    files: Vec<u32>,
    file_index: HashMap<u32, u32>,
    scopes: Vec<(u32, u32)>,
    scope_index: HashMap<(u32, u32), u32>,
    locations: Vec<[u8; 12]>,
    location_index: HashMap<[u8; 12], u32>,
    demangler: Demangler,
    limit: usize,
}

fn count(len: usize) -> Result<u32, TooLarge> {
    u32::try_from(len).ok().filter(|n| *n < FUNCTION_MASK).ok_or(TooLarge)
}

impl Writer {
    /// An empty symcache that may grow to `limit` bytes.
    pub(crate) fn new(limit: usize) -> Writer {
        Writer { limit, ..Writer::default() }
    }

    fn size(&self) -> usize {
        HEADER_SIZE
            + self.texts.len()
            + 8 * (self.functions.len() + self.scopes.len())
            + 4 * self.files.len()
            + 12 * self.locations.len()
    }

    fn text(&mut self, text: &str) -> Result<u32, TooLarge> {
        if let Some(at) = self.text_index.get(text) {
            return Ok(*at);
        }
        let at = u32::try_from(self.texts.len()).map_err(|_| TooLarge)?;
        let mut escaped = Vec::with_capacity(text.len() + 8);
        escape(text, &mut escaped);
        let mut length = u32::try_from(escaped.len()).map_err(|_| TooLarge)?;
        while length >= 0x80 {
            self.texts.push((length & 0x7F) as u8 | 0x80);
            length >>= 7;
        }
        self.texts.push((length & 0x7F) as u8);
        self.texts.extend_from_slice(&escaped);
        if self.size() > self.limit || self.texts.len() >= NONE as usize {
            return Err(TooLarge);
        }
        self.text_index.insert(text.into(), at);
        Ok(at)
    }

    /// The index of the function with a linkage name. Demangles each name once.
    pub(crate) fn function(&mut self, linkage_name: &str) -> Result<u32, TooLarge> {
        let raw = self.text(linkage_name)?;
        if let Some(index) = self.function_index.get(&raw) {
            return Ok(*index);
        }
        let demangled = match self.demangler.demangle(linkage_name) {
            Some(name) if name != linkage_name => self.text(&name)?,
            _ => NONE,
        };
        let index = count(self.functions.len())?;
        self.functions.push((raw, demangled));
        self.function_index.insert(raw, index);
        Ok(index)
    }

    /// The index of a path.
    pub(crate) fn file(&mut self, path: &str) -> Result<u32, TooLarge> {
        let text = self.text(path)?;
        if let Some(index) = self.file_index.get(&text) {
            return Ok(*index);
        }
        let index = count(self.files.len()).ok().filter(|n| *n < NO_FILE).ok_or(TooLarge)?;
        self.files.push(text);
        self.file_index.insert(text, index);
        Ok(index)
    }

    /// The index of a scope.
    pub(crate) fn scope(&mut self, scope: Scope) -> Result<u32, TooLarge> {
        let record = match scope {
            Scope::Owner(owner) => {
                let approximate = if owner.approximate { APPROXIMATE } else { 0 };
                let flags = OWNER | owner.source.code() << SOURCE_SHIFT | approximate;
                (owner.function | flags, owner.start.unwrap_or(NONE))
            }
            Scope::Inlined { function, caller } => (function, caller),
        };
        if let Some(index) = self.scope_index.get(&record) {
            return Ok(*index);
        }
        let index = count(self.scopes.len())?;
        self.scopes.push(record);
        self.scope_index.insert(record, index);
        Ok(index)
    }

    /// The index of a place in the source. A line or column too large for its field is unknown.
    pub(crate) fn location(
        &mut self,
        scope: u32,
        file: Option<u32>,
        line: u32,
        column: u32,
    ) -> Result<u32, TooLarge> {
        let [s0, s1, s2, s3] = scope.to_le_bytes();
        let [f0, f1, f2, _] = file.unwrap_or(NO_FILE).to_le_bytes();
        let line = if line > 0x00FF_FFFF { 0 } else { line };
        let [l0, l1, l2, _] = line.to_le_bytes();
        let [c0, c1] = if line == 0 { [0; 2] } else { u16::try_from(column).unwrap_or(0).to_le_bytes() };
        let record = [s0, s1, s2, s3, f0, f1, f2, l0, l1, l2, c0, c1];
        if let Some(index) = self.location_index.get(&record) {
            return Ok(*index);
        }
        let index = count(self.locations.len())?;
        self.locations.push(record);
        self.location_index.insert(record, index);
        if self.size() > self.limit { Err(TooLarge) } else { Ok(index) }
    }

    /// The bytes, where `ranges` are ascending starts with the location that they lead to.
    pub(crate) fn finish(self, facts: &Facts, ranges: &[(u32, Option<u32>)]) -> Result<Vec<u8>, TooLarge> {
        // About four ranges a bucket: the search reads the index once and one or two cache lines of starts.
        let wanted = (ranges.len() / 4).max(1) as u64;
        let shift = (0..31).find(|s| u64::from(facts.extent) >> s < wanted).unwrap_or(31);
        let buckets = (facts.extent >> shift) + 1;
        let size = self.size() + 4 * (buckets as usize + 1) + 8 * ranges.len();
        if size > self.limit {
            return Err(TooLarge);
        }
        let mut out = Vec::with_capacity(size);
        out.extend_from_slice(MAGIC);
        let word = |out: &mut Vec<u8>, n: u32| out.extend_from_slice(&n.to_le_bytes());
        word(&mut out, VERSION);
        word(&mut out, 0);
        out.extend_from_slice(&facts.debug_id.0);
        word(&mut out, facts.cpu.cpu_type);
        word(&mut out, facts.cpu.cpu_subtype);
        out.extend_from_slice(&facts.text_address.to_le_bytes());
        out.extend_from_slice(&facts.text_size.to_le_bytes());
        word(&mut out, facts.extent);
        word(&mut out, u32::from(facts.quality.rank().unsigned_abs()));
        word(&mut out, shift);
        word(&mut out, buckets);
        for len in
            [ranges.len(), self.locations.len(), self.scopes.len(), self.functions.len(), self.files.len()]
        {
            word(&mut out, count(len)?);
        }
        word(&mut out, u32::try_from(self.texts.len()).map_err(|_| TooLarge)?);
        debug_assert_eq!(out.len(), HEADER_SIZE);
        let mut below = 0;
        for bucket in 0..=u64::from(buckets) {
            while ranges.get(below).is_some_and(|(start, _)| u64::from(*start) < bucket << shift) {
                below += 1;
            }
            word(&mut out, count(below)?);
        }
        for (start, _) in ranges {
            word(&mut out, *start);
        }
        for (_, location) in ranges {
            word(&mut out, location.unwrap_or(NONE));
        }
        for location in &self.locations {
            out.extend_from_slice(location);
        }
        for (first, second) in self.scopes.iter().chain(&self.functions) {
            word(&mut out, *first);
            word(&mut out, *second);
        }
        for file in &self.files {
            word(&mut out, *file);
        }
        out.extend_from_slice(&self.texts);
        let crc = checksum(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        Ok(out)
    }
}

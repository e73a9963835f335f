//! From a slice to its symcache.

use super::classes::add_classes;
use super::code::CodeMap;
use super::dwarf::{self, CodeStretch};
use super::error::malformed;
use super::macho::MachFile;
use super::symbols::{SymbolExtent, extents};
use super::{BuiltSymCache, MAX_SYMCACHE_BYTES, ObjectError, ObjectKind, has_symbols};
use crate::demangle::Unavailable;
use crate::symcache::{CodeOwner, CodePlace, NoSymcache, ObjectHeader, Writer};
use unslide_model::Quality;

impl From<NoSymcache> for ObjectError {
    fn from(error: NoSymcache) -> ObjectError {
        match error {
            NoSymcache::TooLarge => ObjectError::TooLarge("the symcache would be larger than allowed".into()),
            NoSymcache::NoNames => ObjectError::Unavailable(Unavailable),
        }
    }
}

pub(super) fn build(slice: &[u8]) -> Result<BuiltSymCache, ObjectError> {
    let file = MachFile::parse(slice)?;
    if file.kind == ObjectKind::Relocatable {
        return Err(ObjectError::Unsupported("not linked: its addresses are not final".into()));
    }
    let debug_id = file.debug_id.ok_or_else(|| ObjectError::Unsupported("no UUID".into()))?;
    let text = file.text.clone().ok_or_else(|| malformed("no __TEXT segment"))?;
    let code = CodeMap::new(&file);
    let symbols = extents(&file, &code)?;
    let mut writer = Writer::new(MAX_SYMCACHE_BYTES);
    let mut warnings = Vec::new();
    let has_dwarf = !file.debug_section("__debug_info")?.is_empty();
    let stretches = if has_dwarf {
        dwarf::stretches(&file, &code, &symbols, &mut writer, &mut warnings)?
    } else {
        Vec::new()
    };
    let ranges = fill(&stretches, &symbols, &code, &mut writer)?;
    add_classes(&file, text.start, &mut writer)?;
    let quality = Quality::of(!stretches.is_empty(), has_symbols(&file, &code), !symbols.is_empty());
    // Room for the symcache.
    drop((stretches, symbols));
    let facts = ObjectHeader {
        debug_id,
        cpu: file.cpu,
        text_address: text.start,
        text_size: text.end - text.start,
        extent: u32::try_from(text.end.max(code.end()) - text.start).unwrap_or(u32::MAX),
        quality,
    };
    let symcache = writer.finish(&facts, &ranges)?;
    Ok(BuiltSymCache { debug_id, cpu: file.cpu, kind: file.kind, quality, symcache, warnings })
}

/// Joins what DWARF says with the symbols in between, as ascending starts with a place or none.
fn fill(
    stretches: &[CodeStretch],
    symbols: &[SymbolExtent<'_>],
    code: &CodeMap,
    writer: &mut Writer,
) -> Result<Vec<(u32, Option<CodePlace>)>, ObjectError> {
    let mut ranges = Ranges { starts: Vec::new(), end: 0 };
    let mut next = stretches.iter().peekable();
    for symbol in symbols {
        let Some((start, end)) = code.clip(symbol.start, symbol.end) else { continue };
        while let Some((low, high, place)) = next.next_if(|s| s.0 <= start) {
            ranges.push(*low, *high, *place);
        }
        // What is left of the symbol between the stretches that DWARF explains.
        let mut at = start.max(ranges.end);
        let mut own = None;
        while at < end {
            let until = next.peek().map_or(end, |s| s.0.min(end));
            if at < until {
                let place = match own {
                    Some(place) => place,
                    None => *own.insert(symbol_place(symbol, start, writer)?),
                };
                ranges.push(at, until, place);
            }
            let Some((low, high, place)) = next.next_if(|s| s.0 < end) else { break };
            ranges.push(*low, *high, *place);
            at = *high;
        }
    }
    for (low, high, place) in next {
        ranges.push(*low, *high, *place);
    }
    Ok(ranges.done())
}

fn symbol_place(symbol: &SymbolExtent<'_>, start: u32, writer: &mut Writer) -> Result<CodePlace, NoSymcache> {
    let function = writer.function(&symbol.name, None)?;
    let owner =
        CodeOwner { function, start: Some(start), source: symbol.source, approximate: symbol.approximate };
    let scope = writer.owner(owner, symbol.folded_with(&symbol.name))?;
    Ok(CodePlace { scope, line: 0, column: 0 })
}

/// Ascending stretches on their way to starts; neighbours with one answer are joined.
struct Ranges {
    starts: Vec<(u32, Option<CodePlace>)>,
    end: u32,
}

impl Ranges {
    fn push(&mut self, low: u32, high: u32, place: CodePlace) {
        let low = low.max(self.end);
        if low >= high {
            return;
        }
        if self.end < low && self.starts.last().is_some_and(|last| last.1.is_some()) {
            self.starts.push((self.end, None));
        }
        if self.starts.last().is_none_or(|last| last.1 != Some(place)) {
            self.starts.push((low, Some(place)));
        }
        self.end = high;
    }

    fn done(mut self) -> Vec<(u32, Option<CodePlace>)> {
        if self.starts.last().is_some_and(|last| last.1.is_some()) {
            self.starts.push((self.end, None));
        }
        self.starts
    }
}

//! Builds the symcache of a slice.

use super::classes::add_classes;
use super::code::CodeMap;
use super::compressed::UnpackedSections;
use super::dwarf::{self, CodeStretch, DwarfCode};
use super::error::malformed_error;
use super::macho::MachFile;
use super::steps::Steps;
use super::symbol_table::SymbolTable;
use super::symbols::{SymbolExtent, read_extents};
use super::{BuiltSymCache, MAX_SYMCACHE_BYTES, ObjectError, ObjectKind, has_symtab};
use crate::demangle::Unavailable;
use crate::symcache::{CodeOwner, CodePlace, CodeRanges, NoSymcache, ObjectHeader, Writer};
use unslide_model::Quality;

impl From<NoSymcache> for ObjectError {
    fn from(error: NoSymcache) -> ObjectError {
        match error {
            NoSymcache::TooLarge => ObjectError::TooLarge("the symcache would be larger than allowed".into()),
            NoSymcache::NoNames => ObjectError::Unavailable(Unavailable),
        }
    }
}

/// Builds the symcache of a Mach-O slice. Its unpacked sections take at most `memory_bytes`.
pub(super) fn build_symcache(
    slice: &[u8],
    memory_bytes: u64,
    mut steps: Steps,
) -> Result<BuiltSymCache, ObjectError> {
    let file = MachFile::parse(slice)?;
    if file.kind == ObjectKind::Relocatable {
        return Err(ObjectError::Unsupported("not linked: its addresses are not final".into()));
    }
    let debug_id = file.debug_id.ok_or_else(|| ObjectError::Unsupported("no UUID".into()))?;
    let text = file.text.clone().ok_or_else(|| malformed_error("no __TEXT segment"))?;
    let unpacked = UnpackedSections::from_file(&file, memory_bytes)?;
    steps.add_bytes(unpacked.unpacked_bytes());
    let file = file.with_unpacked(&unpacked.sections);
    let code = CodeMap::new(&file);
    let symbols = read_extents(&file, &code, &steps)?;
    let mut writer = Writer::new(MAX_SYMCACHE_BYTES);
    writer.limit_swift(slice.len() as u64 + unpacked.unpacked_bytes());
    let mut warnings: Vec<String> = unpacked.list_warnings().collect();
    let DwarfCode { stretches, names_functions } =
        dwarf::read_code(&file, &code, &symbols, &mut writer, &steps, &mut warnings)?;
    let table = SymbolTable::from_file(&file, &code, &steps)?;
    let quality =
        Quality::from_parts(names_functions, has_symtab(table, names_functions), !symbols.is_empty());
    if quality < Quality::Symtab && file.kind != ObjectKind::Dsym {
        warnings.push("it is stripped: it names at most what other images may call".to_owned());
    }
    let ranges = fill_ranges(stretches, &symbols, &code, &mut writer)?;
    drop(symbols);
    add_classes(&file, text.start, &mut writer, &steps)?;
    let facts = ObjectHeader {
        debug_id,
        cpu: file.cpu,
        text_address: text.start,
        text_size: text.end - text.start,
        extent: u32::try_from(text.end.max(code.end_address()) - text.start).unwrap_or(u32::MAX),
        quality,
    };
    let symcache = writer.into_bytes(&facts, ranges)?;
    Ok(BuiltSymCache {
        debug_id,
        cpu: file.cpu,
        kind: file.kind,
        quality,
        symcache,
        warnings,
        steps: steps.taken_steps(),
    })
}

/// Joins the stretches from DWARF, in descending order, with the symbols between them.
fn fill_ranges(
    mut stretches: Vec<CodeStretch>,
    symbols: &[SymbolExtent<'_>],
    code: &CodeMap,
    writer: &mut Writer,
) -> Result<CodeRanges, ObjectError> {
    let mut ranges = Ranges::default();
    for symbol in symbols {
        let Some((start, end)) = code.clip_range(symbol.start, symbol.end) else { continue };
        while let Some((low, high, place)) = next(&mut stretches, |low| low <= start) {
            ranges.push(low, high, place);
        }
        // The parts of the symbol between the stretches from DWARF.
        let mut at = start.max(ranges.end);
        let mut own = None;
        while at < end {
            let until = stretches.last().map_or(end, |s| s.0.min(end));
            if at < until {
                let place = match own {
                    Some(place) => place,
                    None => *own.insert(symbol_place(symbol, start, writer)?),
                };
                ranges.push(at, until, place);
            }
            let Some((low, high, place)) = next(&mut stretches, |low| low < end) else { break };
            ranges.push(low, high, place);
            at = high;
        }
    }
    while let Some((low, high, place)) = next(&mut stretches, |_| true) {
        ranges.push(low, high, place);
    }
    Ok(ranges.into_ranges())
}

/// Takes the next stretch if its start is `wanted`. Frees memory on the way, which the ranges need.
fn next(stretches: &mut Vec<CodeStretch>, wanted: impl Fn(u32) -> bool) -> Option<CodeStretch> {
    let found = stretches.pop_if(|stretch| wanted(stretch.0));
    if stretches.len() < stretches.capacity() / 4 * 3 {
        stretches.shrink_to_fit();
    }
    found
}

fn symbol_place(symbol: &SymbolExtent<'_>, start: u32, writer: &mut Writer) -> Result<CodePlace, NoSymcache> {
    let function = writer.add_function(&symbol.name, None)?;
    let owner =
        CodeOwner { function, start: Some(start), source: symbol.source, approximate: symbol.approximate };
    let scope = writer.add_owner(owner, symbol.folded_with(&symbol.name))?;
    Ok(CodePlace { scope, line: 0, column: 0 })
}

/// Ascending stretches, to be written as starts. Neighbours with the same answer are joined.
#[derive(Default)]
struct Ranges {
    list: CodeRanges,
    /// The place of the last start.
    last: Option<CodePlace>,
    end: u32,
}

impl Ranges {
    fn push(&mut self, low: u32, high: u32, place: CodePlace) {
        let low = low.max(self.end);
        if low >= high {
            return;
        }
        if self.end < low {
            self.begin_range(self.end, None);
        }
        self.begin_range(low, Some(place));
        self.end = high;
    }

    fn begin_range(&mut self, start: u32, place: Option<CodePlace>) {
        if self.last != place {
            self.list.push(start, place);
            self.last = place;
        }
    }

    fn into_ranges(mut self) -> CodeRanges {
        self.begin_range(self.end, None);
        self.list
    }
}

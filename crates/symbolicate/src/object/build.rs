//! From a slice to its symcache.

use super::macho::{MachO, malformed};
use super::symbols::{Extent, extents};
use super::{Built, Limits, ObjectError, ObjectKind};
use crate::symcache::{Facts, Owner, Scope, TooLarge, Writer};
use unslide_model::Quality;

impl From<TooLarge> for ObjectError {
    fn from(_: TooLarge) -> ObjectError {
        ObjectError::TooLarge("the symcache would be larger than allowed".into())
    }
}

/// A stretch of code that has one answer: start and end as offsets from `__TEXT`, and the location.
pub(super) type Painted = (u32, u32, u32);

pub(super) fn build(slice: &[u8], limits: &Limits) -> Result<Built, ObjectError> {
    let file = MachO::parse(slice, limits)?;
    if file.kind == ObjectKind::Relocatable {
        return Err(ObjectError::Unsupported("not linked: its addresses are not final".into()));
    }
    let debug_id = file.debug_id.ok_or_else(|| ObjectError::Unsupported("no UUID".into()))?;
    let text = file.text.clone().ok_or_else(|| malformed("no __TEXT segment"))?;
    let symbols = extents(&file, limits)?;
    let mut writer = Writer::new(limits.max_output_bytes);
    let painted = Vec::new();
    let ranges = fill(&painted, &symbols, text.start, &mut writer)?;
    let has_symtab = file.has_symbols();
    let quality = Quality::of(false, has_symtab, !symbols.is_empty());
    let last_code = file.sections.iter().filter(|s| s.is_code).map(|s| s.addresses.end).max().unwrap_or(0);
    let extent = u32::try_from(text.end.max(last_code) - text.start).unwrap_or(u32::MAX);
    let facts = Facts {
        debug_id,
        cpu: file.cpu,
        text_address: text.start,
        text_size: text.end - text.start,
        extent,
        quality,
    };
    let symcache = writer.finish(&facts, &ranges)?;
    Ok(Built { debug_id, cpu: file.cpu, kind: file.kind, quality, symcache, warnings: Vec::new() })
}

/// Joins what DWARF says with the symbols in between, as ascending starts with a location or none.
fn fill(
    painted: &[Painted],
    symbols: &[Extent<'_>],
    base: u64,
    writer: &mut Writer,
) -> Result<Vec<(u32, Option<u32>)>, ObjectError> {
    let mut ranges = Ranges::default();
    let mut next = painted.iter().peekable();
    for symbol in symbols {
        let (Some(start), Some(end)) = (offset(symbol.start, base), offset(symbol.end, base)) else {
            continue;
        };
        while let Some((low, high, location)) = next.next_if(|p| p.0 <= start) {
            ranges.push(*low, *high, *location);
        }
        // What is left of the symbol between the stretches that DWARF explains.
        let mut at = start.max(ranges.end);
        let mut location = None;
        while at < end {
            let until = next.peek().map_or(end, |p| p.0.min(end));
            if at < until {
                let place = match location {
                    Some(place) => place,
                    None => *location.insert(symbol_location(symbol, start, writer)?),
                };
                ranges.push(at, until, place);
            }
            let Some((low, high, place)) = next.next_if(|p| p.0 < end) else { break };
            ranges.push(*low, *high, *place);
            at = *high;
        }
    }
    for (low, high, location) in next {
        ranges.push(*low, *high, *location);
    }
    Ok(ranges.done())
}

fn symbol_location(symbol: &Extent<'_>, start: u32, writer: &mut Writer) -> Result<u32, TooLarge> {
    let function = writer.function(&symbol.name)?;
    let owner =
        Owner { function, start: Some(start), source: symbol.source, approximate: symbol.approximate };
    let scope = writer.scope(Scope::Owner(owner))?;
    writer.location(scope, None, 0, 0)
}

/// An address as an offset from `__TEXT`; `None` below it or 4 GiB above.
pub(super) fn offset(address: u64, base: u64) -> Option<u32> {
    address.checked_sub(base).and_then(|n| u32::try_from(n).ok()).filter(|n| *n < u32::MAX)
}

/// Ascending stretches on their way to starts; neighbours with one answer are joined.
#[derive(Default)]
struct Ranges {
    starts: Vec<(u32, Option<u32>)>,
    end: u32,
}

impl Ranges {
    fn push(&mut self, low: u32, high: u32, location: u32) {
        if low >= high {
            return;
        }
        if self.end < low && self.starts.last().is_some_and(|last| last.1.is_some()) {
            self.starts.push((self.end, None));
        }
        if self.starts.last().is_none_or(|last| last.1 != Some(location)) {
            self.starts.push((low, Some(location)));
        }
        self.end = high;
    }

    fn done(mut self) -> Vec<(u32, Option<u32>)> {
        if self.starts.last().is_some_and(|last| last.1.is_some()) {
            self.starts.push((self.end, None));
        }
        self.starts
    }
}

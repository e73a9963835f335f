//! DWARF: which function, inlined where, and which line answer for each address.

mod aranges;
mod functions;
mod lines;
mod paint;
mod units;

use super::code::CodeMap;
use super::macho::MachFile;
use super::symbols::SymbolExtent;
use super::{MAX_NAME_BYTES, ObjectError};
use crate::symcache::{CodeOwner, CodePlace, CodeScope, NameSource, Writer};
use functions::{Functions, NO_NODE, Node};
use lines::Lines;
use paint::Canvas;
use std::collections::HashMap;
use units::{Dwarf, UnitFailure, Units, owners, unreadable, warn};

/// A stretch of code that has one answer: start and end as offsets from `__TEXT`, and the place.
pub(super) type CodeStretch = (u32, u32, CodePlace);

/// The stretches that the debug information explains, descending and without overlap.
pub(super) fn stretches(
    file: &MachFile<'_>,
    code: &CodeMap,
    symbols: &[SymbolExtent<'_>],
    writer: &mut Writer,
    warnings: &mut Vec<String>,
) -> Result<Vec<CodeStretch>, ObjectError> {
    let mut units = Units::read(file, warnings)?;
    let mut claims = Vec::new();
    for index in 0..units.len() {
        match units.claims(index, code) {
            Ok(ranges) => claims.extend(ranges.into_iter().map(|(low, high)| (low, high, index))),
            Err(error) => warn(warnings, units.start_of(index), &error),
        }
    }
    let owners = owners(&claims);
    drop(claims);
    let mut pass = Pass { code, symbols, owners: &owners, covered: Canvas::default(), found: Vec::new() };
    for index in 0..units.len() {
        pass.unit(&mut units, index, writer, warnings)?;
    }
    if pass.found.is_empty() && !warnings.is_empty() {
        return Err(unreadable(warnings));
    }
    pass.found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(pass.found)
}

struct Pass<'p> {
    code: &'p CodeMap,
    symbols: &'p [SymbolExtent<'p>],
    owners: &'p [(u32, u32, usize)],
    /// What the units before have answered without a claim.
    covered: Canvas,
    found: Vec<CodeStretch>,
}

impl Pass<'_> {
    fn unit(
        &mut self,
        units: &mut Units<'_>,
        index: usize,
        writer: &mut Writer,
        warnings: &mut Vec<String>,
    ) -> Result<(), ObjectError> {
        let Some(mut unit) = units.whole(index) else { return Ok(()) };
        let start = units.start_of(index);
        let mut check = |result: Result<(), UnitFailure>| match result {
            Err(UnitFailure::Unit(error)) => {
                warn(warnings, start, &error);
                Ok(())
            }
            Err(UnitFailure::Object(error)) => Err(error),
            Ok(()) => Ok(()),
        };
        let (mut lines, result) = lines::read(&mut unit, self.code);
        check(result.map_err(UnitFailure::Unit))?;
        let mut functions = Functions::new(self.code);
        check(functions.read(units, &unit, start))?;
        let mut mine: Vec<(u32, u32, u32)> = Vec::new();
        let mut unclaimed: Vec<(u32, u32)> = Vec::new();
        for (low, high, node) in functions.canvas.iter() {
            self.answerable(index, low, high, |low, high, is_claimed| {
                mine.push((low, high, node));
                if !is_claimed {
                    unclaimed.push((low, high));
                }
            });
        }
        self.lines_without_functions(index, &functions, &lines, &mut mine);
        mine.sort_unstable();
        let mut chains = Chains {
            functions: &functions,
            dwarf: &units.dwarf,
            scopes: HashMap::new(),
            symbols: self.symbols,
            code: self.code,
        };
        for (low, high, node) in mine {
            chains
                .stretch(low, high, node, &mut lines, writer, &mut self.found)
                .or_else(|failure| check(Err(failure)))?;
        }
        for (low, high) in unclaimed {
            self.covered.spread(low, high, 0);
        }
        units.forget_names();
        Ok(())
    }

    fn first_owner(&self, low: u32) -> usize {
        self.owners.partition_point(|owner| owner.1 <= low)
    }

    /// The parts of a range that a unit may answer for, and whether it claims them: those that it owns,
    /// and those that no unit claims and none before it has answered.
    fn answerable(&self, unit: usize, low: u32, high: u32, mut part: impl FnMut(u32, u32, bool)) {
        let mut at = low;
        let mut next = self.first_owner(low);
        while at < high {
            let (owned_from, owned_to, owner) = self.owners.get(next).copied().unwrap_or((high, high, unit));
            if at < owned_from {
                for (low, high) in self.covered.blank(at, owned_from.min(high)) {
                    part(low, high, false);
                }
                at = owned_from;
            }
            if at < high {
                let end = owned_to.min(high);
                if owner == unit && at < end {
                    part(at, end, true);
                }
                at = owned_to;
                next += 1;
            }
        }
    }

    /// Code that the unit claims and has lines for, but no function: hand-written assembly.
    fn lines_without_functions(
        &self,
        unit: usize,
        functions: &Functions<'_, '_>,
        lines: &Lines<'_>,
        out: &mut Vec<(u32, u32, u32)>,
    ) {
        for pair in lines.rows.windows(2) {
            if !pair[0].known {
                continue;
            }
            for (low, high) in functions.canvas.blank(pair[0].start, pair[1].start) {
                let mut next = self.first_owner(low);
                while let Some((from, to, owner)) = self.owners.get(next).filter(|owner| owner.0 < high) {
                    if *owner == unit {
                        out.push((low.max(*from), high.min(*to), NO_NODE));
                    }
                    next += 1;
                }
            }
        }
    }
}

/// What makes a scope: the function, the path that its code comes from, and where the function or,
/// if true, the symbol that owns the code begins.
type ScopeKey = (u32, Option<u32>, (bool, u32));

/// Turns functions of one unit into scopes and places.
struct Chains<'c, 'a> {
    functions: &'c Functions<'c, 'a>,
    dwarf: &'c Dwarf<'a>,
    scopes: HashMap<ScopeKey, u32>,
    symbols: &'c [SymbolExtent<'c>],
    code: &'c CodeMap,
}

impl Chains<'_, '_> {
    /// Splits `low..high`, where `node` is the innermost function, at symbols and at lines.
    fn stretch(
        &mut self,
        low: u32,
        high: u32,
        node: u32,
        lines: &mut Lines<'_>,
        writer: &mut Writer,
        found: &mut Vec<CodeStretch>,
    ) -> Result<(), UnitFailure> {
        let start_of = |symbol: &SymbolExtent<'_>| self.code.offset(symbol.start).unwrap_or(u32::MAX);
        let mut symbol = self.symbols.partition_point(|symbol| start_of(symbol) <= low);
        let mut at = low;
        while at < high {
            let end = self.symbols.get(symbol).map_or(high, |next| start_of(next).min(high));
            let named = symbol.checked_sub(1).and_then(|i| self.symbols.get(i));
            let mut next = lines.rows.partition_point(|row| row.start <= at);
            let mut from = at;
            while from < end {
                let row =
                    next.checked_sub(1).and_then(|i| lines.rows.get(i)).filter(|row| row.known).copied();
                let to = lines.rows.get(next).map_or(end, |row| row.start.min(end));
                let (path, line, column) = match row {
                    Some(row) => (lines.path(u64::from(row.file), self.dwarf, writer)?, row.line, row.column),
                    None => (None, 0, 0),
                };
                let scope = self.scope(node, path, (at, named), lines, writer)?;
                let place = CodePlace { scope, line, column };
                match found.last_mut() {
                    Some(last) if last.1 == from && last.2 == place => last.1 = to,
                    _ => found.push((from, to, place)),
                }
                from = to;
                next += 1;
            }
            at = end;
            symbol += 1;
        }
        Ok(())
    }

    /// The scope of a function at an address, where its code comes from `path` and a symbol covers it.
    fn scope(
        &mut self,
        node: u32,
        path: Option<u32>,
        (at, symbol): (u32, Option<&SymbolExtent<'_>>),
        lines: &mut Lines<'_>,
        writer: &mut Writer,
    ) -> Result<u32, UnitFailure> {
        let nodes = &self.functions.nodes;
        let root = nodes.get(node as usize).and_then(|node| nodes.get(node.root as usize));
        let begin = root.map_or(0, |root| self.functions.begin(root, at));
        // The symbol table's name wins where the symbol lies in this function.
        let symbol = symbol.filter(|s| s.source == NameSource::Symtab).and_then(|symbol| {
            let start = self.code.offset(symbol.start)?;
            let covers =
                start >= begin && (root.is_some() || self.code.clip(symbol.start, symbol.end)?.1 > at);
            covers.then_some((symbol, start))
        });
        let owner = (symbol.is_some(), symbol.map_or(begin, |(_, start)| start));
        // Outwards to a scope that there is already, or to the function that owns the code.
        let mut inner: Vec<(u32, Option<u32>)> = Vec::new();
        let (mut next, mut path) = (node, path);
        let mut scope = loop {
            if let Some(known) = self.scopes.get(&(next, path, owner)) {
                break *known;
            }
            match nodes.get(next as usize) {
                Some(inlined) if inlined.parent != NO_NODE => {
                    inner.push((next, path));
                    // The function around it lies, here, in the file of the call.
                    path = match inlined.call_file {
                        Some(file) => lines.path(file, self.dwarf, writer)?,
                        None => None,
                    };
                    next = inlined.parent;
                }
                _ => {
                    let name = symbol.map_or("", |(s, _)| s.name_beside(root.and_then(|root| root.name)));
                    let (function, start) = match (symbol, root) {
                        (Some((_, start)), _) => (writer.function(name, path)?, Some(start)),
                        (None, Some(root)) => {
                            (node_function(root, path, writer)?, Some(root.entry.unwrap_or(begin)))
                        }
                        (None, None) => (writer.function("", path)?, None),
                    };
                    let owned = CodeOwner { function, start, source: NameSource::Dwarf, approximate: false };
                    let folded = symbol.into_iter().flat_map(|(symbol, _)| symbol.folded_with(name));
                    let scope = writer.owner(owned, folded)?;
                    self.scopes.insert((next, path, owner), scope);
                    break scope;
                }
            }
        };
        while let Some((node, path)) = inner.pop() {
            let Some(inlined) = nodes.get(node as usize) else { break };
            let place = CodePlace { scope, line: inlined.call_line, column: inlined.call_column };
            let caller = writer.call(place)?;
            let function = node_function(inlined, path, writer)?;
            scope = writer.scope(CodeScope::Inlined { function, caller })?;
            self.scopes.insert((node, path, owner), scope);
        }
        Ok(scope)
    }
}

fn node_function(node: &Node<'_>, path: Option<u32>, writer: &mut Writer) -> Result<u32, UnitFailure> {
    let name = node.name.unwrap_or_default();
    let name = name.get(..MAX_NAME_BYTES).unwrap_or(name);
    Ok(writer.function(&String::from_utf8_lossy(name), path)?)
}

//! DWARF: the function, its inlined calls and the line for each address.

mod abbreviations;
mod aranges;
mod functions;
mod lines;
mod owners;
mod paint;
mod ranges;
mod sections;
mod units;

use super::code::CodeMap;
use super::compressed::Compression;
use super::macho::MachFile;
use super::steps::{ObjectPart, Steps};
use super::symbols::SymbolExtent;
use super::{MAX_NAME_BYTES, ObjectError, ObjectKind};
use crate::symcache::{CodeOwner, CodePlace, CodeScope, NameSource, NoReturn, Writer};
use functions::{Functions, NO_NODE, Node};
use lines::{LineTables, Lines};
use owners::Owners;
use paint::Canvas;
use sections::{Dwarf, UnitFailure};
use std::collections::{BTreeSet, HashMap, HashSet};
use units::{Units, add_warning, unreadable_error};

/// A stretch of code with one answer: start and end as offsets from `__TEXT`, and the place.
pub(super) type CodeStretch = (u32, u32, CodePlace);

/// The code that debug information describes.
#[derive(Default)]
pub(super) struct DwarfCode {
    /// Descending, without overlap.
    pub(super) stretches: Vec<CodeStretch>,
    /// False if it has only lines, or nothing.
    pub(super) names_functions: bool,
}

/// Reads the code that a file's debug information describes. Adds parts that are present but not read to
/// `warnings`.
///
/// # Errors
/// Returns an error if the debug information is damaged, or if nothing can be read and the file names nothing
/// either.
pub(super) fn read_code(
    file: &MachFile<'_>,
    code: &CodeMap,
    symbols: &[SymbolExtent<'_>],
    writer: &mut Writer,
    steps: &Steps,
    warnings: &mut Vec<String>,
) -> Result<DwarfCode, ObjectError> {
    if Compression::from_file(file)? == Compression::Unknown {
        return skip_unsupported(
            "its debug information is compressed in a way that is not read",
            symbols,
            warnings,
        );
    }
    if file.debug_section("__debug_info")?.is_empty() {
        warnings.extend(explain_absence(file).map(str::to_owned));
        return Ok(DwarfCode::default());
    }
    let mut units = Units::from_file(file, steps, warnings)?;
    let (mut claims, mut known) = (Vec::new(), HashSet::new());
    for index in 0..units.len() {
        match units.list_claims(index, code, &mut known) {
            Ok(ranges) => claims.extend(ranges.into_iter().map(|(low, high)| (low, high, index))),
            Err(UnitFailure::Unit(error)) => add_warning(warnings, units.start_of(index), &error),
            Err(UnitFailure::Object(error)) => return Err(error),
        }
    }
    drop(known);
    let owners = Owners::from_claims(&claims, units.len());
    drop(claims);
    let shared = units.shared_programs();
    let mut pass = Pass {
        code,
        symbols,
        steps,
        line_tables: LineTables::new(code, &shared, steps),
        owners: &owners,
        covered: Canvas::default(),
        found: Vec::new(),
        producers: HashMap::new(),
        no_return: Vec::new(),
        marking_producers: HashSet::new(),
    };
    for index in 0..units.len() {
        pass.read_unit(&mut units, index, writer, warnings)?;
    }
    for (producer, function) in pass.no_return {
        if pass.marking_producers.contains(&producer) {
            writer.never_returns(function, NoReturn::Inferred);
        }
    }
    let mut stretches = pass.found;
    if let Some(reason) = units.explain_unsupported() {
        if stretches.is_empty() {
            return skip_unsupported(&reason, symbols, warnings);
        }
        warnings.insert(0, reason);
    } else if stretches.is_empty() && !warnings.is_empty() {
        return Err(unreadable_error(warnings));
    } else if stretches.is_empty() {
        warnings.push("its debug information describes no code of the file".to_owned());
    }
    stretches.sort_unstable_by(|a, b| b.cmp(a));
    let names_functions = !stretches.is_empty() && !units.are_split();
    Ok(DwarfCode { stretches, names_functions })
}

/// Returns the paths of the source files that a file's line tables name.
///
/// # Errors
/// Returns an error if the debug information takes too many steps.
pub(super) fn list_source_paths(file: &MachFile<'_>, steps: &Steps) -> Result<BTreeSet<String>, ObjectError> {
    // Parts that cannot be read name no files, and the upload of the symbols says so.
    let units = Units::from_file(file, steps, &mut Vec::new())?;
    lines::list_paths(&units, steps)
}

/// Skips debug information that cannot be read, with a warning.
///
/// # Errors
/// Returns an error if the file names nothing without it.
fn skip_unsupported(
    reason: &str,
    symbols: &[SymbolExtent<'_>],
    warnings: &mut Vec<String>,
) -> Result<DwarfCode, ObjectError> {
    if symbols.is_empty() {
        return Err(ObjectError::Unsupported(reason.to_owned().into()));
    }
    warnings.insert(0, reason.to_owned());
    Ok(DwarfCode::default())
}

/// Says why a file gives no debug information; `None` if none is expected.
fn explain_absence(file: &MachFile<'_>) -> Option<&'static str> {
    // A section that ends outside the file costs no names: nothing refers to it.
    if file.debug_section("__debug_line").is_ok_and(|lines| !lines.is_empty()) {
        Some("its line tables are not read: they have no __debug_info")
    } else if file.kind == ObjectKind::Dsym {
        Some("it is a dSYM without debug information")
    } else if file.has_debug_map {
        Some("its debug information lies in object files; dsymutil makes a dSYM of them")
    } else {
        None
    }
}

struct Pass<'p, 'a> {
    code: &'p CodeMap,
    symbols: &'p [SymbolExtent<'p>],
    steps: &'p Steps,
    line_tables: LineTables<'p>,
    owners: &'p Owners,
    /// Addresses that earlier units have answered without a claim.
    covered: Canvas,
    found: Vec<CodeStretch>,
    /// The producers of units, numbered.
    producers: HashMap<&'a [u8], usize>,
    /// Functions that seem to never return, with the producers of their units.
    no_return: Vec<(usize, u32)>,
    /// Producers that mark epilogues.
    marking_producers: HashSet<usize>,
}

impl<'a> Pass<'_, 'a> {
    fn read_unit(
        &mut self,
        units: &mut Units<'a>,
        index: usize,
        writer: &mut Writer,
        warnings: &mut Vec<String>,
    ) -> Result<(), ObjectError> {
        let Some(mut unit) = units.unit_with_lines(index) else { return Ok(()) };
        let start = units.start_of(index);
        let mut check = |result: Result<(), UnitFailure>| match result {
            Err(UnitFailure::Unit(error)) => {
                add_warning(warnings, start, &error);
                Ok(())
            }
            Err(UnitFailure::Object(error)) => Err(error),
            Ok(()) => Ok(()),
        };
        let (mut lines, failure) = self.line_tables.read_table(&mut unit)?;
        check(failure.map_or(Ok(()), |error| Err(UnitFailure::Unit(error))))?;
        let mut functions = Functions::new(self.code);
        check(functions.read_unit(units, &unit, start))?;
        let numbers = self.producers.len();
        let producer = *self.producers.entry(units.find_producer(index)?).or_insert(numbers);
        if functions.infer_no_return(&lines.table, self.steps)? {
            self.marking_producers.insert(producer);
        }
        let mut mine: Vec<(u32, u32, u32)> = Vec::new();
        let mut unclaimed: Vec<(u32, u32)> = Vec::new();
        for (low, high, node) in functions.canvas.iter() {
            self.each_answerable(index, low, high, |low, high, is_claimed| {
                mine.push((low, high, node));
                if !is_claimed {
                    unclaimed.push((low, high));
                }
            })?;
        }
        self.lines_without_functions(index, &functions, &lines, &mut mine);
        mine.sort_unstable();
        let mut chains = Chains {
            functions: &functions,
            dwarf: &units.dwarf,
            steps: self.steps,
            scopes: HashMap::new(),
            symbols: self.symbols,
            code: self.code,
            no_return: Vec::new(),
        };
        for (low, high, node) in mine {
            chains
                .split_stretch(low, high, node, &mut lines, writer, &mut self.found)
                .or_else(|failure| check(Err(failure)))?;
        }
        self.no_return.extend(chains.no_return.into_iter().map(|function| (producer, function)));
        for (low, high) in unclaimed {
            self.covered.paint_joined(low, high, 0);
        }
        units.forget_names();
        Ok(())
    }

    /// Returns the parts of a range that a unit may answer for, and whether it claims them: the parts that it
    /// owns, and those that no unit claims and no earlier one has answered.
    fn each_answerable(
        &self,
        unit: usize,
        low: u32,
        high: u32,
        mut part: impl FnMut(u32, u32, bool),
    ) -> Result<(), ObjectError> {
        let mut at = low;
        let mut next = self.owners.first_after(low);
        while at < high {
            // A function may lie over the code of many units.
            self.steps.take_steps(ObjectPart::Functions, 1)?;
            let (owned_from, owned_to, owner) = self.owners.get(next).unwrap_or((high, high, unit));
            if at < owned_from {
                for (low, high) in self.covered.blank_parts(at, owned_from.min(high)) {
                    self.steps.take_steps(ObjectPart::Functions, 1)?;
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
        Ok(())
    }

    /// Adds code that the unit claims and has lines for, but no function: hand-written assembly.
    fn lines_without_functions(
        &self,
        unit: usize,
        functions: &Functions<'_, '_>,
        lines: &Lines<'_>,
        out: &mut Vec<(u32, u32, u32)>,
    ) {
        let rows = &lines.table.rows;
        // Of a line table that units share, each unit reads its own part.
        for (from, to) in self.owners.unit_ranges(unit) {
            let first = rows.partition_point(|row| row.start <= from).saturating_sub(1);
            for pair in rows.get(first..).unwrap_or_default().windows(2) {
                if pair[0].start >= to {
                    break;
                }
                let (low, high) = (pair[0].start.max(from), pair[1].start.min(to));
                if pair[0].known && low < high {
                    let blank = functions.canvas.blank_parts(low, high);
                    out.extend(blank.into_iter().map(|(low, high)| (low, high, NO_NODE)));
                }
            }
        }
    }
}

/// Key of a scope: the function, the path of its code, and the start of the owning function or, if true, of the
/// owning symbol.
type ScopeKey = (u32, Option<u32>, (bool, u32));

/// Converts the functions of one unit to scopes and places.
struct Chains<'c, 'a> {
    functions: &'c Functions<'c, 'a>,
    dwarf: &'c Dwarf<'a>,
    steps: &'c Steps,
    scopes: HashMap<ScopeKey, u32>,
    symbols: &'c [SymbolExtent<'c>],
    code: &'c CodeMap,
    /// Functions that never return by their code.
    no_return: Vec<u32>,
}

impl Chains<'_, '_> {
    /// Splits `low..high`, where `node` is the innermost function, at symbols and at lines.
    fn split_stretch(
        &mut self,
        low: u32,
        high: u32,
        node: u32,
        lines: &mut Lines<'_>,
        writer: &mut Writer,
        found: &mut Vec<CodeStretch>,
    ) -> Result<(), UnitFailure> {
        let start_of = |symbol: &SymbolExtent<'_>| self.code.offset_at(symbol.start).unwrap_or(u32::MAX);
        let mut symbol = self.symbols.partition_point(|symbol| start_of(symbol) <= low);
        let mut at = low;
        while at < high {
            let end = self.symbols.get(symbol).map_or(high, |next| start_of(next).min(high));
            let named = symbol.checked_sub(1).and_then(|i| self.symbols.get(i));
            let mut next = lines.table.rows.partition_point(|row| row.start <= at);
            let mut from = at;
            while from < end {
                let rows = &lines.table.rows;
                let row = next.checked_sub(1).and_then(|i| rows.get(i)).filter(|row| row.known).copied();
                let to = rows.get(next).map_or(end, |row| row.start.min(end));
                let (path, line, column) = match row {
                    Some(row) => (self.find_path(u64::from(row.file), lines, writer)?, row.line, row.column),
                    None => (None, 0, 0),
                };
                let scope = self.find_scope(node, path, at, named, lines, writer)?;
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

    /// Returns the scope of a function at an address. `path` is its code's source file; `symbol` covers the
    /// address, if given.
    fn find_scope(
        &mut self,
        node: u32,
        path: Option<u32>,
        at: u32,
        symbol: Option<&SymbolExtent<'_>>,
        lines: &mut Lines<'_>,
        writer: &mut Writer,
    ) -> Result<u32, UnitFailure> {
        let nodes = &self.functions.nodes;
        let root = nodes.get(node as usize).and_then(|node| nodes.get(node.root as usize));
        let begin = root.map_or(0, |root| self.functions.find_range_start(root, at));
        // The symbol table's name has precedence if the symbol lies in this function.
        let symbol = symbol.filter(|s| s.source == NameSource::Symtab).and_then(|symbol| {
            let start = self.code.offset_at(symbol.start)?;
            let covers =
                start >= begin && (root.is_some() || self.code.clip_range(symbol.start, symbol.end)?.1 > at);
            covers.then_some((symbol, start))
        });
        let owner = (symbol.is_some(), symbol.map_or(begin, |(_, start)| start));
        // Walks outwards to a scope that exists already, or to the function that owns the code.
        let mut inner: Vec<(u32, Option<u32>)> = Vec::new();
        let (mut next, mut path) = (node, path);
        let mut scope = loop {
            if let Some(known) = self.scopes.get(&(next, path, owner)) {
                break *known;
            }
            match nodes.get(next as usize) {
                Some(inlined) if inlined.parent != NO_NODE => {
                    inner.push((next, path));
                    // Here, the surrounding function lies in the file of the call.
                    path = match inlined.call_file {
                        Some(file) => self.find_path(file, lines, writer)?,
                        None => None,
                    };
                    next = inlined.parent;
                }
                _ => {
                    let linkage = root.and_then(|root| root.name);
                    // An obfuscated symbol table beside honest debug information.
                    let honest = symbol
                        .filter(|(_, start)| root.is_some_and(|root| root.entry.unwrap_or(begin) == *start));
                    let honest = honest.and_then(|(s, _)| s.name_before_obfuscation(linkage?));
                    let name = symbol.map_or("", |(s, _)| honest.unwrap_or_else(|| s.name_beside(linkage)));
                    self.steps.take_bytes(ObjectPart::Functions, name.len())?;
                    let (function, start) = match (symbol, root) {
                        (Some((_, start)), _) => (writer.add_function(name, path)?, Some(start)),
                        (None, Some(root)) => {
                            (self.function_index(root, path, writer)?, Some(root.entry.unwrap_or(begin)))
                        }
                        (None, None) => (writer.add_function("", path)?, None),
                    };
                    self.note_no_return(function, root, writer);
                    let owned = CodeOwner { function, start, source: NameSource::Dwarf, approximate: false };
                    let folded = symbol
                        .filter(|_| honest.is_none())
                        .into_iter()
                        .flat_map(|(symbol, _)| symbol.folded_with(name));
                    let scope = writer.add_owner(owned, folded)?;
                    self.scopes.insert((next, path, owner), scope);
                    break scope;
                }
            }
        };
        while let Some((node, path)) = inner.pop() {
            let Some(inlined) = nodes.get(node as usize) else { break };
            let place = CodePlace { scope, line: inlined.call_line, column: inlined.call_column };
            let caller = writer.add_call(place)?;
            let function = self.function_index(inlined, path, writer)?;
            self.note_no_return(function, Some(inlined), writer);
            scope = writer.add_scope(CodeScope::Inlined { function, caller })?;
            self.scopes.insert((node, path, owner), scope);
        }
        Ok(scope)
    }
}

impl Chains<'_, '_> {
    fn find_path(
        &self,
        file: u64,
        lines: &mut Lines<'_>,
        writer: &mut Writer,
    ) -> Result<Option<u32>, UnitFailure> {
        lines.find_path(file, self.dwarf, self.steps, writer)
    }

    /// Returns the index of a node's function with its code's path.
    fn function_index(
        &self,
        node: &Node<'_>,
        path: Option<u32>,
        writer: &mut Writer,
    ) -> Result<u32, UnitFailure> {
        let name = node.name.unwrap_or_default();
        let name = name.get(..MAX_NAME_BYTES).unwrap_or(name);
        self.steps.take_bytes(ObjectPart::InlinedCalls, name.len())?;
        Ok(writer.add_function(&String::from_utf8_lossy(name), path)?)
    }

    fn note_no_return(&mut self, function: u32, node: Option<&Node<'_>>, writer: &mut Writer) {
        match node.and_then(|node| node.no_return) {
            Some(NoReturn::Declared) => writer.never_returns(function, NoReturn::Declared),
            Some(NoReturn::Inferred) => self.no_return.push(function),
            None => {}
        }
    }
}

//! The functions of one unit, and the copies of functions inlined into them.

use super::aranges::Set;
use super::lines::LineTable;
use super::paint::Canvas;
use super::ranges::{Addresses, RangeListKey};
use super::sections::{DwarfSlice, UnitFailure};
use super::units::{Named, Units};
use crate::object::ObjectError;
use crate::object::code::CodeMap;
use crate::object::steps::{ObjectPart, Steps};
use crate::symcache::{MAX_CALLS, NoReturn};
use gimli::{Abbreviation, AttributeValue, EntriesRaw, Unit};
use std::collections::{HashMap, HashSet};

/// DWARF expressions of frame bases in a frame pointer: `rbp` of x86-64 and `x29` of arm64.
const FRAME_POINTERS: [u8; 2] = [gimli::DW_OP_reg6.0, gimli::DW_OP_reg29.0];
/// Represents no function.
pub(super) const NO_NODE: u32 = u32::MAX;

/// A function, or one inlined copy of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    pub(super) name: Option<&'a [u8]>,
    /// The function that this one was inlined into; [`NO_NODE`] if it was not inlined.
    pub(super) parent: u32,
    /// The function that was not inlined, at the end of the chain of parents.
    pub(super) root: u32,
    /// Number of parents.
    depth: usize,
    /// File of the call; `None` if the call does not say. 0 is a file of version 5.
    pub(super) call_file: Option<u64>,
    pub(super) call_line: u32,
    pub(super) call_column: u32,
    /// `DW_AT_low_pc` as an offset from `__TEXT`.
    pub(super) entry: Option<u32>,
    /// Evidence that the function never returns.
    pub(super) no_return: Option<NoReturn>,
    /// True if the function returns a value, or jumps to another function that returns for it.
    may_return: bool,
    /// True if the frame pointer locates its stack frame, as in a function that calls others.
    has_frame_pointer: bool,
    ranges: (usize, usize),
    /// True if a later function has the same list of ranges, so that this one is never visible.
    is_covered: bool,
}

impl Node<'_> {
    /// A function without any known facts.
    const NAMELESS: Self = Node {
        name: None,
        parent: NO_NODE,
        root: NO_NODE,
        depth: 0,
        call_file: None,
        call_line: 0,
        call_column: 0,
        entry: None,
        no_return: None,
        may_return: false,
        has_frame_pointer: false,
        ranges: (0, 0),
        is_covered: false,
    };
}

/// The functions of one unit.
pub(super) struct Functions<'c, 'a> {
    code: &'c CodeMap,
    pub(super) nodes: Vec<Node<'a>>,
    ranges: Vec<(u32, u32)>,
    /// The lists of ranges that were read, by offset.
    lists: HashMap<usize, RangeList>,
    /// The innermost function at each address.
    pub(super) canvas: Canvas,
}

/// A list of ranges that was read already.
struct RangeList {
    /// Its position among the ranges of all functions.
    ranges: (usize, usize),
    /// The last function that has it.
    function: u32,
}

impl<'a> Units<'a> {
    /// Returns the address ranges of a unit as a whole. Prefers the table of ranges, because the unit itself
    /// may give no more than its first and last address.
    ///
    /// `known` are the lists of the units before. A unit with the same list as an earlier one claims nothing:
    /// the first of them answers.
    pub(super) fn list_claims(
        &self,
        index: usize,
        code: &CodeMap,
        known: &mut HashSet<RangeListKey>,
    ) -> Result<Vec<(u32, u32)>, UnitFailure> {
        let Some(unit) = self.unit_without_lines(index) else { return Ok(Vec::new()) };
        let mut claims = Vec::new();
        let sets = self.range_sets(index);
        if !sets.is_empty() {
            let ranges = sets.iter().flat_map(Set::address_ranges);
            return Ok(ranges.filter_map(|(low, high)| code.clip_range(low, high)).collect());
        }
        let addresses = Addresses::read_unit(&self.dwarf, unit)?;
        let list = addresses.list_offset(&self.dwarf, unit)?;
        let key = list.map(|offset| (offset, unit.addr_base.0, unit.low_pc, unit.encoding()));
        if key.is_some_and(|key| known.contains(&key)) {
            return Ok(claims);
        }
        addresses.each_range(list, &self.dwarf, unit, self.steps, |low, high| {
            claims.extend(code.clip_range(low, high));
            true
        })?;
        known.extend(key);
        Ok(claims)
    }
}

fn too_many_functions() -> ObjectError {
    ObjectError::TooLarge("more functions in a unit than 32 bits count".into())
}

impl<'c, 'a> Functions<'c, 'a> {
    pub(super) fn new(code: &'c CodeMap) -> Functions<'c, 'a> {
        let (nodes, ranges, lists) = (Vec::new(), Vec::new(), HashMap::new());
        Functions { code, nodes, ranges, lists, canvas: Canvas::default() }
    }

    /// Returns the start of the function's range that holds `at`; `at` itself if none does.
    pub(super) fn find_range_start(&self, node: &Node<'_>, at: u32) -> u32 {
        let ranges = self.ranges.get(node.ranges.0..node.ranges.1).unwrap_or_default();
        let last = ranges.partition_point(|(low, _)| *low <= at).checked_sub(1).and_then(|i| ranges.get(i));
        last.filter(|(_, high)| at < *high).map_or(at, |(low, _)| *low)
    }

    /// Records the functions that never return by their code: they set up a stack frame at their entry and
    /// never tear it down. Returns true if the compiler marks epilogues; without the marks nothing can be
    /// inferred.
    pub(super) fn infer_no_return(&mut self, lines: &LineTable, steps: &Steps) -> Result<bool, ObjectError> {
        for at in 0..self.nodes.len() {
            if self.keeps_frame(&self.nodes[at], lines, steps)? {
                self.nodes[at].no_return.get_or_insert(NoReturn::Inferred);
            }
        }
        Ok(!lines.epilogues.is_empty())
    }

    /// True if a function that was not inlined has a frame from its entry on and never tears it down.
    fn keeps_frame(&self, node: &Node<'_>, lines: &LineTable, steps: &Steps) -> Result<bool, ObjectError> {
        let Some(entry) =
            node.entry.filter(|_| node.parent == NO_NODE && node.has_frame_pointer && !node.may_return)
        else {
            return Ok(false);
        };
        let any_between = |rows: &[u32], low: u32, high: u32| {
            let at = |address| rows.partition_point(|row| *row < address);
            at(low) < at(high)
        };
        let ranges = self.ranges.get(node.ranges.0..node.ranges.1).unwrap_or_default();
        let is_set_up = |(low, high): &(u32, u32)| {
            (*low..*high).contains(&entry) && any_between(&lines.prologues, entry.saturating_add(1), *high)
        };
        // In a function without a frame, the prologue ends at its entry.
        let first = lines.rows.binary_search_by_key(&entry, |row| row.start).ok();
        let begins_with_frame = first.and_then(|at| lines.rows.get(at)).is_some_and(|row| !row.prologue_end);
        // A part that the compiler moved elsewhere says nothing about the whole function.
        let is_part = || node.name.is_some_and(|name| memchr::memmem::find(name, b".cold.").is_some());
        if !begins_with_frame {
            return Ok(false);
        }
        steps.take_steps(ObjectPart::Functions, ranges.len())?;
        Ok(ranges.iter().any(is_set_up)
            && !ranges.iter().any(|(low, high)| any_between(&lines.epilogues, *low, *high))
            && !is_part())
    }

    /// Puts a node under its parent. In a chain longer than the limit, the middle functions are left out, and
    /// with them the line of the call to the next one.
    fn nest_node(&self, node: &mut Node<'_>, index: u32, parent: Option<u32>) {
        let around = parent.and_then(|parent| Some((parent, self.nodes.get(parent as usize)?)));
        match around {
            Some((parent, around)) if around.depth + 1 < MAX_CALLS => {
                (node.parent, node.root, node.depth) = (parent, around.root, around.depth + 1);
            }
            Some((_, around)) => {
                (node.parent, node.root, node.depth) = (around.parent, around.root, around.depth);
                (node.call_file, node.call_line, node.call_column) = (None, 0, 0);
            }
            None => node.root = index,
        }
    }

    /// Reads the functions of a unit. Results from before an error are kept.
    pub(super) fn read_unit(
        &mut self,
        units: &mut Units<'a>,
        unit: &Unit<DwarfSlice<'a>>,
        start: usize,
    ) -> Result<(), UnitFailure> {
        let result = self.walk_entries(units, unit, start);
        self.paint_functions();
        result
    }

    /// Walks the entries of a unit.
    fn walk_entries(
        &mut self,
        units: &mut Units<'a>,
        unit: &Unit<DwarfSlice<'a>>,
        start: usize,
    ) -> Result<(), UnitFailure> {
        let mut raw = unit.entries_raw(None)?;
        // The functions around the current entry: depth and node.
        let mut around: Vec<(isize, u32)> = Vec::new();
        let mut references = Vec::new();
        while !raw.is_empty() {
            let depth = raw.next_depth();
            let Some(abbreviation) = raw.read_abbreviation()? else { continue };
            units.steps.take_entry(ObjectPart::Functions, abbreviation.attributes().len())?;
            while around.last().is_some_and(|(outer, _)| *outer >= depth) {
                around.pop();
            }
            let is_inlined = match abbreviation.tag() {
                gimli::DW_TAG_subprogram => false,
                gimli::DW_TAG_inlined_subroutine => true,
                tag => {
                    let is_call = matches!(tag, gimli::DW_TAG_call_site | gimli::DW_TAG_GNU_call_site);
                    if let Some((_, inner)) = around.last().filter(|_| is_call && is_tail_call(abbreviation))
                    {
                        let root = self.nodes[*inner as usize].root;
                        self.nodes[root as usize].may_return = true;
                    }
                    raw.skip_attributes(abbreviation.attributes())?;
                    continue;
                }
            };
            references.clear();
            let (mut node, named, addresses) =
                read_node(&mut raw, abbreviation, units, unit, start, &mut references)?;
            let index = u32::try_from(self.nodes.len())
                .ok()
                .filter(|n| *n < NO_NODE)
                .ok_or_else(too_many_functions)?;
            self.nest_node(&mut node, index, around.last().map(|(_, node)| *node).filter(|_| is_inlined));
            node.ranges = self.read_ranges(&addresses, index, units, unit)?;
            if node.ranges.0 == node.ranges.1 && !abbreviation.has_children() {
                continue;
            }
            if node.ranges.0 < node.ranges.1 {
                node.entry = addresses.low.and_then(|low| self.code.offset_at(low));
                let mut names = named.read_names(&units.dwarf, unit, units.steps)?;
                for reference in references.drain(..) {
                    names = names.or(units.find_names(reference)?);
                }
                node.name = names.best_name();
                node.no_return = names.no_return.then_some(NoReturn::Declared);
                node.may_return = names.has_value;
            }
            self.nodes.push(node);
            around.push((depth, index));
        }
        Ok(())
    }
}

impl<'a> Functions<'_, 'a> {
    /// Reads the ranges of a function, and returns their position. A list that several functions share is read
    /// once.
    fn read_ranges(
        &mut self,
        addresses: &Addresses<'a>,
        function: u32,
        units: &Units<'a>,
        unit: &Unit<DwarfSlice<'a>>,
    ) -> Result<(usize, usize), ObjectError> {
        // A damaged list of ranges affects this function only.
        let list = addresses.list_offset(&units.dwarf, unit).unwrap_or_default();
        if let Some(known) = list.and_then(|list| self.lists.get_mut(&list)) {
            // A function without ranges may not be among the nodes.
            let before = self.nodes.get_mut(known.function as usize);
            if let Some(before) = before.filter(|_| known.ranges.0 < known.ranges.1) {
                before.is_covered = true;
            }
            known.function = function;
            return Ok(known.ranges);
        }
        let (first, ranges, code) = (self.ranges.len(), &mut self.ranges, self.code);
        let result = addresses.each_range(list, &units.dwarf, unit, units.steps, |low, high| {
            ranges.extend(code.clip_range(low, high));
            true
        });
        if let Err(UnitFailure::Object(error)) = result {
            return Err(error);
        }
        let ranges = (first, self.ranges.len());
        if let Some(list) = list {
            self.lists.insert(list, RangeList { ranges, function });
        }
        Ok(ranges)
    }

    /// Paints the functions over each other, inner ones after outer ones.
    fn paint_functions(&mut self) {
        for (index, node) in (0..).zip(&self.nodes) {
            if node.is_covered {
                continue;
            }
            for (low, high) in self.ranges.get(node.ranges.0..node.ranges.1).unwrap_or_default() {
                self.canvas.paint_range(*low, *high, index);
            }
        }
        for node in self.nodes.iter().filter(|node| !node.is_covered) {
            if let Some(ranges) = self.ranges.get_mut(node.ranges.0..node.ranges.1) {
                ranges.sort_unstable();
            }
        }
    }
}

/// True for a tail call: the called function returns on behalf of its caller.
fn is_tail_call(abbreviation: &Abbreviation) -> bool {
    let is_mark = |name| matches!(name, gimli::DW_AT_call_tail_call | gimli::DW_AT_GNU_tail_call);
    abbreviation.attributes().iter().any(|spec| is_mark(spec.name()))
}

/// Reads the attributes of a function. `references` are the entries that may name it.
fn read_node<'a>(
    raw: &mut EntriesRaw<'_, DwarfSlice<'a>>,
    abbreviation: &Abbreviation,
    units: &Units<'a>,
    unit: &Unit<DwarfSlice<'a>>,
    start: usize,
    references: &mut Vec<usize>,
) -> gimli::Result<(Node<'a>, Named<'a>, Addresses<'a>)> {
    let (mut node, mut named, mut addresses) = (Node::NAMELESS, Named::default(), Addresses::default());
    for spec in abbreviation.attributes() {
        let attribute = raw.read_attribute(*spec)?;
        let small = || attribute.udata_value().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        match attribute.name() {
            gimli::DW_AT_call_file => {
                node.call_file = match attribute.value() {
                    AttributeValue::FileIndex(index) => Some(index),
                    _ => attribute.udata_value(),
                }
            }
            gimli::DW_AT_frame_base => {
                let expression = attribute.exprloc_value().and_then(|base| base.0.slice().first().copied());
                node.has_frame_pointer = expression.is_some_and(|first| FRAME_POINTERS.contains(&first));
            }
            gimli::DW_AT_call_line => node.call_line = small(),
            gimli::DW_AT_call_column => node.call_column = small(),
            _ => {
                addresses.record_attribute(&units.dwarf, unit, &attribute);
                named.record_attribute(start, &attribute, references);
            }
        }
    }
    Ok((node, named, addresses))
}

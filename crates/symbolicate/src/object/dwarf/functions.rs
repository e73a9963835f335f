//! The functions of one unit and the copies of functions inlined into them.

use super::aranges::Set;
use super::paint::Canvas;
use super::units::{DwarfSlice, Named, UnitFailure, Units};
use crate::object::ObjectError;
use crate::object::code::CodeMap;
use crate::symcache::MAX_CALLS;
use gimli::{Abbreviation, Attribute, AttributeValue, EntriesRaw, Unit};

/// Stands for no function.
pub(super) const NO_NODE: u32 = u32::MAX;

/// A function, or one inlined copy of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    pub(super) name: Option<&'a [u8]>,
    /// The function that this one was inlined into; [`NO_NODE`] for a function of its own.
    pub(super) parent: u32,
    /// The function of its own at the end of the parents.
    pub(super) root: u32,
    /// How many parents there are.
    depth: usize,
    /// `None` where the call does not say in which file it is; 0 is a file of version 5.
    pub(super) call_file: Option<u64>,
    pub(super) call_line: u32,
    pub(super) call_column: u32,
    /// `DW_AT_low_pc` as an offset from `__TEXT`.
    pub(super) entry: Option<u32>,
    ranges: (usize, usize),
}

impl Node<'_> {
    /// A function of which nothing is known yet.
    const NAMELESS: Self = Node {
        name: None,
        parent: NO_NODE,
        root: NO_NODE,
        depth: 0,
        call_file: None,
        call_line: 0,
        call_column: 0,
        entry: None,
        ranges: (0, 0),
    };
}

/// The functions of one unit.
pub(super) struct Functions<'c, 'a> {
    code: &'c CodeMap,
    pub(super) nodes: Vec<Node<'a>>,
    ranges: Vec<(u32, u32)>,
    /// The innermost function at each address.
    pub(super) canvas: Canvas,
}

/// What the attributes of an entry say of its addresses.
#[derive(Default)]
struct Addresses<'a> {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    list: Option<AttributeValue<DwarfSlice<'a>>>,
}

impl<'a> Addresses<'a> {
    fn note(
        &mut self,
        units: &Units<'a>,
        unit: &Unit<DwarfSlice<'a>>,
        attribute: &Attribute<DwarfSlice<'a>>,
    ) {
        let address = || units.dwarf.attr_address(unit, attribute.value()).ok().flatten();
        match attribute.name() {
            gimli::DW_AT_low_pc => self.low = address(),
            gimli::DW_AT_high_pc => match attribute.udata_value() {
                Some(size) => self.size = Some(size),
                None => self.high = address(),
            },
            gimli::DW_AT_ranges => self.list = Some(attribute.value()),
            _ => {}
        }
    }

    /// Calls `each` with every range that lies in code.
    fn ranges(
        &self,
        units: &Units<'a>,
        unit: &Unit<DwarfSlice<'a>>,
        code: &CodeMap,
        mut each: impl FnMut(u32, u32),
    ) -> gimli::Result<()> {
        if let Some(list) = self.list {
            let Some(mut list) = units.dwarf.attr_ranges(unit, list)? else { return Ok(()) };
            while let Some(range) = list.next()? {
                if let Some((low, high)) = code.clip(range.begin, range.end) {
                    each(low, high);
                }
            }
        } else if let Some(low) = self.low {
            let high = self.size.map(|size| low.saturating_add(size)).or(self.high);
            if let Some((low, high)) = high.and_then(|high| code.clip(low, high)) {
                each(low, high);
            }
        }
        Ok(())
    }
}

impl<'a> Units<'a> {
    /// The address ranges of a unit as a whole: those of the table of ranges where it has the unit, for
    /// what the unit itself says may be no more than its first and its last address.
    pub(super) fn claims(&self, index: usize, code: &CodeMap) -> gimli::Result<Vec<(u32, u32)>> {
        let Some(unit) = self.bare(index) else { return Ok(Vec::new()) };
        let mut claims = Vec::new();
        let sets = self.aranges(index);
        if !sets.is_empty() {
            let ranges = sets.iter().flat_map(Set::ranges);
            return Ok(ranges.filter_map(|(low, high)| code.clip(low, high)).collect());
        }
        let mut entry = unit.entries_raw(None)?;
        let mut addresses = Addresses::default();
        if let Some(abbreviation) = entry.read_abbreviation()? {
            for spec in abbreviation.attributes() {
                addresses.note(self, unit, &entry.read_attribute(*spec)?);
            }
        }
        addresses.ranges(self, unit, code, |low, high| claims.push((low, high)))?;
        Ok(claims)
    }
}

fn too_many_functions() -> ObjectError {
    ObjectError::TooLarge("more functions in a unit than 32 bits count".into())
}

impl<'c, 'a> Functions<'c, 'a> {
    pub(super) fn new(code: &'c CodeMap) -> Functions<'c, 'a> {
        Functions { code, nodes: Vec::new(), ranges: Vec::new(), canvas: Canvas::default() }
    }

    /// Where the range of a function that holds `at` begins; `at` itself where none does.
    pub(super) fn begin(&self, node: &Node<'_>, at: u32) -> u32 {
        let ranges = self.ranges.get(node.ranges.0..node.ranges.1).unwrap_or_default();
        let last = ranges.partition_point(|(low, _)| *low <= at).checked_sub(1).and_then(|i| ranges.get(i));
        last.filter(|(_, high)| at < *high).map_or(at, |(low, _)| *low)
    }

    /// Puts a node under its parent. Of a chain that is longer than an answer may be, the functions in
    /// the middle are left out, and with them the line of the call to the one after them.
    fn nest(&self, node: &mut Node<'_>, index: u32, parent: Option<u32>) {
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

    /// Walks the entries of a unit. What was found before an error stays.
    pub(super) fn read(
        &mut self,
        units: &mut Units<'a>,
        unit: &Unit<DwarfSlice<'a>>,
        start: usize,
    ) -> Result<(), UnitFailure> {
        let mut raw = unit.entries_raw(None)?;
        // The functions around the entry at hand: depth and node.
        let mut around: Vec<(isize, u32)> = Vec::new();
        let mut references = Vec::new();
        while !raw.is_empty() {
            let depth = raw.next_depth();
            let Some(abbreviation) = raw.read_abbreviation()? else { continue };
            while around.last().is_some_and(|(outer, _)| *outer >= depth) {
                around.pop();
            }
            let is_inlined = match abbreviation.tag() {
                gimli::DW_TAG_subprogram => false,
                gimli::DW_TAG_inlined_subroutine => true,
                _ => {
                    raw.skip_attributes(abbreviation.attributes())?;
                    continue;
                }
            };
            references.clear();
            let (mut node, named, addresses) =
                read_node(&mut raw, abbreviation, units, (unit, start), &mut references)?;
            node.ranges = (self.ranges.len(), self.ranges.len());
            let index = u32::try_from(self.nodes.len())
                .ok()
                .filter(|n| *n < NO_NODE)
                .ok_or_else(too_many_functions)?;
            self.nest(&mut node, index, around.last().map(|(_, node)| *node).filter(|_| is_inlined));
            let (ranges, canvas) = (&mut self.ranges, &mut self.canvas);
            // A damaged list of ranges costs this function only.
            let _ = addresses.ranges(units, unit, self.code, |low, high| {
                ranges.push((low, high));
                canvas.paint(low, high, index);
            });
            node.ranges.1 = self.ranges.len();
            self.ranges[node.ranges.0..].sort_unstable();
            if node.ranges.0 == node.ranges.1 && !abbreviation.has_children() {
                continue;
            }
            if node.ranges.0 < node.ranges.1 {
                node.entry = addresses.low.and_then(|low| self.code.offset(low));
                let mut names = named.read(&units.dwarf, unit);
                for reference in references.drain(..) {
                    if names.linkage.is_none() {
                        names = names.or(units.names(reference));
                    }
                }
                node.name = names.best();
            }
            self.nodes.push(node);
            around.push((depth, index));
        }
        Ok(())
    }
}

/// What the attributes of a function say. `references` are the entries that may name it.
fn read_node<'a>(
    raw: &mut EntriesRaw<'_, DwarfSlice<'a>>,
    abbreviation: &Abbreviation,
    units: &Units<'a>,
    (unit, start): (&Unit<DwarfSlice<'a>>, usize),
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
            gimli::DW_AT_call_line => node.call_line = small(),
            gimli::DW_AT_call_column => node.call_column = small(),
            _ => {
                addresses.note(units, unit, &attribute);
                named.note(start, &attribute, references);
            }
        }
    }
    Ok((node, named, addresses))
}

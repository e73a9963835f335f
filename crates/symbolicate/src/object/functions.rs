//! The functions of one unit and the copies of functions inlined into them.

use super::aranges::Set;
use super::code::CodeMap;
use super::paint::Canvas;
use super::units::{Budget, Failure, Named, Slice, Units};
use super::{Limits, ObjectError};
use crate::memory::Memory;
use crate::symcache::MAX_CALLS;
use gimli::{Attribute, AttributeValue, Unit};

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
    pub(super) call_file: u64,
    pub(super) call_line: u32,
    pub(super) call_column: u32,
    /// `DW_AT_low_pc` as an offset from `__TEXT`.
    pub(super) entry: Option<u32>,
    ranges: (usize, usize),
}

/// The functions of one unit.
pub(super) struct Functions<'c, 'a> {
    code: &'c CodeMap,
    max_depth: usize,
    /// The unit's.
    memory: &'c Memory,
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
    list: Option<AttributeValue<Slice<'a>>>,
}

impl<'a> Addresses<'a> {
    fn note(&mut self, units: &Units<'a>, unit: &Unit<Slice<'a>>, attribute: &Attribute<Slice<'a>>) {
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
        unit: &Unit<Slice<'a>>,
        code: &CodeMap,
        budget: &mut Budget,
        mut each: impl FnMut(u32, u32) -> Result<(), ObjectError>,
    ) -> Result<(), Failure> {
        if let Some(list) = self.list {
            let Some(mut list) = units.dwarf.attr_ranges(unit, list)? else { return Ok(()) };
            while let Some(entry) = list.next_raw()? {
                // Entries that give no range are read like others.
                budget.spend(8)?;
                let Some(range) = list.convert_raw(entry)? else { continue };
                if let Some((low, high)) = code.clip(range.begin, range.end) {
                    each(low, high)?;
                }
            }
        } else if let Some(low) = self.low {
            let high = self.size.map(|size| low.saturating_add(size)).or(self.high);
            if let Some((low, high)) = high.and_then(|high| code.clip(low, high)) {
                each(low, high)?;
            }
        }
        Ok(())
    }
}

impl<'a> Units<'a> {
    /// The address ranges of a unit as a whole: those of the table of ranges where it has the unit, for
    /// what the unit itself says may be no more than its first and its last address.
    pub(super) fn claims(
        &self,
        index: usize,
        code: &CodeMap,
        limits: &Limits,
        budget: &mut Budget,
        memory: &Memory,
    ) -> Result<Vec<(u32, u32)>, Failure> {
        let Some(unit) = self.bare(index) else { return Ok(Vec::new()) };
        let mut claims = Vec::new();
        let mut claim = |low: u32, high: u32| {
            memory.push(&mut claims, (low, high))?;
            let fits = claims.len() as u64 <= limits.max_ranges;
            if fits { Ok(()) } else { Err(too_many_ranges()) }
        };
        let sets = self.aranges(index);
        if !sets.is_empty() {
            for (low, high) in sets.iter().flat_map(Set::ranges) {
                budget.spend(8)?;
                if let Some((low, high)) = code.clip(low, high) {
                    claim(low, high)?;
                }
            }
            return Ok(claims);
        }
        let mut entry = unit.entries_raw(None)?;
        let mut addresses = Addresses::default();
        if let Some(abbreviation) = entry.read_abbreviation()? {
            budget.spend(abbreviation.attributes().len() as u64)?;
            for spec in abbreviation.attributes() {
                addresses.note(self, unit, &entry.read_attribute(*spec)?);
            }
        }
        addresses.ranges(self, unit, code, budget, claim)?;
        Ok(claims)
    }
}

fn too_many_ranges() -> ObjectError {
    ObjectError::TooLarge("too many address ranges".into())
}

impl<'c, 'a> Functions<'c, 'a> {
    pub(super) fn new(code: &'c CodeMap, max_depth: usize, memory: &'c Memory) -> Functions<'c, 'a> {
        Functions {
            code,
            max_depth,
            memory,
            nodes: Vec::new(),
            ranges: Vec::new(),
            canvas: Canvas::default(),
        }
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
                (node.call_file, node.call_line, node.call_column) = (0, 0, 0);
            }
            None => node.root = index,
        }
    }

    /// Walks the entries of a unit. What was found before an error stays. Names that other units may ask
    /// for again are kept in `memory`.
    pub(super) fn read(
        &mut self,
        units: &mut Units<'a>,
        unit: &Unit<Slice<'a>>,
        start: usize,
        entries_left: &mut u64,
        ranges_left: &mut u64,
        (budget, memory): (&mut Budget, &Memory),
    ) -> Result<(), Failure> {
        let mut raw = unit.entries_raw(None)?;
        // The functions around the entry at hand: depth and node.
        let mut around: Vec<(isize, u32)> = Vec::new();
        let mut references = Vec::new();
        while !raw.is_empty() {
            let depth = raw.next_depth();
            let Some(abbreviation) = raw.read_abbreviation()? else { continue };
            *entries_left = entries_left
                .checked_sub(1)
                .ok_or_else(|| ObjectError::TooLarge("too many entries of debug information".into()))?;
            // Attributes may take no bytes at all.
            budget.spend(abbreviation.attributes().len() as u64)?;
            if usize::try_from(depth).is_ok_and(|depth| depth > self.max_depth) {
                return Err(
                    ObjectError::TooLarge("entries of debug information nested too deep".into()).into()
                );
            }
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
            let mut node = Node {
                name: None,
                parent: NO_NODE,
                root: NO_NODE,
                depth: 0,
                call_file: 0,
                call_line: 0,
                call_column: 0,
                entry: None,
                ranges: (self.ranges.len(), self.ranges.len()),
            };
            let mut named = Named::default();
            let mut addresses = Addresses::default();
            references.clear();
            for spec in abbreviation.attributes() {
                let attribute = raw.read_attribute(*spec)?;
                let small = || attribute.udata_value().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
                match attribute.name() {
                    gimli::DW_AT_call_file => {
                        node.call_file = match attribute.value() {
                            AttributeValue::FileIndex(index) => index,
                            _ => attribute.udata_value().unwrap_or(0),
                        }
                    }
                    gimli::DW_AT_call_line => node.call_line = small(),
                    gimli::DW_AT_call_column => node.call_column = small(),
                    _ => {
                        addresses.note(units, unit, &attribute);
                        named.note(start, &attribute, &mut references);
                    }
                }
            }
            let index =
                u32::try_from(self.nodes.len()).ok().filter(|n| *n < NO_NODE).ok_or_else(too_many_ranges)?;
            self.nest(&mut node, index, around.last().map(|(_, node)| *node).filter(|_| is_inlined));
            let (ranges, canvas, of_unit) = (&mut self.ranges, &mut self.canvas, self.memory);
            let painted = addresses.ranges(units, unit, self.code, budget, |low, high| {
                *ranges_left = ranges_left.checked_sub(1).ok_or_else(too_many_ranges)?;
                of_unit.push(ranges, (low, high))?;
                of_unit.take(Canvas::COAT)?;
                canvas.paint(low, high, index);
                Ok(())
            });
            match painted {
                // A damaged list of ranges costs this function only.
                Ok(()) | Err(Failure::Unit(_)) => {}
                Err(failure) => return Err(failure),
            }
            node.ranges.1 = self.ranges.len();
            self.ranges[node.ranges.0..].sort_unstable();
            if node.ranges.0 == node.ranges.1 && !abbreviation.has_children() {
                continue;
            }
            if node.ranges.0 < node.ranges.1 {
                node.entry = addresses.low.and_then(|low| self.code.offset(low));
                let mut names = named.read(&units.dwarf, unit, budget)?;
                for reference in references.drain(..) {
                    if names.linkage.is_none() {
                        let of_origin = units.names(reference, budget, memory)?;
                        budget.spend(of_origin.size())?;
                        names = names.or(of_origin);
                    }
                }
                node.name = names.best();
            }
            self.memory.push(&mut self.nodes, node)?;
            around.push((depth, index));
        }
        Ok(())
    }
}

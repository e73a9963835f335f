//! The units of debug information: their headers, which unit answers for an address, and the names
//! of entries that refer to entries elsewhere.

use super::aranges::{self, Set};
use crate::object::ObjectError;
use crate::object::error::malformed;
use crate::object::macho::MachFile;
use gimli::{
    Attribute, AttributeValue, EndianSlice, LittleEndian, Section, SectionId, Unit, UnitHeader, UnitOffset,
    UnitSectionOffset,
};
use std::collections::HashMap;

pub(super) type DwarfSlice<'a> = EndianSlice<'a, LittleEndian>;
pub(super) type Dwarf<'a> = gimli::Dwarf<DwarfSlice<'a>>;

/// Steps from an entry to the one that names it; references may go in a circle.
const MAX_ORIGIN_STEPS: usize = 16;

/// What a unit or an entry is given up for.
#[derive(Debug)]
pub(super) enum UnitFailure {
    /// The unit is damaged: it is left out, from here on, with a warning.
    Unit(gimli::Error),
    /// The whole object is given up.
    Object(ObjectError),
}

impl From<gimli::Error> for UnitFailure {
    fn from(error: gimli::Error) -> UnitFailure {
        UnitFailure::Unit(error)
    }
}

impl From<ObjectError> for UnitFailure {
    fn from(error: ObjectError) -> UnitFailure {
        UnitFailure::Object(error)
    }
}

impl From<crate::symcache::NoSymcache> for UnitFailure {
    fn from(error: crate::symcache::NoSymcache) -> UnitFailure {
        UnitFailure::Object(error.into())
    }
}

/// The sections of debug information as gimli wants them.
pub(super) fn load<'a>(file: &MachFile<'a>) -> Result<Dwarf<'a>, ObjectError> {
    gimli::Dwarf::load(|id: SectionId| {
        let name = id.name().replacen('.', "__", 1);
        file.debug_section(&name).map(|bytes| EndianSlice::new(bytes, LittleEndian))
    })
}

struct Entry<'a> {
    header: UnitHeader<DwarfSlice<'a>>,
    start: usize,
    end: usize,
    /// Without its line program: the program's tables of files are the largest part of a parsed unit.
    unit: Option<Unit<DwarfSlice<'a>>>,
}

/// All units of an object, in the order of the file.
pub(super) struct Units<'a> {
    pub(super) dwarf: Dwarf<'a>,
    entries: Vec<Entry<'a>>,
    /// Of the table of ranges, by the start of their unit.
    sets: Vec<Set<'a>>,
    names: HashMap<usize, Names<'a>>,
}

/// The names that an entry has, itself or by reference.
#[derive(Clone, Copy, Default)]
pub(super) struct Names<'a> {
    pub(super) linkage: Option<&'a [u8]>,
    pub(super) plain: Option<&'a [u8]>,
}

impl<'a> Names<'a> {
    /// The linkage name, or else the plain one.
    pub(super) fn best(self) -> Option<&'a [u8]> {
        self.linkage.or(self.plain)
    }

    pub(super) fn or(self, other: Names<'a>) -> Names<'a> {
        Names { linkage: self.linkage.or(other.linkage), plain: self.plain.or(other.plain) }
    }
}

impl<'a> Units<'a> {
    /// Reads the headers of all units. A damaged header ends the list, with a warning.
    pub(super) fn read(file: &MachFile<'a>, warnings: &mut Vec<String>) -> Result<Units<'a>, ObjectError> {
        let mut dwarf = load(file)?;
        let mut headers = Vec::new();
        let mut iter = dwarf.units();
        loop {
            match iter.next() {
                Ok(Some(header)) => headers.push(header),
                Ok(None) => break,
                Err(error) => {
                    warnings.push(format!("debug information ends after {} units: {error}", headers.len()));
                    break;
                }
            }
        }
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let mut entries = Vec::with_capacity(headers.len());
        for header in headers {
            let UnitSectionOffset(start) = header.offset();
            let end = start.saturating_add(header.length_including_self());
            let unit = match dwarf.unit(header) {
                Ok(mut unit) => {
                    unit.line_program = None;
                    Some(unit)
                }
                Err(error) => {
                    warn(warnings, start, &error);
                    None
                }
            };
            entries.push(Entry { header, start, end, unit });
        }
        let sets = aranges::read(dwarf.debug_aranges.reader().slice());
        Ok(Units { dwarf, entries, sets, names: HashMap::new() })
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A unit without its line program; `None` for one that is damaged.
    pub(super) fn bare(&self, index: usize) -> Option<&Unit<DwarfSlice<'a>>> {
        self.entries.get(index)?.unit.as_ref()
    }

    /// A unit with its line program; `None` for one that is damaged or only describes types.
    pub(super) fn whole(&self, index: usize) -> Option<Unit<DwarfSlice<'a>>> {
        let is_code = |header: &UnitHeader<DwarfSlice<'a>>| {
            matches!(header.type_(), gimli::UnitType::Compilation | gimli::UnitType::Skeleton(_))
        };
        let entry = self.entries.get(index).filter(|e| e.unit.is_some() && is_code(&e.header))?;
        self.dwarf.unit(entry.header).ok()
    }

    pub(super) fn start_of(&self, index: usize) -> usize {
        self.entries.get(index).map_or(0, |e| e.start)
    }

    /// What the table of ranges has on a unit.
    pub(super) fn aranges(&self, index: usize) -> &[Set<'a>] {
        let Some(entry) = self.entries.get(index) else { return &[] };
        let from = self.sets.partition_point(|set| set.unit < entry.start);
        let to = self.sets.partition_point(|set| set.unit <= entry.start);
        self.sets.get(from..to).unwrap_or_default()
    }

    fn at(&self, offset: usize) -> Option<(usize, &Unit<DwarfSlice<'a>>)> {
        let index = self.entries.partition_point(|e| e.start <= offset).checked_sub(1)?;
        let entry = &self.entries[index];
        if offset < entry.end { Some((entry.start, entry.unit.as_ref()?)) } else { None }
    }

    /// The names of the entry at an offset of `.debug_info`, following references a bounded number
    /// of steps. What cannot be read counts as nameless.
    pub(super) fn names(&mut self, offset: usize) -> Names<'a> {
        if let Some(known) = self.names.get(&offset) {
            return *known;
        }
        let mut found = Names::default();
        let mut todo = vec![offset];
        let mut steps = 0;
        while let Some(next) = todo.pop().filter(|_| steps < MAX_ORIGIN_STEPS) {
            steps += 1;
            if let Some(known) = self.names.get(&next) {
                found = found.or(*known);
            } else {
                found = found.or(self.own_names(next, &mut todo).unwrap_or_default());
            }
            if found.linkage.is_some() {
                break;
            }
        }
        self.names.insert(offset, found);
        found
    }

    /// Forgets the names that were read: most entries refer to entries of their own unit.
    pub(super) fn forget_names(&mut self) {
        self.names = HashMap::new();
    }

    fn own_names(&self, offset: usize, references: &mut Vec<usize>) -> gimli::Result<Names<'a>> {
        let Some((start, unit)) = self.at(offset) else { return Ok(Names::default()) };
        let mut entry = unit.entries_raw(Some(UnitOffset(offset - start)))?;
        let Some(abbreviation) = entry.read_abbreviation()? else { return Ok(Names::default()) };
        let mut named = Named::default();
        for spec in abbreviation.attributes() {
            named.note(start, &entry.read_attribute(*spec)?, references);
        }
        Ok(named.read(&self.dwarf, unit))
    }
}

/// What the attributes of an entry say of its names, before any text is looked up.
#[derive(Default)]
pub(super) struct Named<'a> {
    linkage: Option<AttributeValue<DwarfSlice<'a>>>,
    plain: Option<AttributeValue<DwarfSlice<'a>>>,
}

impl<'a> Named<'a> {
    /// Notes what one attribute says of an entry's name, or of the entry that has it.
    pub(super) fn note(
        &mut self,
        start: usize,
        attribute: &Attribute<DwarfSlice<'a>>,
        references: &mut Vec<usize>,
    ) {
        match attribute.name() {
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                self.linkage = self.linkage.or_else(|| Some(attribute.value()));
            }
            gimli::DW_AT_name => self.plain = self.plain.or_else(|| Some(attribute.value())),
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => match attribute.value() {
                AttributeValue::UnitRef(offset) => references.push(start.saturating_add(offset.0)),
                AttributeValue::DebugInfoRef(offset) => references.push(offset.0),
                _ => {}
            },
            _ => {}
        }
    }

    /// Looks the names up.
    pub(super) fn read(self, dwarf: &Dwarf<'a>, unit: &Unit<DwarfSlice<'a>>) -> Names<'a> {
        let look_up = |value| Some(dwarf.attr_string(unit, value).ok()?.slice());
        let linkage = self.linkage.and_then(look_up).filter(|name| !name.is_empty());
        Names { linkage, plain: self.plain.and_then(look_up) }
    }
}

pub(super) fn warn(warnings: &mut Vec<String>, unit: usize, error: &gimli::Error) {
    const MOST: usize = 20;
    if warnings.len() < MOST {
        warnings.push(format!("unit {unit:#x} of the debug information: {error}"));
    }
}

/// Which unit answers for which addresses, from the address ranges of the units. Where several claim
/// an address (folded functions), the one that answered just before goes on, else the first in the file.
pub(super) fn owners(claims: &[(u32, u32, usize)]) -> Vec<(u32, u32, usize)> {
    let mut ends: Vec<(u32, bool, usize)> = Vec::with_capacity(2 * claims.len());
    for (low, high, unit) in claims.iter().filter(|c| c.0 < c.1) {
        ends.push((*low, true, *unit));
        ends.push((*high, false, *unit));
    }
    ends.sort_unstable();
    let mut open: std::collections::BTreeMap<usize, usize> = std::collections::BTreeMap::new();
    let mut owners: Vec<(u32, u32, usize)> = Vec::new();
    let mut previous = 0;
    for (address, is_start, unit) in ends {
        if previous < address {
            match (owners.last_mut(), open.first_key_value()) {
                (Some(last), Some(_)) if last.1 == previous && open.contains_key(&last.2) => last.1 = address,
                (_, Some((first, _))) => owners.push((previous, address, *first)),
                (_, None) => {}
            }
        }
        if is_start {
            *open.entry(unit).or_default() += 1;
        } else if let Some(count) = open.get_mut(&unit) {
            *count -= 1;
            if *count == 0 {
                open.remove(&unit);
            }
        }
        previous = address;
    }
    owners
}

/// Where the object has DWARF but none of it can be read.
pub(super) fn unreadable(warnings: &[String]) -> ObjectError {
    warnings.first().map_or_else(
        || malformed("no unit of the debug information can be read"),
        |first| ObjectError::Malformed(first.clone().into()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_that_answered_before_goes_on_and_ties_go_to_the_first() {
        assert_eq!(owners(&[(0, 4, 1), (0, 4, 0)]), [(0, 4, 0)]);
        assert_eq!(owners(&[(4, 8, 0), (0, 8, 1)]), [(0, 8, 1)]);
        assert_eq!(owners(&[(0, 4, 1), (6, 8, 0)]), [(0, 4, 1), (6, 8, 0)]);
        assert_eq!(owners(&[(0, 4, 1), (4, 8, 1), (4, 8, 0)]), [(0, 8, 1)]);
        assert_eq!(owners(&[(3, 3, 1)]), []);
    }
}

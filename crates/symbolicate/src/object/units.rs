//! The units of debug information: their headers, which unit answers for an address, and the names
//! of entries that refer to entries elsewhere.

use super::aranges::{self, Set};
use super::macho::{MachO, malformed};
use super::tables::{self, LineHeader};
use super::{Limits, ObjectError};
use crate::memory::{Memory, NoMemory};
use crate::symcache::entry;
use gimli::{
    Attribute, AttributeValue, DebugStrOffsetsBase, EndianSlice, Format, LittleEndian, Section, SectionId,
    Unit, UnitHeader, UnitOffset, UnitSectionOffset,
};
use std::collections::{BTreeSet, HashMap};

pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;
pub(super) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;

/// What a unit or an entry is given up for.
#[derive(Debug)]
pub(super) enum Failure {
    /// The unit is damaged: it is left out, from here on, with a warning.
    Unit(gimli::Error),
    /// The whole object is given up.
    Object(ObjectError),
}

impl From<gimli::Error> for Failure {
    fn from(error: gimli::Error) -> Failure {
        Failure::Unit(error)
    }
}

impl From<NoMemory> for Failure {
    fn from(error: NoMemory) -> Failure {
        Failure::Object(error.into())
    }
}

impl From<ObjectError> for Failure {
    fn from(error: ObjectError) -> Failure {
        Failure::Object(error)
    }
}

impl From<crate::symcache::NoSymcache> for Failure {
    fn from(error: crate::symcache::NoSymcache) -> Failure {
        Failure::Object(error.into())
    }
}

/// Counts down the bytes that may still be read. Parts of a file that are shared are paid for each
/// time, so that a small file cannot ask for work without end.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
}

impl Budget {
    pub(super) fn new(file_size: usize, limits: &Limits) -> Budget {
        Budget { left: (file_size as u64).saturating_mul(limits.max_read_factor).saturating_add(1 << 20) }
    }

    pub(super) fn spend(&mut self, bytes: u64) -> Result<(), ObjectError> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            ObjectError::TooLarge("the debug information uses the same parts over and over".into())
        })?;
        Ok(())
    }
}

/// The sections of debug information as gimli wants them.
pub(super) fn load<'a>(file: &MachO<'a>) -> Result<Dwarf<'a>, ObjectError> {
    gimli::Dwarf::load(|id: SectionId| {
        let name = id.name().replacen('.', "__", 1);
        file.debug_section(&name).map(|bytes| EndianSlice::new(bytes, LittleEndian))
    })
}

struct Entry<'a> {
    header: UnitHeader<Slice<'a>>,
    start: usize,
    end: usize,
    /// Without its line program, whose tables of files are the largest part of a parsed unit.
    unit: Option<Unit<Slice<'a>>>,
}

/// All units of an object, in the order of the file.
pub(super) struct Units<'a> {
    pub(super) dwarf: Dwarf<'a>,
    entries: Vec<Entry<'a>>,
    /// Of the table of ranges, by the start of their unit.
    sets: Vec<Set<'a>>,
    names: HashMap<usize, Names<'a>>,
    limits: Limits,
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

    /// Bytes of both.
    pub(super) fn size(self) -> u64 {
        self.linkage.map_or(0, <[u8]>::len) as u64 + self.plain.map_or(0, <[u8]>::len) as u64
    }

    pub(super) fn or(self, other: Names<'a>) -> Names<'a> {
        Names { linkage: self.linkage.or(other.linkage), plain: self.plain.or(other.plain) }
    }
}

impl<'a> Units<'a> {
    /// Reads the headers of all units. A damaged header ends the list, with a warning.
    pub(super) fn read(
        file: &MachO<'a>,
        limits: &Limits,
        budget: &mut Budget,
        memory: &Memory,
        warnings: &mut Vec<String>,
    ) -> Result<Units<'a>, ObjectError> {
        let mut dwarf = load(file)?;
        let mut headers = Vec::new();
        let mut iter = dwarf.units();
        loop {
            match iter.next() {
                Ok(Some(header)) => memory.push(&mut headers, header)?,
                Ok(None) => break,
                Err(error) => {
                    warnings.push(format!("debug information ends after {} units: {error}", headers.len()));
                    break;
                }
            }
            if headers.len() > limits.max_units {
                return Err(ObjectError::TooLarge("too many units of debug information".into()));
            }
        }
        let abbreviations = file.debug_section("__debug_abbrev")?;
        let tables: BTreeSet<usize> = headers.iter().map(|h| h.debug_abbrev_offset().0).collect();
        for table in tables {
            let size = tables::abbreviations(abbreviations.get(table..).unwrap_or_default());
            budget.spend(size.bytes)?;
            memory.take(size.memory)?;
        }
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        memory.take(headers.len() * size_of::<Entry<'_>>())?;
        let mut entries = Vec::with_capacity(headers.len());
        for header in headers {
            let UnitSectionOffset(start) = header.offset();
            let end = start.saturating_add(header.length_including_self());
            // Its line table is read along with it.
            let lines = memory.share();
            let unit =
                match pay(&dwarf, header, limits, budget, &lines).and_then(|()| Ok(dwarf.unit(header)?)) {
                    Ok(mut unit) => {
                        unit.line_program = None;
                        Some(unit)
                    }
                    Err(Failure::Unit(error)) => {
                        warn(warnings, start, &error);
                        None
                    }
                    Err(Failure::Object(error)) => return Err(error),
                };
            entries.push(Entry { header, start, end, unit });
        }
        let sets = aranges::read(dwarf.debug_aranges.reader().slice(), budget, memory)?;
        Ok(Units { dwarf, entries, sets, names: HashMap::new(), limits: *limits })
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A unit without its line program; `None` for one that is damaged.
    pub(super) fn bare(&self, index: usize) -> Option<&Unit<Slice<'a>>> {
        self.entries.get(index)?.unit.as_ref()
    }

    /// A unit with its line program; `None` for one that is damaged or only describes types. `memory` is
    /// the unit's.
    pub(super) fn whole(
        &self,
        index: usize,
        budget: &mut Budget,
        memory: &Memory,
    ) -> Result<Option<Unit<Slice<'a>>>, ObjectError> {
        let is_code = |header: &UnitHeader<Slice<'a>>| {
            matches!(header.type_(), gimli::UnitType::Compilation | gimli::UnitType::Skeleton(_))
        };
        let Some(entry) = self.entries.get(index).filter(|e| e.unit.is_some() && is_code(&e.header)) else {
            return Ok(None);
        };
        match pay(&self.dwarf, entry.header, &self.limits, budget, memory) {
            Err(Failure::Object(error)) => Err(error),
            _ => Ok(self.dwarf.unit(entry.header).ok()),
        }
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

    fn at(&self, offset: usize) -> Option<(usize, &Unit<Slice<'a>>)> {
        let index = self.entries.partition_point(|e| e.start <= offset).checked_sub(1)?;
        let entry = &self.entries[index];
        if offset < entry.end { Some((entry.start, entry.unit.as_ref()?)) } else { None }
    }

    /// The names of the entry at an offset of `.debug_info`, following references a bounded number
    /// of steps. What cannot be read counts as nameless.
    pub(super) fn names(
        &mut self,
        offset: usize,
        budget: &mut Budget,
        memory: &Memory,
    ) -> Result<Names<'a>, ObjectError> {
        if let Some(known) = self.names.get(&offset) {
            return Ok(*known);
        }
        let mut found = Names::default();
        let mut todo = vec![offset];
        let mut steps = 0;
        while let Some(next) = todo.pop().filter(|_| steps < self.limits.max_origin_steps) {
            steps += 1;
            if let Some(known) = self.names.get(&next) {
                found = found.or(*known);
            } else {
                match self.own_names(next, &mut todo, budget) {
                    Ok(own) => found = found.or(own),
                    Err(Failure::Unit(_)) => {}
                    Err(Failure::Object(error)) => return Err(error),
                }
            }
            if found.linkage.is_some() {
                break;
            }
        }
        memory.take(entry::<(usize, Names<'_>)>())?;
        self.names.insert(offset, found);
        Ok(found)
    }

    fn own_names(
        &self,
        offset: usize,
        references: &mut Vec<usize>,
        budget: &mut Budget,
    ) -> Result<Names<'a>, Failure> {
        let Some((start, unit)) = self.at(offset) else { return Ok(Names::default()) };
        let mut entry = unit.entries_raw(Some(UnitOffset(offset - start)))?;
        let Some(abbreviation) = entry.read_abbreviation()? else { return Ok(Names::default()) };
        budget.spend(abbreviation.attributes().len() as u64)?;
        let mut named = Named::default();
        // Entries that are referred to may lie over each other.
        let begin = entry.next_offset().0;
        for spec in abbreviation.attributes() {
            match entry.read_attribute(*spec) {
                Ok(attribute) => named.note(start, &attribute, references),
                Err(error) => {
                    // The end of a text may have been looked for up to the end of the unit.
                    budget.spend(unit.header.length_including_self().saturating_sub(begin) as u64)?;
                    return Err(error.into());
                }
            }
        }
        budget.spend(entry.next_offset().0.saturating_sub(begin) as u64)?;
        Ok(named.read(&self.dwarf, unit, budget)?)
    }
}

/// What the attributes of an entry say of its names, before any text is looked up.
#[derive(Default)]
pub(super) struct Named<'a> {
    linkage: Option<AttributeValue<Slice<'a>>>,
    plain: Option<AttributeValue<Slice<'a>>>,
}

impl<'a> Named<'a> {
    /// Notes what one attribute says of an entry's name, or of the entry that has it.
    pub(super) fn note(
        &mut self,
        start: usize,
        attribute: &Attribute<Slice<'a>>,
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
    pub(super) fn read(
        self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<Slice<'a>>,
        budget: &mut Budget,
    ) -> Result<Names<'a>, ObjectError> {
        let mut look_up = |value: Option<AttributeValue<Slice<'a>>>| match value {
            Some(value) => {
                text(dwarf, without_index(dwarf, unit.header.format(), unit.str_offsets_base, value), budget)
            }
            None => Ok(None),
        };
        let linkage = look_up(self.linkage)?.filter(|name| !name.is_empty());
        Ok(Names { linkage, plain: look_up(self.plain)? })
    }
}

/// The value, or where it is an index of a text the place of that text.
fn without_index<'a>(
    dwarf: &Dwarf<'a>,
    format: Format,
    base: DebugStrOffsetsBase<usize>,
    value: AttributeValue<Slice<'a>>,
) -> AttributeValue<Slice<'a>> {
    let AttributeValue::DebugStrOffsetsIndex(index) = value else { return value };
    let offset = dwarf.debug_str_offsets.get_str_offset(format, base, index);
    offset.map_or(value, AttributeValue::DebugStrRef)
}

/// The text that a value stands for. The bytes that were searched for its end are paid for, also where
/// it has none.
pub(super) fn text<'a>(
    dwarf: &Dwarf<'a>,
    value: AttributeValue<Slice<'a>>,
    budget: &mut Budget,
) -> Result<Option<&'a [u8]>, ObjectError> {
    let section = match value {
        AttributeValue::String(text) => {
            budget.spend(text.len() as u64)?;
            return Ok(Some(text.slice()));
        }
        AttributeValue::DebugStrRef(offset) => dwarf.debug_str.reader().slice().get(offset.0..),
        AttributeValue::DebugLineStrRef(offset) => dwarf.debug_line_str.reader().slice().get(offset.0..),
        _ => None,
    };
    let rest = section.unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == 0);
    budget.spend(end.unwrap_or(rest.len()) as u64)?;
    Ok(end.and_then(|end| rest.get(..end)))
}

pub(super) fn warn(warnings: &mut Vec<String>, unit: usize, error: &gimli::Error) {
    const MOST: usize = 20;
    if warnings.len() < MOST {
        warnings.push(format!("unit {unit:#x} of the debug information: {error}"));
    }
}

/// Pays for what gimli reads at once when it reads a unit: the attributes of its first entry, its name
/// and directory, and its tables of directories and files, which take many times their size in memory.
fn pay<'a>(
    dwarf: &Dwarf<'a>,
    header: UnitHeader<Slice<'a>>,
    limits: &Limits,
    budget: &mut Budget,
    memory: &Memory,
) -> Result<(), Failure> {
    let abbreviations = dwarf.abbreviations(&header)?;
    let mut entry = header.entries_raw(&abbreviations, None)?;
    let Some(abbreviation) = entry.read_abbreviation()? else { return Ok(()) };
    budget.spend(abbreviation.attributes().len() as u64)?;
    let mut base = DebugStrOffsetsBase::default_for_encoding_and_file(header.encoding(), dwarf.file_type);
    let (mut name, mut directory) = (None, None);
    for spec in abbreviation.attributes() {
        let attribute = entry.read_attribute(*spec)?;
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_name, value) => name = Some(value),
            (gimli::DW_AT_comp_dir, value) => directory = Some(value),
            (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(at)) => base = at,
            (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => {
                let table = dwarf.debug_line.reader().slice().get(offset.0..).unwrap_or_default();
                let header = LineHeader::of(table);
                let size = header.size();
                budget.spend(size)?;
                if size > limits.max_line_header_bytes {
                    return Err(ObjectError::TooLarge(
                        "too many directories and files in a line table".into(),
                    )
                    .into());
                }
                memory.take(header.memory())?;
            }
            _ => {}
        }
    }
    for value in [name, directory].into_iter().flatten() {
        text(dwarf, without_index(dwarf, header.format(), base, value), budget)?;
    }
    Ok(())
}

/// Which unit answers for which addresses, from the address ranges of the units. Where several claim
/// an address (folded functions), the one that answered just before goes on, else the first in the file.
pub(super) fn owners(
    claims: &[(u32, u32, usize)],
    memory: &Memory,
) -> Result<Vec<(u32, u32, usize)>, NoMemory> {
    let on_the_way = memory.share();
    on_the_way.take(2 * claims.len() * size_of::<(u32, bool, usize)>())?;
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
                (_, Some((first, _))) => memory.push(&mut owners, (previous, address, *first))?,
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
    Ok(owners)
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
        let owners = |claims: &[(u32, u32, usize)]| owners(claims, &Memory::new(1 << 20)).unwrap();
        assert_eq!(owners(&[(0, 4, 1), (0, 4, 0)]), [(0, 4, 0)]);
        assert_eq!(owners(&[(4, 8, 0), (0, 8, 1)]), [(0, 8, 1)]);
        assert_eq!(owners(&[(0, 4, 1), (6, 8, 0)]), [(0, 4, 1), (6, 8, 0)]);
        assert_eq!(owners(&[(0, 4, 1), (4, 8, 1), (4, 8, 0)]), [(0, 8, 1)]);
        assert_eq!(owners(&[(3, 3, 1)]), []);
    }
}

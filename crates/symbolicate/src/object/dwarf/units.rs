//! The units of debug information: their headers, the unit that answers for an address, and the names of
//! entries that refer to other entries.

use super::abbreviations;
use super::aranges::{self, Set};
use super::ranges::Addresses;
use super::sections::{Dwarf, DwarfSlice, UnitFailure, load_sections};
use crate::object::ObjectError;
use crate::object::error::malformed_error;
use crate::object::macho::MachFile;
use crate::object::steps::{ObjectPart, Steps};
use gimli::{Attribute, AttributeValue, Section, Unit, UnitHeader, UnitOffset, UnitSectionOffset};
use std::collections::HashMap;
use unslide_model::SymbolName;

/// The most steps from an entry to the one that names it. References may form a cycle.
const MAX_ORIGIN_STEPS: usize = 16;

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
    pub(super) steps: &'a Steps,
    entries: Vec<Entry<'a>>,
    /// Offsets of the line programs that several units share, ascending.
    shared_programs: Vec<usize>,
    /// Sets of the table of ranges, by the start of their unit.
    sets: Vec<Set<'a>>,
    names: HashMap<usize, Names<'a>>,
    /// The version of the first unit with an unsupported version. Units after it are not read.
    unknown_version: Option<u64>,
    /// Number of units with functions in another file.
    split: usize,
}

/// The names of an entry, its own or by reference.
#[derive(Clone, Copy, Default)]
pub(super) struct Names<'a> {
    pub(super) linkage: Option<&'a [u8]>,
    pub(super) plain: Option<&'a [u8]>,
    /// True if the function is declared to never return.
    pub(super) no_return: bool,
    /// True if the function returns a value.
    pub(super) has_value: bool,
}

impl<'a> Names<'a> {
    /// Returns the linkage name, or else the plain one.
    pub(super) fn best_name(self) -> Option<&'a [u8]> {
        self.linkage.or(self.plain)
    }

    pub(super) fn or(self, other: Names<'a>) -> Names<'a> {
        Names {
            linkage: self.linkage.or(other.linkage),
            plain: self.plain.or(other.plain),
            no_return: self.no_return || other.no_return,
            has_value: self.has_value || other.has_value,
        }
    }
}

impl<'a> Units<'a> {
    /// Reads the headers of all units. A damaged header ends the list, with a warning.
    pub(super) fn from_file(
        file: &MachFile<'a>,
        steps: &'a Steps,
        warnings: &mut Vec<String>,
    ) -> Result<Units<'a>, ObjectError> {
        let mut dwarf = load_sections(file)?;
        let mut headers = Vec::new();
        let mut unknown_version = None;
        let mut iter = dwarf.units();
        loop {
            match iter.next() {
                Ok(Some(header)) => headers.push(header),
                Ok(None) => break,
                Err(gimli::Error::UnknownVersion(version)) => {
                    unknown_version = Some(version);
                    break;
                }
                Err(error) => {
                    warnings.push(format!("debug information ends after {} units: {error}", headers.len()));
                    break;
                }
            }
        }
        abbreviations::count_tables(&headers, &dwarf.debug_abbrev, steps)?;
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let mut entries = Vec::with_capacity(headers.len());
        let (mut split, mut programs) = (0, Vec::new());
        for header in headers {
            let UnitSectionOffset(start) = header.offset();
            let end = start.saturating_add(header.length_including_self());
            let unit = match dwarf.unit(header) {
                Ok(mut unit) => {
                    count_unit(&unit, steps)?;
                    split += usize::from(is_split(&dwarf, &unit, steps)?);
                    programs.extend(unit.line_program.take().map(|program| program.header().offset().0));
                    Some(unit)
                }
                Err(error) => {
                    add_warning(warnings, start, &error);
                    None
                }
            };
            entries.push(Entry { header, start, end, unit });
        }
        let sets = aranges::read_sets(dwarf.debug_aranges.reader().slice());
        let shared_programs = find_repeated(programs);
        let names = HashMap::new();
        Ok(Units { dwarf, steps, entries, shared_programs, sets, names, unknown_version, split })
    }

    /// Returns the offsets of the line programs that several units share, ascending.
    pub(super) fn shared_programs(&self) -> Vec<usize> {
        self.shared_programs.clone()
    }

    /// Returns why intact units are left out.
    pub(super) fn explain_unsupported(&self) -> Option<String> {
        if let Some(version) = self.unknown_version {
            let read = self.entries.len();
            return Some(format!(
                "its debug information is of DWARF {version}, which is not read, from unit {read} on"
            ));
        }
        let (split, all) = (self.split, self.entries.len());
        (split > 0).then(|| {
            format!("the functions of {split} of its {all} units lie in .dwo files, which are not read")
        })
    }

    /// True if the functions of all units lie in other files.
    pub(super) fn are_split(&self) -> bool {
        self.split > 0 && self.split == self.entries.len()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns a unit without its line program; `None` if it is damaged.
    pub(super) fn unit_without_lines(&self, index: usize) -> Option<&Unit<DwarfSlice<'a>>> {
        self.entries.get(index)?.unit.as_ref()
    }

    /// Returns a unit with its line program; `None` if it is damaged or only describes types.
    pub(super) fn unit_with_lines(&self, index: usize) -> Option<Unit<DwarfSlice<'a>>> {
        let is_code = |header: &UnitHeader<DwarfSlice<'a>>| {
            matches!(header.type_(), gimli::UnitType::Compilation | gimli::UnitType::Skeleton(_))
        };
        let entry = self.entries.get(index).filter(|e| e.unit.is_some() && is_code(&e.header))?;
        self.dwarf.unit(entry.header).ok()
    }

    pub(super) fn start_of(&self, index: usize) -> usize {
        self.entries.get(index).map_or(0, |e| e.start)
    }

    /// Returns the sets of a unit in the table of ranges.
    pub(super) fn range_sets(&self, index: usize) -> &[Set<'a>] {
        let Some(entry) = self.entries.get(index) else { return &[] };
        let from = self.sets.partition_point(|set| set.unit < entry.start);
        let to = self.sets.partition_point(|set| set.unit <= entry.start);
        self.sets.get(from..to).unwrap_or_default()
    }

    fn unit_at(&self, offset: usize) -> Option<(usize, &Unit<DwarfSlice<'a>>)> {
        let index = self.entries.partition_point(|e| e.start <= offset).checked_sub(1)?;
        let entry = &self.entries[index];
        if offset < entry.end { Some((entry.start, entry.unit.as_ref()?)) } else { None }
    }

    /// Returns the compiler that made a unit, as the unit names it; empty if it does not.
    pub(super) fn find_producer(&self, index: usize) -> Result<&'a [u8], ObjectError> {
        let producer = self
            .unit_without_lines(index)
            .and_then(|unit| self.read_producer(unit).ok().flatten())
            .unwrap_or_default();
        self.steps.take_bytes(ObjectPart::Units, producer.len())?;
        Ok(producer)
    }

    fn read_producer(&self, unit: &Unit<DwarfSlice<'a>>) -> gimli::Result<Option<&'a [u8]>> {
        let mut entry = unit.entries_raw(None)?;
        let Some(abbreviation) = entry.read_abbreviation()? else { return Ok(None) };
        for spec in abbreviation.attributes() {
            let attribute = entry.read_attribute(*spec)?;
            if attribute.name() == gimli::DW_AT_producer {
                return Ok(Some(self.dwarf.attr_string(unit, attribute.value())?.slice()));
            }
        }
        Ok(None)
    }

    /// Returns the names of the entry at an offset of `.debug_info`. Follows references a bounded number of
    /// steps. An unreadable entry counts as nameless.
    pub(super) fn find_names(&mut self, offset: usize) -> Result<Names<'a>, ObjectError> {
        if let Some(known) = self.names.get(&offset) {
            return Ok(*known);
        }
        let mut found = Names::default();
        let mut todo = vec![offset];
        let mut steps = 0;
        while let Some(next) = todo.pop().filter(|_| steps < MAX_ORIGIN_STEPS) {
            steps += 1;
            if let Some(known) = self.names.get(&next) {
                found = found.or(*known);
            } else {
                match self.own_names(next, &mut todo) {
                    Ok(own) => found = found.or(own),
                    Err(UnitFailure::Unit(_)) => {}
                    Err(UnitFailure::Object(error)) => return Err(error),
                }
            }
        }
        self.names.insert(offset, found);
        Ok(found)
    }

    /// Drops the names that were read: most entries refer to entries of their own unit.
    pub(super) fn forget_names(&mut self) {
        self.names = HashMap::new();
    }

    fn own_names(&self, offset: usize, references: &mut Vec<usize>) -> Result<Names<'a>, UnitFailure> {
        let Some((start, unit)) = self.unit_at(offset) else { return Ok(Names::default()) };
        let mut entry = unit.entries_raw(Some(UnitOffset(offset - start)))?;
        let Some(abbreviation) = entry.read_abbreviation()? else { return Ok(Names::default()) };
        self.steps.take_entry(ObjectPart::Functions, abbreviation.attributes().len())?;
        let mut named = Named::default();
        for spec in abbreviation.attributes() {
            named.record_attribute(start, &entry.read_attribute(*spec)?, references);
        }
        // Reading a text in the entry itself means a search for its end.
        self.steps.take_bytes(ObjectPart::Functions, entry.next_offset().0.saturating_sub(offset - start))?;
        Ok(named.read_names(&self.dwarf, unit, self.steps)?)
    }
}

/// The name attributes of an entry, before any text is looked up.
#[derive(Default)]
pub(super) struct Named<'a> {
    linkage: Option<AttributeValue<DwarfSlice<'a>>>,
    plain: Option<AttributeValue<DwarfSlice<'a>>>,
    no_return: bool,
    has_value: bool,
}

impl<'a> Named<'a> {
    /// Records one attribute if it concerns the entry's name or its reference to another entry.
    pub(super) fn record_attribute(
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
            gimli::DW_AT_noreturn => self.no_return = attribute.value() == AttributeValue::Flag(true),
            gimli::DW_AT_type => self.has_value = true,
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => match attribute.value() {
                AttributeValue::UnitRef(offset) => references.push(start.saturating_add(offset.0)),
                AttributeValue::DebugInfoRef(offset) => references.push(offset.0),
                _ => {}
            },
            _ => {}
        }
    }

    /// Looks up the texts of the names.
    pub(super) fn read_names(
        self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<DwarfSlice<'a>>,
        steps: &Steps,
    ) -> Result<Names<'a>, ObjectError> {
        let look_up = |value| -> Result<Option<&'a [u8]>, ObjectError> {
            let Some(name) = dwarf.attr_string(unit, value).ok().map(|name| name.slice()) else {
                return Ok(None);
            };
            steps.take_bytes(ObjectPart::Functions, name.len())?;
            Ok(SymbolName::is_function(name).then_some(name))
        };
        let linkage = self.linkage.map_or(Ok(None), look_up)?;
        let plain = self.plain.map_or(Ok(None), look_up)?;
        Ok(Names { linkage, plain, no_return: self.no_return, has_value: self.has_value })
    }
}

/// True for a unit of split DWARF: one that refers to a `.dwo` file, or one in such a file. A unit without code
/// that refers to a file belongs to a clang module.
fn is_split<'a>(dwarf: &Dwarf<'a>, unit: &Unit<DwarfSlice<'a>>, steps: &Steps) -> Result<bool, ObjectError> {
    match unit.header.type_() {
        gimli::UnitType::SplitCompilation(_) => Ok(true),
        gimli::UnitType::Skeleton(_) => has_code(dwarf, unit, steps),
        gimli::UnitType::Compilation if matches!(unit.dwo_name(), Ok(Some(_))) => {
            has_code(dwarf, unit, steps)
        }
        _ => Ok(false),
    }
}

/// True if a unit has an address range.
fn has_code<'a>(dwarf: &Dwarf<'a>, unit: &Unit<DwarfSlice<'a>>, steps: &Steps) -> Result<bool, ObjectError> {
    let mut has_code = false;
    let addresses = Addresses::read_unit(dwarf, unit);
    let read = addresses.map_err(UnitFailure::Unit).and_then(|addresses| {
        let list = addresses.list_offset(dwarf, unit)?;
        addresses.each_range(list, dwarf, unit, steps, |_, _| {
            has_code = true;
            false
        })
    });
    match read {
        Err(UnitFailure::Object(error)) => Err(error),
        Err(UnitFailure::Unit(_)) | Ok(()) => Ok(has_code),
    }
}

/// Counts the steps of reading a unit: its first entry, its texts, and the lists of files of its line program.
fn count_unit(unit: &Unit<DwarfSlice<'_>>, steps: &Steps) -> Result<(), ObjectError> {
    let attributes = match unit.entries_raw(None) {
        Ok(mut entries) => {
            entries.read_abbreviation().ok().flatten().map_or(0, |first| first.attributes().len())
        }
        Err(_) => 0,
    };
    let texts = [unit.name, unit.comp_dir].into_iter().flatten().map(|text| text.len()).sum::<usize>();
    let files = unit.line_program.as_ref().map_or(0, |program| program.header().header_length());
    steps.take_entry(ObjectPart::Units, attributes)?;
    steps.take_bytes(ObjectPart::Units, texts)?;
    steps.take_bytes(ObjectPart::Lines, files)
}

/// Returns the numbers that occur more than once, each once and ascending.
fn find_repeated(mut numbers: Vec<usize>) -> Vec<usize> {
    numbers.sort_unstable();
    numbers.chunk_by(|a, b| a == b).filter(|equal| equal.len() > 1).map(|equal| equal[0]).collect()
}

pub(super) fn add_warning(warnings: &mut Vec<String>, unit: usize, error: &gimli::Error) {
    const UNIT_WARNINGS_LIMIT: usize = 20;
    if warnings.len() < UNIT_WARNINGS_LIMIT {
        warnings.push(format!("unit {unit:#x} of the debug information: {error}"));
    }
}

/// Returns the error for an object with DWARF of which nothing can be read.
pub(super) fn unreadable_error(warnings: &[String]) -> ObjectError {
    warnings.first().map_or_else(
        || malformed_error("no unit of the debug information can be read"),
        |first| ObjectError::Malformed(first.clone().into()),
    )
}

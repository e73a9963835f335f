//! Functions with their calls, blocks and variables.

use super::describe::{Entry, find_attribute, find_name, find_type, referred};
use super::forms::strip_qualifiers;
use super::{DwarfBytes, TableBuildError, TableBuilder};
use crate::codec::TableWriter;
use crate::table::VariableKind;
use crate::units::{UnitFacts, UnitLanguage};
use gimli::{AttributeValue, EntriesCursor, Expression, Operation, Unit, constants};

/// The most scopes in each other. Deeper ones are left out.
const DEPTH_LIMIT: usize = 60;
/// The most bytes of an expression or a constant.
const PLACE_BYTES_LIMIT: usize = 4_096;

/// The most arrays in each other that a global variable is searched through.
const ARRAY_DEPTH_LIMIT: usize = 4;

/// A part of the image: its start relative to the image, and its size.
type ImageRange = (u64, u64);

/// A scope of a function that is read.
#[derive(Debug, Default)]
struct Scope {
    /// The place of the function's name in the pool; `None` for a block.
    name: Option<u64>,
    ranges: Vec<ImageRange>,
    variables: Vec<ScopeVariable>,
    scopes: Vec<Scope>,
}

/// A variable of a scope that is read.
#[derive(Debug)]
struct ScopeVariable {
    /// The offset of its entry in `.debug_info`.
    die: u64,
    /// All else that the table has of it.
    written: TableWriter,
}

impl Scope {
    /// Writes the scope of a function whose entry is at `function_die`.
    fn write(&self, function_die: u64, out: &mut TableWriter) {
        out.write_number(self.name.map_or(0, |name| name + 1));
        out.write_count(self.ranges.len());
        for (start, size) in &self.ranges {
            out.write_number(*start);
            out.write_number(*size);
        }
        out.write_count(self.variables.len());
        // The entries of a scope come one after the other, so most distances have one byte.
        let mut last = function_die;
        for variable in &self.variables {
            out.write_number(variable.die.saturating_sub(last));
            out.bytes.extend_from_slice(&variable.written.bytes);
            last = variable.die;
        }
        out.write_count(self.scopes.len());
        for scope in &self.scopes {
            scope.write(function_die, out);
        }
    }

    fn has_variables(&self) -> bool {
        !self.variables.is_empty() || self.scopes.iter().any(Scope::has_variables)
    }
}

impl<'d> TableBuilder<'_, 'd> {
    /// Adds the functions of a unit.
    pub fn add_unit(&mut self, unit: &Unit<DwarfBytes<'d>>) -> Result<(), TableBuildError> {
        let prologues = self.find_prologue_ends(unit);
        let mut cursor = unit.entries();
        let mut has_entry = cursor.next_dfs()?.is_some();
        let language = cursor.current().map(find_language).unwrap_or_default();
        self.has_templates = language == UnitLanguage::CFamily;
        self.parts.units.push(UnitFacts { language, has_global_pointers: false });
        while has_entry {
            self.count_entry()?;
            let entry = current_entry(&cursor)?;
            let ranges = if entry.tag() == constants::DW_TAG_subprogram {
                self.image_ranges(unit, &entry)?
            } else {
                Vec::new()
            };
            if entry.tag() == constants::DW_TAG_variable {
                self.note_global(unit, &entry)?;
            }
            if ranges.is_empty() {
                has_entry = cursor.next_dfs()?.is_some();
            } else {
                has_entry = self.add_function(unit, &mut cursor, ranges, &prologues)?;
            }
        }
        Ok(())
    }

    /// Adds the function of the cursor's entry, and moves the cursor behind it. Returns true if there is another entry.
    fn add_function(
        &mut self,
        unit: &Unit<DwarfBytes<'d>>,
        cursor: &mut EntriesCursor<'_, DwarfBytes<'d>>,
        ranges: Vec<ImageRange>,
        prologues: &[u64],
    ) -> Result<bool, TableBuildError> {
        let entry = current_entry(cursor)?;
        let frame_base = match entry.attr_value(constants::DW_AT_frame_base) {
            Some(AttributeValue::Exprloc(expression)) => expression.0.slice().to_vec(),
            _ => Vec::new(),
        };
        let function_die = find_die(unit, &entry);
        let mut root = Scope { name: self.entry_name(unit, &entry), ranges, ..Scope::default() };
        let has_entry = self.read_children(unit, cursor, &mut root, DEPTH_LIMIT)?;
        if !root.has_variables() {
            return Ok(has_entry);
        }
        // The row that ends the prologue comes after the function's first row.
        let (first, size) = root.ranges.first().copied().unwrap_or_default();
        let behind = prologues.partition_point(|address| *address < first);
        let prologue_end = prologues.get(behind).copied().filter(|end| end - first < size).unwrap_or(0);
        let place = u32::try_from(self.parts.functions.bytes.len());
        let place = place.map_err(|_| TableBuildError::TooLarge { limit: self.limits.table_bytes })?;
        let out = &mut self.parts.functions;
        out.write_number(u64::from(unit.encoding().version));
        out.write_number(prologue_end);
        out.write_number(self.parts.units.len().saturating_sub(1) as u64);
        out.write_bytes(&frame_base);
        out.write_number(function_die);
        root.write(function_die, out);
        for (start, size) in &root.ranges {
            // Images of 4 GiB and more do not exist.
            if let (Ok(start), Ok(size)) = (u32::try_from(*start), u32::try_from(*size)) {
                self.parts.index.push([start, size, place]);
            }
        }
        Ok(has_entry)
    }

    /// Reads the entries in the cursor's entry, and moves the cursor behind them. Returns true if there is another entry.
    fn read_children(
        &mut self,
        unit: &Unit<DwarfBytes<'d>>,
        cursor: &mut EntriesCursor<'_, DwarfBytes<'d>>,
        scope: &mut Scope,
        depth_left: usize,
    ) -> Result<bool, TableBuildError> {
        let outer = cursor.depth();
        let mut has_entry = cursor.next_dfs()?.is_some();
        while has_entry && cursor.depth() > outer {
            self.count_entry()?;
            let entry = current_entry(cursor)?;
            match entry.tag() {
                constants::DW_TAG_formal_parameter => {
                    scope.variables.extend(self.write_variable(unit, &entry, VariableKind::Parameter)?);
                }
                constants::DW_TAG_variable => {
                    scope.variables.extend(self.write_variable(unit, &entry, VariableKind::Local)?);
                }
                constants::DW_TAG_lexical_block | constants::DW_TAG_inlined_subroutine if depth_left > 0 => {
                    let is_call = entry.tag() == constants::DW_TAG_inlined_subroutine;
                    let ranges = self.image_ranges(unit, &entry)?;
                    let name = if is_call { self.entry_name(unit, &entry) } else { None };
                    let mut inner = Scope { name, ranges, ..Scope::default() };
                    // An inlined call without an address was optimised away.
                    let exists = !is_call || !inner.ranges.is_empty();
                    has_entry = self.read_children(unit, cursor, &mut inner, depth_left - 1)?;
                    if exists && (is_call || inner.has_variables()) {
                        scope.scopes.push(inner);
                    }
                    continue;
                }
                _ => {
                    has_entry = skip_children(cursor)?;
                    continue;
                }
            }
            has_entry = skip_children(cursor)?;
        }
        Ok(has_entry)
    }

    fn entry_name(&mut self, unit: &Unit<DwarfBytes<'d>>, entry: &Entry<'d>) -> Option<u64> {
        let name = find_name(self.dwarf, unit, entry).unwrap_or_default();
        Some(self.intern_text(&name))
    }

    fn image_ranges(
        &self,
        unit: &Unit<DwarfBytes<'d>>,
        entry: &Entry<'d>,
    ) -> Result<Vec<ImageRange>, TableBuildError> {
        let mut found = Vec::new();
        let mut ranges = self.dwarf.die_ranges(unit, entry)?;
        while let Some(range) = ranges.next()? {
            if let Some(start) = range.begin.checked_sub(self.image_address)
                && range.end > range.begin
            {
                found.push((start, range.end - range.begin));
            }
        }
        Ok(found)
    }

    /// Writes a variable with all its places; `None` if it has no name.
    fn write_variable(
        &mut self,
        unit: &Unit<DwarfBytes<'d>>,
        entry: &Entry<'d>,
        kind: VariableKind,
    ) -> Result<Option<ScopeVariable>, TableBuildError> {
        let Some(name) = find_name(self.dwarf, unit, entry).filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let places = self.find_places(unit, entry)?;
        let is_data = places.iter().any(|place| place.tag == PlaceTag::Data);
        if is_data {
            self.note_global(unit, entry)?;
        }
        let mut written = TableWriter::default();
        written.write_number(self.intern_text(&name));
        let entry_type = find_type(unit, entry);
        written.write_number(self.intern_type(unit, entry_type));
        written.write_number(if is_data { VariableKind::Static } else { kind }.code());
        written.write_count(places.len());
        for Place { range: (start, size), tag, bytes } in places {
            written.write_number(start);
            written.write_number(size);
            written.write_number(tag as u64);
            written.write_bytes(&bytes);
        }
        Ok(Some(ScopeVariable { die: find_die(unit, entry), written }))
    }

    /// Records in the unit's facts that it has a global variable which leads to other data.
    fn note_global(&mut self, unit: &Unit<DwarfBytes<'d>>, entry: &Entry<'d>) -> Result<(), TableBuildError> {
        let is_data = self.find_places(unit, entry)?.iter().any(|place| place.tag == PlaceTag::Data);
        let leads_on = || {
            let mut core = find_type(unit, entry);
            // An array leads to what its elements lead to.
            for _ in 0..ARRAY_DEPTH_LIMIT {
                let inner = unit.entry(strip_qualifiers(unit, core?)?).ok()?;
                match inner.tag() {
                    constants::DW_TAG_array_type => core = referred(unit, &inner, constants::DW_AT_type),
                    constants::DW_TAG_base_type | constants::DW_TAG_enumeration_type => return None,
                    _ => return Some(()),
                }
            }
            Some(())
        };
        if is_data
            && leads_on().is_some()
            && let Some(facts) = self.parts.units.last_mut()
        {
            facts.has_global_pointers = true;
        }
        Ok(())
    }

    fn find_places(
        &self,
        unit: &Unit<DwarfBytes<'d>>,
        entry: &Entry<'d>,
    ) -> Result<Vec<Place>, TableBuildError> {
        if let Some(constant) = find_attribute(unit, entry, constants::DW_AT_const_value) {
            let bytes = constant_bytes(&constant);
            return Ok(bytes.into_iter().map(|bytes| Place::everywhere(PlaceTag::Constant, bytes)).collect());
        }
        let Some(value) = entry.attr_value(constants::DW_AT_location) else { return Ok(Vec::new()) };
        if let AttributeValue::Exprloc(expression) = value {
            let tag = place_tag(unit, expression);
            return Ok(vec![Place::everywhere(tag, expression.0.slice().to_vec())]);
        }
        let mut places = Vec::new();
        if let Some(mut list) = self.dwarf.attr_locations(unit, value)? {
            while let Some(location) = list.next()? {
                let (begin, end) = (location.range.begin, location.range.end);
                let Some(start) = begin.checked_sub(self.image_address) else { continue };
                let bytes = location.data.0.slice();
                if end > begin && bytes.len() <= PLACE_BYTES_LIMIT {
                    let tag = place_tag(unit, location.data);
                    places.push(Place { range: (start, end - begin), tag, bytes: bytes.to_vec() });
                }
            }
        }
        Ok(places)
    }

    /// Returns the addresses of the rows that end a prologue, sorted and relative to the image. A damaged line table has
    /// none.
    fn find_prologue_ends(&self, unit: &Unit<DwarfBytes<'d>>) -> Vec<u64> {
        let Some(program) = unit.line_program.clone() else { return Vec::new() };
        let mut ends = Vec::new();
        let mut rows = program.rows();
        while let Ok(Some((_, row))) = rows.next_row() {
            if row.prologue_end()
                && let Some(address) = row.address().checked_sub(self.image_address)
            {
                ends.push(address);
            }
        }
        ends.sort_unstable();
        ends
    }
}

fn find_language(root: &Entry<'_>) -> UnitLanguage {
    match root.attr_value(constants::DW_AT_language) {
        Some(AttributeValue::Language(language)) => match language {
            constants::DW_LANG_C89
            | constants::DW_LANG_C
            | constants::DW_LANG_C99
            | constants::DW_LANG_C11
            | constants::DW_LANG_C17
            | constants::DW_LANG_C_plus_plus
            | constants::DW_LANG_C_plus_plus_03
            | constants::DW_LANG_C_plus_plus_11
            | constants::DW_LANG_C_plus_plus_14
            | constants::DW_LANG_C_plus_plus_17
            | constants::DW_LANG_C_plus_plus_20
            | constants::DW_LANG_ObjC
            | constants::DW_LANG_ObjC_plus_plus => UnitLanguage::CFamily,
            constants::DW_LANG_Swift => UnitLanguage::Swift,
            constants::DW_LANG_Rust => UnitLanguage::Rust,
            _ => UnitLanguage::Other,
        },
        _ => UnitLanguage::Other,
    }
}

/// What the bytes of a place are. The numbers are those of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceTag {
    Expression = 0,
    Constant = 1,
    Data = 2,
}

#[derive(Debug)]
struct Place {
    /// A size of 0 means everywhere.
    range: ImageRange,
    tag: PlaceTag,
    bytes: Vec<u8>,
}

impl Place {
    fn everywhere(tag: PlaceTag, bytes: Vec<u8>) -> Place {
        Place { range: (0, 0), tag, bytes }
    }
}

/// Returns the bytes of a constant, as many as a number can have: the type cuts them.
fn constant_bytes(value: &AttributeValue<DwarfBytes<'_>>) -> Option<Vec<u8>> {
    match value {
        AttributeValue::Block(bytes) if bytes.len() <= PLACE_BYTES_LIMIT => Some(bytes.slice().to_vec()),
        AttributeValue::String(text) => Some(text.slice().to_vec()),
        // The form says the width, and the sign that extends it.
        AttributeValue::Sdata(number) => Some(number.to_le_bytes().to_vec()),
        _ => value.udata_value().map(|number| number.to_le_bytes().to_vec()),
    }
}

/// Returns what an expression leads to: data of the image if it begins with an address.
fn place_tag(unit: &Unit<DwarfBytes<'_>>, expression: Expression<DwarfBytes<'_>>) -> PlaceTag {
    let first = expression.operations(unit.encoding()).next();
    match first {
        Ok(Some(Operation::Address { .. } | Operation::AddressIndex { .. })) => PlaceTag::Data,
        _ => PlaceTag::Expression,
    }
}

/// Returns the offset of an entry in `.debug_info`.
fn find_die(unit: &Unit<DwarfBytes<'_>>, entry: &Entry<'_>) -> u64 {
    entry.offset().to_debug_info_offset(&unit.header).map_or(0, |offset| offset.0 as u64)
}

/// Returns the entry of a cursor that is at one.
fn current_entry<'d>(cursor: &EntriesCursor<'_, DwarfBytes<'d>>) -> Result<Entry<'d>, gimli::Error> {
    cursor.current().cloned().ok_or(gimli::Error::MissingUnitDie)
}

/// Moves the cursor behind the entries in its entry. Returns true if there is another entry.
fn skip_children(cursor: &mut EntriesCursor<'_, DwarfBytes<'_>>) -> Result<bool, TableBuildError> {
    let outer = cursor.depth();
    loop {
        if cursor.next_dfs()?.is_none() {
            return Ok(false);
        }
        if cursor.depth() <= outer {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(die: u64) -> ScopeVariable {
        ScopeVariable { die, written: TableWriter { bytes: vec![0xee] } }
    }

    #[test]
    fn variables_have_the_distances_of_their_entries() {
        let block = Scope { variables: vec![variable(400)], ..Scope::default() };
        let function = Scope {
            name: Some(4),
            ranges: vec![(16, 8)],
            variables: vec![variable(105), variable(320)],
            scopes: vec![block],
        };
        let mut out = TableWriter::default();
        function.write(100, &mut out);
        // A change of these bytes needs another version of the table, and another name of the derived object.
        let block = [0, 0, 1, 0xac, 2, 0xee, 0];
        let expected = [&[5, 1, 16, 8, 2, 5, 0xee, 0xd7, 1, 0xee, 1][..], &block].concat();
        assert_eq!(out.bytes, expected);
    }
}

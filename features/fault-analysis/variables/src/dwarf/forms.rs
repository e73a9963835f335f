//! Types with their parts. The parts of a type are read after the type itself has a number: types refer to each other in
//! circles.

use super::describe::{Entry, describe_type, find_name, referred};
use super::{DwarfBytes, TableBuildError, TableBuilder};
use crate::codec::TableWriter;
use crate::type_parts::{WrittenForm, WrittenMember};
use gimli::{AttributeValue, Unit, UnitOffset, constants};

/// The most typedefs and qualifiers around a type.
const QUALIFIERS_LIMIT: usize = 16;
/// The most members of a type. The parts of a larger one are left out.
const MEMBERS_LIMIT: usize = 512;

/// A type that has no parts yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingType {
    id: usize,
    entry: UnitOffset,
}

/// A member as the debug information has it.
struct DwarfMember {
    name: String,
    offset: u64,
    member_type: Option<UnitOffset>,
    is_bit_field: bool,
}

/// The parts of a type as the debug information has them.
enum DwarfForm {
    Plain,
    Pointer { target: Option<UnitOffset>, is_reference: bool },
    Structure { members: Vec<DwarfMember>, is_union: bool },
    Array { element: Option<UnitOffset>, count: u64 },
}

impl<'d> TableBuilder<'_, 'd> {
    /// Returns the number of the type of an entry, and adds it if it is new.
    pub fn intern_type(&mut self, unit: &Unit<DwarfBytes<'d>>, entry: Option<UnitOffset>) -> u64 {
        if let Some(known) = entry.and_then(|entry| self.described.get(&entry.0)) {
            return *known;
        }
        let described = describe_type(&self.names(), unit, entry);
        let mut key = vec![self.intern_text(&described.name), described.size, described.kind.code()];
        let core = entry.and_then(|entry| strip_qualifiers(unit, entry));
        self.add_form_key(unit, core, &mut key, 1);
        let next = self.parts.types.len();
        let id = *self.types.entry(key.clone()).or_insert(next as u64);
        if id == next as u64 {
            let mut head = TableWriter::default();
            key.iter().take(3).for_each(|number| head.write_number(*number));
            self.type_bytes += head.bytes.len() + key.len();
            self.parts.types.push(head);
            match core {
                Some(entry) => self.pending.push(PendingType { id: next, entry }),
                None => self.write_form(next, &WrittenForm::Plain),
            }
        }
        if let Some(entry) = entry {
            self.described.insert(entry.0, id);
        }
        id
    }

    /// Reads the parts of the unit's new types, and of those that they lead to.
    pub fn write_pending_types(&mut self, unit: &Unit<DwarfBytes<'d>>) -> Result<(), TableBuildError> {
        while let Some(PendingType { id, entry }) = self.pending.pop() {
            let counted = self.count_entry();
            let form = match read_form(self, unit, entry) {
                DwarfForm::Plain => WrittenForm::Plain,
                DwarfForm::Pointer { target, is_reference } => {
                    let target = target.map(|target| self.intern_type(unit, Some(target)));
                    WrittenForm::Pointer { target, is_reference }
                }
                DwarfForm::Array { element, count } => {
                    WrittenForm::Array { element: self.intern_type(unit, element), count }
                }
                DwarfForm::Structure { members, is_union } => {
                    let members = members.into_iter().map(|member| WrittenMember {
                        name: self.intern_text(&member.name),
                        offset: member.offset,
                        type_id: self.intern_type(unit, member.member_type),
                        is_bit_field: member.is_bit_field,
                    });
                    WrittenForm::Structure { members: members.collect(), is_union }
                }
            };
            self.write_form(id, &form);
            counted?;
        }
        Ok(())
    }

    fn write_form(&mut self, id: usize, form: &WrittenForm) {
        if let Some(out) = self.parts.types.get_mut(id) {
            let before = out.bytes.len();
            form.write(out);
            self.type_bytes += out.bytes.len() - before;
        }
    }

    /// Adds the parts of a type to its key: their names and offsets, and those of a pointer's target.
    fn add_form_key(
        &mut self,
        unit: &Unit<DwarfBytes<'d>>,
        entry: Option<UnitOffset>,
        key: &mut Vec<u64>,
        targets_left: usize,
    ) {
        let Some(entry) = entry else { return };
        match read_form(self, unit, entry) {
            DwarfForm::Plain => key.push(0),
            DwarfForm::Pointer { target, is_reference } => {
                key.extend([1, u64::from(is_reference)]);
                let core = target.and_then(|target| strip_qualifiers(unit, target));
                if targets_left > 0 {
                    self.add_form_key(unit, core, key, targets_left - 1);
                }
            }
            DwarfForm::Array { element, count } => {
                let name = describe_type(&self.names(), unit, element).name;
                key.extend([4, self.intern_text(&name), count]);
            }
            DwarfForm::Structure { members, is_union } => {
                key.push(if is_union { 3 } else { 2 });
                for member in members {
                    let described = describe_type(&self.names(), unit, member.member_type);
                    let name = self.intern_text(&described.name);
                    let member_name = self.intern_text(&member.name);
                    key.extend([member_name, member.offset, u64::from(member.is_bit_field)]);
                    key.extend([name, described.size]);
                }
            }
        }
    }
}

/// Returns the type inside typedefs and qualifiers; `None` is `void`.
pub(super) fn strip_qualifiers(unit: &Unit<DwarfBytes<'_>>, entry: UnitOffset) -> Option<UnitOffset> {
    let mut offset = entry;
    for _ in 0..QUALIFIERS_LIMIT {
        let entry = unit.entry(offset).ok()?;
        match entry.tag() {
            constants::DW_TAG_typedef
            | constants::DW_TAG_const_type
            | constants::DW_TAG_volatile_type
            | constants::DW_TAG_restrict_type
            | constants::DW_TAG_atomic_type => offset = referred(unit, &entry, constants::DW_AT_type)?,
            _ => return Some(offset),
        }
    }
    None
}

fn read_form<'d>(
    builder: &TableBuilder<'_, 'd>,
    unit: &Unit<DwarfBytes<'d>>,
    offset: UnitOffset,
) -> DwarfForm {
    let Ok(entry) = unit.entry(offset) else { return DwarfForm::Plain };
    let inner = referred(unit, &entry, constants::DW_AT_type);
    match entry.tag() {
        constants::DW_TAG_pointer_type => DwarfForm::Pointer { target: inner, is_reference: false },
        constants::DW_TAG_reference_type | constants::DW_TAG_rvalue_reference_type => {
            DwarfForm::Pointer { target: inner, is_reference: true }
        }
        constants::DW_TAG_array_type => {
            let whole = describe_type(&builder.names(), unit, Some(offset)).size;
            let element = describe_type(&builder.names(), unit, inner).size;
            DwarfForm::Array { element: inner, count: whole.checked_div(element).unwrap_or(0) }
        }
        constants::DW_TAG_structure_type | constants::DW_TAG_class_type => {
            read_members(builder, unit, &entry, false)
        }
        constants::DW_TAG_union_type => read_members(builder, unit, &entry, true),
        _ => DwarfForm::Plain,
    }
}

fn read_members<'d>(
    builder: &TableBuilder<'_, 'd>,
    unit: &Unit<DwarfBytes<'d>>,
    entry: &Entry<'d>,
    is_union: bool,
) -> DwarfForm {
    let mut members = Vec::new();
    let Ok(mut cursor) = unit.entries_at_offset(entry.offset()) else { return DwarfForm::Plain };
    let Ok(Some(_)) = cursor.next_dfs() else { return DwarfForm::Plain };
    while let Ok(Some(child)) = cursor.next_dfs() {
        if child.depth() <= 0 {
            break;
        }
        let is_part = matches!(child.tag(), constants::DW_TAG_member | constants::DW_TAG_inheritance);
        // Static members have no place in the structure.
        if child.depth() != 1 || !is_part || child.attr_value(constants::DW_AT_external).is_some() {
            continue;
        }
        let number = |name| child.attr_value(name).and_then(|value: AttributeValue<_>| value.udata_value());
        let bits = number(constants::DW_AT_data_bit_offset);
        let location = child.attr_value(constants::DW_AT_data_member_location);
        let offset = match (bits, &location) {
            (Some(bits), _) => Some(bits / 8),
            (None, Some(value)) => value.udata_value(),
            (None, None) => Some(0),
        };
        // The place of a virtual base class is not a constant.
        let Some(offset) = offset else { continue };
        let has_name = child.tag() == constants::DW_TAG_member;
        let name = if has_name { find_name(builder.dwarf, unit, child) } else { None };
        members.push(DwarfMember {
            name: name.unwrap_or_default(),
            offset,
            member_type: referred(unit, child, constants::DW_AT_type),
            is_bit_field: bits.is_some() || child.attr_value(constants::DW_AT_bit_size).is_some(),
        });
        if members.len() > MEMBERS_LIMIT {
            return DwarfForm::Plain;
        }
    }
    DwarfForm::Structure { members, is_union }
}

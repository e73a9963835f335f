//! The addresses of an entry: a range, or a list of ranges that entries may share.

use super::sections::{Dwarf, DwarfSlice, UnitFailure};
use crate::object::steps::{ObjectPart, Steps};
use gimli::{Attribute, AttributeValue, Unit};

/// Everything that determines the meaning of a list of ranges: its offset, the offset of the unit's addresses,
/// and the base address.
pub(super) type RangeListKey = (usize, usize, u64, gimli::Encoding);

/// The address attributes of an entry.
#[derive(Default)]
pub(super) struct Addresses<'a> {
    /// The first address, if given.
    pub(super) low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    list: Option<AttributeValue<DwarfSlice<'a>>>,
}

impl<'a> Addresses<'a> {
    pub(super) fn record_attribute(
        &mut self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<DwarfSlice<'a>>,
        attribute: &Attribute<DwarfSlice<'a>>,
    ) {
        let address = || dwarf.attr_address(unit, attribute.value()).ok().flatten();
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

    /// Reads the address attributes of a unit's first entry.
    pub(super) fn read_unit(dwarf: &Dwarf<'a>, unit: &Unit<DwarfSlice<'a>>) -> gimli::Result<Addresses<'a>> {
        let mut entry = unit.entries_raw(None)?;
        let mut addresses = Addresses::default();
        if let Some(abbreviation) = entry.read_abbreviation()? {
            for spec in abbreviation.attributes() {
                addresses.record_attribute(dwarf, unit, &entry.read_attribute(*spec)?);
            }
        }
        Ok(addresses)
    }

    /// Returns the offset of the list of ranges; `None` if there is no list.
    pub(super) fn list_offset(
        &self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<DwarfSlice<'a>>,
    ) -> gimli::Result<Option<usize>> {
        let Some(list) = self.list else { return Ok(None) };
        Ok(dwarf.attr_ranges_offset(unit, list)?.map(|offset| offset.0))
    }

    /// Calls `each` with every range until it returns false. The list is at `list`, if there is one.
    pub(super) fn each_range(
        &self,
        list: Option<usize>,
        dwarf: &Dwarf<'a>,
        unit: &Unit<DwarfSlice<'a>>,
        steps: &Steps,
        mut each: impl FnMut(u64, u64) -> bool,
    ) -> Result<(), UnitFailure> {
        if let Some(offset) = list {
            let mut list = dwarf.ranges(unit, gimli::RangeListsOffset(offset))?;
            // Entries that give no range count as steps too.
            while let Some(entry) = list.next_raw()? {
                steps.take_steps(ObjectPart::Ranges, 1)?;
                if let Some(range) = list.convert_raw(entry)?
                    && !each(range.begin, range.end)
                {
                    break;
                }
            }
        } else if let (None, Some(low)) = (self.list, self.low)
            && let Some(high) = self.size.map(|size| low.saturating_add(size)).or(self.high)
        {
            each(low, high);
        }
        Ok(())
    }
}

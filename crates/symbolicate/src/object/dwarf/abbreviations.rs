//! Bounds how much of the abbreviation tables is read. Tables may overlap: units may start to read one table at
//! many positions.

use super::sections::DwarfSlice;
use crate::object::ObjectError;
use crate::object::steps::{ObjectPart, Steps};
use gimli::{DebugAbbrev, Reader, Section, UnitHeader};

/// Counts the abbreviation tables that units refer to, each once.
pub(super) fn count_tables(
    units: &[UnitHeader<DwarfSlice<'_>>],
    section: &DebugAbbrev<DwarfSlice<'_>>,
    steps: &Steps,
) -> Result<(), ObjectError> {
    let mut offsets: Vec<usize> = units.iter().map(|unit| unit.debug_abbrev_offset().0).collect();
    offsets.sort_unstable();
    offsets.dedup();
    for offset in offsets {
        let mut rest = *section.reader();
        if rest.skip(offset).is_err() {
            continue;
        }
        while skip_abbreviation(&mut rest, steps)? {}
    }
    Ok(())
}

/// Skips an abbreviation. Returns false at the end of the table, or if it is damaged.
fn skip_abbreviation(rest: &mut DwarfSlice<'_>, steps: &Steps) -> Result<bool, ObjectError> {
    let before = rest.len();
    let skipped = skip_entry(rest);
    steps.take_bytes(ObjectPart::Abbreviations, before - rest.len())?;
    Ok(skipped.unwrap_or(false))
}

fn skip_entry(rest: &mut DwarfSlice<'_>) -> gimli::Result<bool> {
    let code = rest.read_uleb128()?;
    if code == 0 {
        return Ok(false);
    }
    // The tag, and the flag for children.
    rest.skip_leb128()?;
    rest.skip(1)?;
    loop {
        let (name, form) = (rest.read_uleb128()?, rest.read_uleb128()?);
        if name == 0 && form == 0 {
            return Ok(true);
        }
        if form == u64::from(gimli::DW_FORM_implicit_const.0) {
            rest.skip_leb128()?;
        }
    }
}

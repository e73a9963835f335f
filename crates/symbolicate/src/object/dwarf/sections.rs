//! The sections of debug information, and how much is abandoned if one is damaged.

use crate::object::ObjectError;
use crate::object::macho::MachFile;
use gimli::{EndianSlice, LittleEndian, SectionId};

pub(super) type DwarfSlice<'a> = EndianSlice<'a, LittleEndian>;
pub(super) type Dwarf<'a> = gimli::Dwarf<DwarfSlice<'a>>;

/// How much is abandoned after an error.
#[derive(Debug)]
pub(super) enum UnitFailure {
    /// The unit is damaged: the rest of it is skipped, with a warning.
    Unit(gimli::Error),
    /// The whole object is abandoned.
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

/// Loads the sections of debug information for gimli.
pub(super) fn load_sections<'a>(file: &MachFile<'a>) -> Result<Dwarf<'a>, ObjectError> {
    gimli::Dwarf::load(|id: SectionId| {
        let name = id.name().replacen('.', "__", 1);
        file.debug_section(&name).map(|bytes| EndianSlice::new(bytes, LittleEndian))
    })
}

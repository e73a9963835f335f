//! The table of variables of an image, from its dSYM.

use crate::binary::{BinaryError, find_image};
use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use object::{Architecture, Object, ObjectSection, ObjectSegment};
use unslide_fault_analysis_variables::{RegisterSet, TableBuildError, TableLimits, build_table};

/// The most characters of a section's name in a Mach-O file.
const SECTION_NAME_CHARS: usize = 16;

/// The reason for which a dSYM has no table of variables.
#[derive(Debug, thiserror::Error)]
pub enum DsymError {
    #[error(transparent)]
    File(#[from] BinaryError),
    #[error(transparent)]
    Build(#[from] TableBuildError),
    #[error("fault analysis knows no variables of this processor: only those of arm64 and x86_64")]
    Processor,
}

/// Makes the table of variables of the image with a UUID, from a Mach-O file or a universal file with debug information.
///
/// # Errors
/// The file has no such image, it is damaged, or the table is too large.
pub fn read_variable_table(file: &[u8], uuid: &[u8; 16], limits: &TableLimits) -> Result<Vec<u8>, DsymError> {
    let image = find_image(file, uuid)?;
    let object = object::File::parse(image).map_err(|_| BinaryError::Damaged)?;
    let registers = match object.architecture() {
        Architecture::Aarch64 => RegisterSet::Arm64,
        Architecture::X86_64 => RegisterSet::X86_64,
        _ => return Err(DsymError::Processor),
    };
    let text = object.segments().find(|segment| segment.name() == Ok(Some("__TEXT")));
    let base = text.ok_or(BinaryError::Damaged)?.address();
    let load = |id: SectionId| {
        let whole = format!("__debug_{}", id.name().trim_start_matches(".debug_"));
        let short: String = whole.chars().take(SECTION_NAME_CHARS).collect();
        let found = [whole, short].iter().find_map(|name| object.section_by_name(name));
        // A section that cannot be read is empty.
        let bytes = found.and_then(|section| section.data().ok()).unwrap_or_default();
        Ok::<_, gimli::Error>(EndianSlice::new(bytes, LittleEndian))
    };
    let dwarf: Dwarf<EndianSlice<'_, LittleEndian>> = Dwarf::load(load).map_err(TableBuildError::from)?;
    Ok(build_table(&dwarf, registers, base, limits)?)
}

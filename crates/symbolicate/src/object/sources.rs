//! The source files that debug information names, and whether it contains them.

use super::ObjectError;
use super::compressed::UnpackedSections;
use super::dwarf;
use super::macho::MachFile;
use super::steps::Steps;
use gimli::{DebugLine, DebugLineOffset, EndianSlice, LittleEndian};
use std::collections::BTreeSet;

/// Line tables that are checked: the compiler option usually applies to all of them.
const LOOKED_AT: usize = 64;

/// True if one of the first line tables contains source text (`DW_LNCT_LLVM_source`, an extension of
/// DWARF 5 that clang writes for `-gembed-source`). Unreadable tables count as having none, even if the
/// section lies outside the file: the names of a slice are useful without its sources.
pub(super) fn has_embedded_sources(file: &MachFile<'_>) -> bool {
    let section = file.debug_section("__debug_line").unwrap_or_default();
    let tables = DebugLine::from(EndianSlice::new(section, LittleEndian));
    let mut offset = 0;
    for _ in 0..LOOKED_AT {
        let Ok(program) = tables.program(DebugLineOffset(offset), 8, None, None) else { break };
        let header = program.header();
        if header.file_has_source() {
            return true;
        }
        let length_bytes = usize::from(header.format().initial_length_size());
        offset = offset.saturating_add(header.unit_length()).saturating_add(length_bytes);
    }
    false
}

/// Returns the paths of the source files that the line tables of a Mach-O slice name, as the compiler wrote them.
/// A file without DWARF, or with DWARF in a compression that is not read, names none.
///
/// # Errors
/// Returns an error if the slice is damaged, or too complex for its size.
pub fn list_source_paths(slice: &[u8]) -> Result<BTreeSet<String>, ObjectError> {
    let file = MachFile::parse(slice)?;
    let unpacked = UnpackedSections::from_file(&file, u64::MAX)?;
    let mut steps = Steps::for_object(slice.len() as u64);
    steps.add_bytes(unpacked.unpacked_bytes());
    dwarf::list_source_paths(&file.with_unpacked(&unpacked.sections), &steps)
}

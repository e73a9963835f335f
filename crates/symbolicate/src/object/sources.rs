//! Whether debug information contains the source files that it names.

use super::macho::MachFile;
use gimli::{DebugLine, DebugLineOffset, EndianSlice, LittleEndian};

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

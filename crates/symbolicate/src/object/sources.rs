//! Whether debug information carries the source files that it names.

use super::macho::MachFile;
use gimli::{DebugLine, DebugLineOffset, EndianSlice, LittleEndian};

/// Line tables that are looked at: a compiler's option holds for all of them as a rule.
const LOOKED_AT: usize = 64;

/// True where one of the first line tables holds source text (`DW_LNCT_LLVM_source`, an extension of
/// DWARF 5 that clang writes for `-gembed-source`). What can't be read has none, also a section that lies
/// outside the file: the names of a slice are good without its sources.
pub(super) fn embedded(file: &MachFile<'_>) -> bool {
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

//! The table of the variables of a dSYM.

use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use unslide_fault_analysis_variables::{RegisterSet, TableLimits, build_table};
use unslide_symbolicate::object::DebugInfo;
use unslide_symbolicate::{DeriveError, DeriveResult, DerivedObject, DerivedSource};

/// The table of the variables of a dSYM.
pub const VARIABLES_TABLE: DerivedObject =
    DerivedObject { name: "variables-v3", source: DerivedSource::DebugInfo, derive: derive_table };

/// The largest table, and the most entries of debug information that its build reads.
const LIMITS: TableLimits = TableLimits { table_bytes: 96 << 20, entries: 60_000_000 };

fn derive_table(slice: &[u8]) -> DeriveResult {
    let info = DebugInfo::read(slice).map_err(|error| DeriveError(error.to_string()))?;
    let Some(info) = info else { return Ok(None) };
    let Some(registers) = RegisterSet::for_cpu(info.cpu.family()) else { return Ok(None) };
    let load = |id: SectionId| {
        let name = format!("__{}", id.name().trim_start_matches('.'));
        info.section(&name).map(|bytes| EndianSlice::new(bytes, LittleEndian))
    };
    let dwarf = Dwarf::load(load).map_err(|error| DeriveError(error.to_string()))?;
    let table = build_table(&dwarf, registers, info.text_address, &LIMITS);
    table.map(Some).map_err(|error| DeriveError(error.to_string()))
}

//! Parts of Mach-O files: addresses, CPU types and names of symbols.

pub(super) mod address;
pub(super) mod cpu;
pub(super) mod dsym_search;
pub(super) mod quality;
pub(super) mod symbol_name;

//! What Mach-O files are made of.

pub(super) mod address;
pub(super) mod cpu;
pub(super) mod quality;
pub(super) mod symbol_name;

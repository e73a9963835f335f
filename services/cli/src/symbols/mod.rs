//! Symbols from files of this machine.

mod build;
mod bundles;
mod find;
mod found_files;
mod lacking;
mod library;

pub use build::{BUILD_SYMCACHE, BuildArguments};
pub use find::{Found, MachOFile, file_hash, find_files, mach_o};
pub use lacking::{LackedByReport, Lacking};
pub use library::{Library, ReportDerivatives};

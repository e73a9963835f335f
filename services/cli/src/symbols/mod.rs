//! Symbols from files of this machine.

mod build;
mod bundles;
mod lacking;
mod library;

pub use build::{BUILD_SYMCACHE, BuildArguments};
pub use lacking::{LackedByReport, Lacking};
pub use library::{Library, ReportDerivatives};

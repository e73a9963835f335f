//! System symbols as the API and its clients share them: builds with their images, coverage, the advice for a build that lacks
//! names, and the version and the build that a folder's name tells. [`dyld_cache`] reads the names of their libraries.

mod advice;
mod builds;
mod coverage;
pub mod dyld_cache;
mod release;

pub use advice::{FIRST_COMMAND, ImportAdvice, advise_import, format_release};
pub use builds::{BuildImages, MAX_PAGE_IMAGES, RecordedBuild, RemovedBuild};
pub use coverage::{BuildCoverage, CoverageState, SystemSymbolCoverage, UnnamedImage};
pub use release::{Release, is_build};

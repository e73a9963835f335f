//! Finds the builds to compare, fetches their symbols, and compares them on the CPU pool.

mod builds;
mod group;
mod outcome;
mod stack;
mod version;
mod versions;

pub use builds::{BuildDiff, diff_builds};
pub use group::{ImageChanges, StackChanges, find_group_changes};
pub use outcome::ChangesOutcome;
pub use version::{VersionChanges, find_version_changes};
pub use versions::choose_versions;

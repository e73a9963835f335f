//! Verdicts: by the API, on pages and by the command, over sessions and reports in a database.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commonalities;
mod counted_world;
mod groups;
mod regressions;
mod releases;

//! Queries of dashboards: one file per query.

pub mod apps;
pub mod duplicates;
pub mod durations;
pub mod groups;
pub mod missing;
pub mod names;
pub mod person;
pub mod report;
pub mod session;
pub mod trends;
pub mod versions;

use crate::database::days::day;
/// Lists of reports.
pub use crate::report_rows as reports;

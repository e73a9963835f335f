//! The pages of reports.

pub mod explain;
mod jetsam;
pub mod report;
pub mod reports;

//! The pages of reports.

pub mod explain;
pub mod report;
pub mod reports;

//! The pages of reports.

pub mod app_session;
pub mod context;
pub mod explain;
mod jetsam;
pub mod report;
pub mod report_filters;
pub mod reports;

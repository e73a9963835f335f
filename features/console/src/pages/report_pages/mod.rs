//! The pages of reports.

pub mod app_session;
pub mod context;
mod dropped_body;
pub mod explain;
mod jetsam;
pub mod report;
mod report_facts;
pub mod report_filters;
pub mod reports;

//! Reads of stored reports: the statements that only read table `reports` are made here.
//!
//! Lists and samples begin with a window of days, so that they lock few of the daily partitions.

mod filter;
mod groups;
mod images;
mod list;
mod neighbours;
mod row;
mod samples;
mod scan;
mod sources;
mod total;
mod windows;

pub use filter::ReportFilter;
pub(crate) use groups::GroupRows;
pub use list::{count_reports, list_reports};
#[cfg(test)]
pub(crate) use list::{explain, list_within};
pub use neighbours::find_neighbours;
pub(crate) use row::REPORT_COLUMNS;
pub use row::{ReportPage, ReportRow};
pub(crate) use samples::read_group_sample;
pub use samples::{PushSelect, Sample, SampleScope, read_samples};
#[cfg(test)]
pub(crate) use scan::ScanBudget;
pub use total::{ReportTotal, read_total};

//! Reads of stored reports: the statements that only read table `reports` are made here.
//!
//! Lists and samples begin with a window of days, so that they lock few of the daily partitions. Rows that have moved to ClickHouse
//! are a part of lists, of samples of groups, and of what a person sent.

mod filter;
mod groups;
mod images;
mod list;
mod matching;
mod neighbours;
mod persons;
mod row;
mod samples;
mod scan;
mod statement;
mod text_search;
mod total;

pub use filter::ReportFilter;
pub(crate) use groups::GroupRows;
pub use list::{count_reports, list_reports};
#[cfg(test)]
pub(crate) use list::{explain, list_within};
pub use neighbours::find_neighbours;
pub(crate) use persons::{PersonRows, list_of_runs, read_person_rows};
pub(crate) use row::REPORT_COLUMNS;
pub use row::{ReportPage, ReportRow};
pub(crate) use samples::read_group_sample;
pub use samples::{GroupedReport, ReportSample, SampleScope, list_newest_reports, read_samples};
#[cfg(test)]
pub(crate) use scan::ScanBudget;
pub use statement::sources::PushSelect;
pub(crate) use text_search::find_by_text;
pub use total::{ReportTotal, read_total};

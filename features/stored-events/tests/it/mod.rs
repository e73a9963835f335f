//! Events about stored reports: what is written with a report, and what readers of the topic get.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clickhouse;
mod cost;
mod publishing;
mod reports;
mod waiting;
mod writing;

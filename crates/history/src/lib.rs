//! Old rows of reports in ClickHouse: its client, its schema, and filters as statements.
//!
//! A row is the whole row of PostgreSQL as one JSON document. ClickHouse returns candidates; PostgreSQL confirms each of
//! them by its version under row-level security and decides the filter. So an outdated, deleted or foreign row in ClickHouse is
//! never shown, and a filter here has to be a superset only.
//!
//! Every value of a statement is a parameter that the server binds. Only names of the schema are part of its text.

#![warn(missing_docs)]

mod check;
mod client;
mod connection;
mod error;
mod filter;
mod rows;
mod schema;
mod settings;
mod statement;

pub use check::{HistoryCheck, HistoryPolicies};
pub use client::History;
pub use error::{HistoryError, HistoryResult};
pub use filter::HistoryFilter;
pub use rows::{HistoryOrder, HistoryPlace, HistoryRow, HistoryVersion};
pub use settings::HistorySettings;

/// Maximum number of rows of one insert, so that the server stores it as one block with one token.
pub const INSERT_ROWS_LIMIT: usize = 10_000;
/// Maximum number of rows that one call of [`History::find`] returns.
pub const FIND_ROWS_LIMIT: u32 = 10_000;

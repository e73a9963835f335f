//! Parquet exports: a builder writes the days of a tenant into buckets of this machine, and they are read back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bucket_server;
mod changes;
mod duckdb;
mod history;
mod hooks;
mod lake;
mod outages;
mod setting;
mod writing;

//! Files and names of symbols on real servers.
#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod command;
mod debuginfod_client;
mod download;
mod names;
mod world;

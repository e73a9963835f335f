//! Symbol sources: servers of this machine that play a tenant's bucket and symbol server, and a builder that asks them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asking;
mod bounds;
mod buckets;
mod setting;
mod shop;
mod symbol_server;

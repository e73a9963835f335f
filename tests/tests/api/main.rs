//! The api as its clients see it: over HTTP, against real PostgreSQL, Kafka and S3.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alerts;
mod cases;
mod console;
mod dead_letters;
mod events;
mod figures;
mod http;
mod limits;
mod lists;
mod mcp;
mod navigation;
mod openapi;
mod outline;
mod questions;
mod reports;
mod round_trips;
mod search;
mod signals;
mod statement_counts;
mod statements;
mod symbols;
mod tables;
mod tenants;
mod triage;
mod world;

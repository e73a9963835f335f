//! The api as its clients see it: over HTTP, against real PostgreSQL, Kafka and S3.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod keys_and_tenants;
mod openapi;
mod reports;
mod sending;
mod service;
mod symbolicating;
mod symbols;
mod uploads;
mod world;

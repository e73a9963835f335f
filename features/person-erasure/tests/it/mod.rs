//! Erasures of persons in a database with reports, sessions, metric payloads and captures.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod builder;
mod columns;
mod erasing;
mod erasure_fixture;
mod pages;

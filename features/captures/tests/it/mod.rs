//! Captures on real servers: their rows, and their analyses by a builder.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod analysis;
mod captures_builder;
mod runs;

//! Tests of the comparison of builds.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod builds;
mod corpus;
mod edits;
mod small;

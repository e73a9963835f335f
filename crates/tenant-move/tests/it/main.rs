//! Moves between two databases and two buckets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod history;
mod interrupting;
mod moving;
mod owners;
mod refusing;
mod world;

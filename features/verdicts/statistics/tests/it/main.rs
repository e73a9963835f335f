//! Simulated releases and fixes with fixed seeds: how often verdicts are wrong, and how soon they come.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contrast;
mod fix;
mod release;
mod simulation;

//! Owners of groups: an api that looks for them in stored reports.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;
mod looks;
mod owner_world;
mod pages;
mod routing;
mod sweeps;

//! The TestFlight inbox: a server that plays Apple's API, and an api that asks it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod apple;
mod failures;
mod inbox;
mod polling;
mod setting;
mod words;

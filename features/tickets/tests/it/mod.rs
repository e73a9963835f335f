//! Tickets: servers that play the APIs of trackers, and an api that asks them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commits;
mod creating;
mod failures;
mod following;
mod played;
mod products;
mod racing;
mod setting;
mod shop;
mod turns;

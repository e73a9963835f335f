//! Caps for bodies of reports, on a real database and with a running api.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;
mod body_bytes;
mod capped_day;
mod dropped_reports;
mod fixture;
mod waiting_bodies;

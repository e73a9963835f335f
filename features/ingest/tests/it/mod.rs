//! Reports from apps on real servers: keys, what apps send, and what is kept secret.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod erasing;
mod ingest_api;
mod keys;
mod overflow;
mod page;
mod secrecy;
mod sending;

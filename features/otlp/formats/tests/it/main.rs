//! Requests of OTLP, written by the protocol's own library, and the crashes in them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod forms;
mod requests;

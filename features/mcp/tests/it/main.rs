//! The protocol over HTTP, on an api without other features.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod endpoint;

//! Subjects of planned crashes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod lab;

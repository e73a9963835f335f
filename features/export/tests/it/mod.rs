//! Exports on real servers: the rows of live events, and lists as files of an api without other features.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod lists;
mod live_events;

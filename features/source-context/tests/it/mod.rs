//! Source files of tenants on real servers: the switch, uploads, the lines of a report, and their deletion.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod files;
mod source_world;
mod switch;

//! The builder against a real database, a real broker and a real S3 endpoint.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod builder_fixture;
mod child;
mod deletion;
mod failures;
mod feature;
mod late_symbols;
mod places;
mod regroup;
mod relay;
mod tenant_config;
mod uploads;

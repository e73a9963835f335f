//! Artifacts against a real S3 protocol endpoint and against memory, and archives of every kind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod archives;
mod bad_s3;
mod cache_bounds;
mod cache_races;
mod cache_versions;
mod cache_world;
mod corpus;
mod hostile_archives;
mod s3_server;
mod segments;
mod store_suite;
mod symcaches;

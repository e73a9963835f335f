//! Artifacts against a real S3 protocol endpoint and against memory, and archives of every kind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[global_allocator]
static ALLOCATOR: unslide_testkit::memory::Counting = unslide_testkit::memory::Counting;

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
mod sparse;
mod store_suite;
mod symcaches;

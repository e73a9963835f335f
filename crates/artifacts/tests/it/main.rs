//! Artifacts against a real S3 protocol endpoint and against memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[global_allocator]
static ALLOCATOR: unslide_testkit::memory::Counting = unslide_testkit::memory::Counting;

mod cache;
mod object_store;
mod segments;
